"""The node around its GPUs: paths, the driver's files, the kind of machine, IMEX channels.

An IMEX channel is a device node over which GPUs of several nodes share memory.

Source: cmd/nvidia-device-plugin/root.go and internal/imex/imex.go, ``GetChannels`` (k8s-device-plugin v0.19.0);
pkg/nvlib/info/root.go, property-extractor.go and resolver.go (go-nvlib v0.9.1). The error texts are the originals'.
"""

from __future__ import annotations

import errno
import logging
import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from ctypes import CDLL
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from ...command.options import on_host
from ...nvml.nvml import Nvml, NvmlError, session
from .discovery import DiscoveryError, visible_gpus

__all__ = ["DriverRoot", "ImexChannel", "ImexError", "Platform", "find_channels", "join", "platform_of"]

_log = logging.getLogger(__name__)


def join(*parts: str) -> str:
    """The parts with one slash between them, without empty parts, ``.``, ``..`` and doubled slashes.

    Source: path/filepath, ``Join`` (Go 1.26).
    """
    path = "/".join(part for part in parts if part)
    if not path:
        return ""
    clean = posixpath.normpath(path)
    # POSIX gives two leading slashes a meaning of their own, Go does not.
    return clean[1:] if clean.startswith("//") else clean


_LIBRARY_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)


class DriverRoot(NamedTuple):
    """The folder `path` of the node, whose root file system is seen at `host_root`; it need not be there.

    Libraries are not loaded from below it unless `has_libraries`.
    """

    path: str
    host_root: Path
    has_libraries: bool = True

    def file(self, path: str) -> Path:
        """Where this process sees a file below the driver's root."""
        return on_host(self.host_root, f"{self.path}/{path}")

    @property
    def dev_root(self) -> str:
        """The folder above the ``dev`` with the device nodes: this one if it has such a folder, else the node's."""
        return self.path if self.file("dev").is_dir() else "/"

    def library(self, name: str) -> str:
        """Return what to ask the loader for: a library's path if it exists below this root, else its name."""
        if self.path in ("", "/") or not self.has_libraries:
            return name
        for folder in _LIBRARY_FOLDERS:
            found = self.file(f"{folder}/{name}")
            if found.exists():
                return str(found.resolve())
        return name


_DXCORE: Final = "libdxcore.so"
_INTEGRATED: Final = ("(nvgpu)", "NVIDIA Thor")


class Platform(Enum):
    """Where GPUs are found."""

    NVML = auto()
    TEGRA = auto()
    WSL = auto()
    UNKNOWN = auto()


def platform_of(nvml: Nvml, driver_root: DriverRoot, *, has_nvml: bool) -> Platform:
    """The platform, from the libraries and files below the driver's root and the names of the GPUs."""
    if _has_dxcore(driver_root):
        return Platform.WSL
    if not has_nvml:
        return Platform.TEGRA if _has_tegra_files(driver_root) else Platform.UNKNOWN
    return Platform.TEGRA if _has_integrated_gpu(nvml) else Platform.NVML


def _has_dxcore(driver_root: DriverRoot) -> bool:
    try:
        CDLL(driver_root.library(_DXCORE))
    except OSError:
        return False
    return True


def _has_tegra_files(driver_root: DriverRoot) -> bool:
    if driver_root.file("etc/nv_tegra_release").is_file():
        return True
    try:
        family = driver_root.file("sys/devices/soc0/family").read_bytes()
    except OSError:
        return False
    return family.lower().startswith(b"tegra")


def _has_integrated_gpu(nvml: Nvml) -> bool:
    try:
        with session(nvml):
            names = [nvml.name(gpu) for _, gpu in visible_gpus(nvml)]
    except (NvmlError, DiscoveryError):
        return False
    return any(mark in name for name in names for mark in _INTEGRATED)


_FOLDER: Final = "/dev/nvidia-caps-imex-channels"


class ImexError(Exception):
    """A channel that is required is not there."""


class ImexChannel(NamedTuple):
    """One channel: its device node as a container has it, and as this plugin looks for it."""

    channel_id: str
    path: str
    host_path: str


def find_channels(
    channel_ids: Sequence[int], dev_root: str, *, is_required: bool, on_host: Callable[[Path], Path]
) -> tuple[ImexChannel, ...]:
    """The channels that are there, of those asked for.

    Args:
        channel_ids: which to look for.
        dev_root: the folder above the ``dev`` in which they are looked for first.
        is_required: whether all must be there.
        on_host: where this process sees a path of the node.

    Raises:
        ImexError: one is missing, or is no device node, though all must be there.
    """
    channels = []
    for number in channel_ids:
        name = f"channel{number}"
        path = join(_FOLDER, name)
        channel = ImexChannel(str(number), path, join(dev_root, path))
        complaints = _complaints(channel, on_host)
        if complaints is None:
            _log.info("Selecting IMEX channel %s", name)
            channels.append(channel)
        elif is_required:
            raise ImexError("\n".join((*complaints, f"requested IMEX channel {name} does not exist")))
        else:
            _log.warning("Ignoring requested IMEX channel %s (%s)", name, "\n".join(complaints) or "<nil>")
    return tuple(channels)


def _complaints(channel: ImexChannel, on_host: Callable[[Path], Path]) -> list[str] | None:
    """What is wrong with the nodes that are there; None when one of them will do."""
    complaints = []
    for path in dict.fromkeys((channel.host_path, channel.path)):
        try:
            mode = on_host(Path(path)).stat().st_mode
        except OSError as error:
            if error.errno != errno.ENOENT:
                complaints.append(f"stat {path}: {os.strerror(error.errno or 0).lower()}")
            continue
        if stat.S_ISCHR(mode):
            return None
        complaints.append(f"{path} is not a character device")
    return complaints
