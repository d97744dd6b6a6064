"""Where this process sees the driver's files, and what kind of machine this is, as far as finding GPUs goes.

Source: cmd/nvidia-device-plugin/root.go (k8s-device-plugin v0.19.0), pkg/nvlib/info/root.go, property-extractor.go and
resolver.go (go-nvlib v0.9.1).
"""

from __future__ import annotations

from ctypes import CDLL
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from ...nvml.nvml import Nvml, NvmlError, session
from .discovery import DiscoveryError, visible_gpus

__all__ = ["DriverRoot", "Platform", "platform_of"]

_LIBRARY_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)


class DriverRoot(NamedTuple):
    """The folder `path` of the node, whose root file system is seen at `host_root`; it need not be there."""

    path: str
    host_root: Path

    def file(self, path: str) -> Path:
        """Where this process sees a file below the driver's root."""
        return self.host_root / self.path.lstrip("/") / path.lstrip("/")

    @property
    def dev_root(self) -> str:
        """The folder above the ``dev`` with the device nodes: this one if it has such a folder, else the node's."""
        return self.path if self.file("dev").is_dir() else "/"

    def library(self, name: str) -> str:
        """Return what to ask the loader for: a library's path if it exists below this root, else its name."""
        if self.path in ("", "/"):
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
