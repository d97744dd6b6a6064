"""Writes the CDI specifications of the node: one file for each class of devices, again at each start.

Paths as this plugin's container has them become paths of the node: the driver may be seen below a folder that stands
for another of the node, or for its root. Paths inside the GPU's containers stay. What helps GPUs to move data are CDI
devices of one class each, all of it named ``all``.

Source: internal/cdi/cdi.go and imex.go (k8s-device-plugin v0.19.0), whose error texts these are;
pkg/nvcdi/transform/root/host-root.go, internal/discover/gdrcopy.go, gds.go and mofed.go (nvidia-container-toolkit
v1.19.0).
"""

from __future__ import annotations

import logging
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...nvml.nvml import Nvml, NvmlError, session
from ..config.settings import NvidiaSettings
from ..discovery.node import ImexChannel, join
from .driver import Driver
from .driver_edits import driver_edits
from .gpus import GpuDevices
from .hooks import HookMaker
from .model import CdiDevice, CdiSpec, DeviceNode, Edits, Mount
from .names import CDI_VENDOR
from .node_files import CdiError, NodeFiles

__all__ = ["RootChange", "mode_device", "on_node", "root_changes", "write_specs"]

_log = logging.getLogger(__name__)

_VOID: Final = Edits(env=("NVIDIA_VISIBLE_DEVICES=void",))
"""Keeps the NVIDIA container runtime from adding GPUs of its own."""
_EXPLICIT_LIBRARIES: Final = "enable-explicit-driver-libraries"
_COHERENCE: Final = "enable-coherent-annotations"


def write_specs(
    nvml: Nvml,
    settings: NvidiaSettings,
    channels: Sequence[ImexChannel],
    dev_root: str,
    on_host: Callable[[Path], Path],
) -> tuple[str, ...]:
    """Write the specification of each class that has anything in it.

    Args:
        nvml: asked for the GPUs, in a session of its own.
        settings: say what belongs to the node, and where things are.
        channels: the IMEX channels that containers may use.
        dev_root: the folder above the ``dev`` with the device nodes.
        on_host: where this process sees a path of the node.

    Returns:
        The optional modes that have a specification, in the order in which containers get them.

    Raises:
        CdiError: the GPUs or the driver cannot be described, or a file cannot be written.
    """
    files, dev = NodeFiles(settings.container_driver_root, on_host), NodeFiles(dev_root, on_host)
    folder = on_host(Path(settings.cdi_spec_dir))
    changes = root_changes(
        RootChange(settings.container_driver_root, settings.nvidia_driver_root or settings.container_driver_root),
        RootChange(dev_root, settings.nvidia_dev_root or dev_root),
    )
    _write(on_node(_gpu_spec(nvml, settings, files, dev), changes), folder)
    if channels:
        _write(on_node(_imex_spec(channels), changes), folder)
    return tuple(
        mode
        for mode in _modes(settings)
        if _write(
            on_node(CdiSpec(CDI_VENDOR, mode, (mode_device(mode, files, dev),), _VOID).simplified(), changes),
            folder,
        )
    )


def _modes(settings: NvidiaSettings) -> Iterator[str]:
    if settings.gdrcopy_enabled:
        yield "gdrcopy"
    if settings.gds_enabled:
        yield "gds"
    if settings.mofed_enabled:
        yield "mofed"


def _gpu_spec(nvml: Nvml, settings: NvidiaSettings, files: NodeFiles, dev: NodeFiles) -> CdiSpec:
    hooks = HookMaker(settings.nvidia_ctk_path)
    flags = settings.cdi_feature_flags
    try:
        with session(nvml):
            gpus = GpuDevices(nvml, dev, hooks, settings.device_id_strategy, tells_coherence=_COHERENCE in flags)
            devices = gpus.devices()
            driver = Driver(files, _driver_version(nvml))
            edits = driver_edits(driver, dev, hooks, with_explicit_libraries=_EXPLICIT_LIBRARIES in flags)
    except NvmlError as error:
        raise CdiError(f"failed to initialize NVML: {error}") from error
    except CdiError as error:
        raise CdiError(f"failed to get CDI spec: {error}") from error
    return CdiSpec(CDI_VENDOR, "gpu", devices, edits + _VOID).simplified()


def _driver_version(nvml: Nvml) -> str:
    """What NVML says; empty when it does not, and then the libraries' names count."""
    try:
        return nvml.driver_version()
    except NvmlError as error:
        _log.warning("Could not determine driver version: failed to get driver version: %s", error)
        return ""


def _imex_spec(channels: Sequence[ImexChannel]) -> CdiSpec:
    devices = (
        CdiDevice(channel.channel_id, Edits(device_nodes=(DeviceNode(channel.path, channel.host_path),)))
        for channel in channels
    )
    return CdiSpec(CDI_VENDOR, "imex-channel", tuple(devices)).simplified()


def _write(spec: CdiSpec, folder: Path) -> bool:
    """Write a specification, complete or not at all; one with a device that would change nothing is left out.

    Returns:
        Whether it is there.
    """
    kind = f"{spec.vendor}/{spec.device_class}"
    _log.info("Generating CDI spec for resource: %s", kind)
    if not spec.devices:
        raise CdiError("failed to save CDI spec: failed to write spec: invalid CDI Spec: invalid spec, no devices")
    if not all(device.edits for device in spec.devices):
        _log.error("Ignoring empty CDI specs of %s: a device would change nothing in a container", kind)
        return False
    place = folder / spec.file_name
    draft: str | None = None
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        file, draft = tempfile.mkstemp(prefix="spec.", suffix=".tmp", dir=folder)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(spec.to_text())
            os.fchmod(stream.fileno(), 0o644)
        Path(draft).replace(place)
    except OSError as error:
        if draft is not None:
            Path(draft).unlink(missing_ok=True)
        reason = f"{(error.strerror or str(error)).lower()}"
        raise CdiError(
            f"failed to save CDI spec: failed to write spec: failed to create Spec file: {folder}: {reason}"
        ) from error
    return True


@dataclass(frozen=True, slots=True)
class RootChange:
    """What is below `root` here is below `target` on the node."""

    root: str
    target: str

    def __call__(self, path: str) -> str:
        return join(self.target, path.removeprefix(self.root)) if path.startswith(self.root) else path


def root_changes(driver_root: RootChange, dev_root: RootChange) -> tuple[RootChange, ...]:
    """Those that change anything, in the order in which they are made."""
    changes = [driver_root]
    if dev_root.root not in (driver_root.root, ""):
        changes.append(RootChange(_dev_folder(dev_root.root), _dev_folder(dev_root.target)))
    return tuple(change for change in changes if change.root != change.target)


def on_node(spec: CdiSpec, changes: Sequence[RootChange]) -> CdiSpec:
    """The specification with the node's paths."""
    for change in changes:
        spec = replace(
            spec,
            edits=_changed(spec.edits, change),
            devices=tuple(replace(device, edits=_changed(device.edits, change)) for device in spec.devices),
        )
    return spec


def _changed(edits: Edits, change: RootChange) -> Edits:
    return replace(
        edits,
        device_nodes=tuple(replace(node, host_path=change(node.host_path or node.path)) for node in edits.device_nodes),
        hooks=tuple(replace(hook, path=change(hook.path)) for hook in edits.hooks),
        mounts=tuple(replace(mount, host_path=change(mount.host_path)) for mount in edits.mounts),
    )


def _dev_folder(root: str) -> str:
    return join(posixpath.normpath(root).removesuffix("/dev"), "/dev")


_NODES: Final = {
    "gdrcopy": ("/dev/gdrdrv",),
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}


def mode_device(mode: str, files: NodeFiles, dev: NodeFiles) -> CdiDevice:
    """The device of a mode, ``gdrcopy``, ``gds`` or ``mofed``; it has no edits where the node lacks the nodes.

    Args:
        mode: which.
        files: the files below the root of the driver.
        dev: the files below the root of the device nodes.
    """
    nodes = dev.nodes(_NODES[mode])
    mounts: tuple[Mount, ...] = ()
    if mode == "gds" and nodes:
        mounts = (
            *files.mounts(("/run/udev",), lambda path: files.find(path, accepts=Path.is_dir)),
            *files.mounts(("/etc/cufile.json",), files.find),
        )
    return CdiDevice("all", Edits(device_nodes=nodes, mounts=mounts))
