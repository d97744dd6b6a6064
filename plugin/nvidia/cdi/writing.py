"""Writes the CDI specifications of the node: one file for each class of devices, again at each start.

What helps GPUs to move data are CDI devices of one class each, all of it named ``all``.

Source: internal/cdi/cdi.go and imex.go (k8s-device-plugin v0.19.0), whose error texts these are;
internal/discover/gdrcopy.go, gds.go and mofed.go (nvidia-container-toolkit v1.19.0).
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from simkubelet.apis.cdi import CdiDevice, CdiSpec, ContainerEdits, DeviceNode, Mount

from ...nvml.nvml import Nvml, NvmlError, session
from ..config.settings import NvidiaSettings
from ..discovery.node import ImexChannel
from . import CDI_VENDOR
from .driver import Driver, driver_edits
from .gpus import GpuDevices
from .hooks import HookMaker
from .node_files import CdiError, NodeFiles
from .transforms import RootChange, on_node, root_changes, simplified

__all__ = ["mode_device", "write_specs"]

_log = logging.getLogger(__name__)

_VOID: Final = ContainerEdits(env=("NVIDIA_VISIBLE_DEVICES=void",))
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

    def written(device_class: str, devices: Sequence[CdiDevice], edits: ContainerEdits) -> bool:
        spec = CdiSpec(kind=f"{CDI_VENDOR}/{device_class}", devices=tuple(devices), container_edits=edits)
        return _write(on_node(simplified(spec), changes), folder)

    written("gpu", *_gpus(nvml, settings, files, dev))
    if channels:
        written("imex-channel", _imex_devices(channels), ContainerEdits())
    return tuple(mode for mode in _modes(settings) if written(mode, [mode_device(mode, files, dev)], _VOID))


def _modes(settings: NvidiaSettings) -> Iterator[str]:
    if settings.gdrcopy_enabled:
        yield "gdrcopy"
    if settings.gds_enabled:
        yield "gds"
    if settings.mofed_enabled:
        yield "mofed"


def _gpus(
    nvml: Nvml, settings: NvidiaSettings, files: NodeFiles, dev: NodeFiles
) -> tuple[Sequence[CdiDevice], ContainerEdits]:
    """The GPUs and what they have in common."""
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
    return devices, edits + _VOID


def _driver_version(nvml: Nvml) -> str:
    """What NVML says; empty when it does not, and then the libraries' names count."""
    try:
        return nvml.driver_version()
    except NvmlError as error:
        _log.warning("Could not determine driver version: failed to get driver version: %s", error)
        return ""


def _imex_devices(channels: Sequence[ImexChannel]) -> list[CdiDevice]:
    return [
        CdiDevice(
            channel.channel_id,
            container_edits=ContainerEdits(device_nodes=(DeviceNode(channel.path, channel.host_path),)),
        )
        for channel in channels
    ]


def _write(spec: CdiSpec, folder: Path) -> bool:
    """Write a specification, complete or not at all; one with a device that would change nothing is left out.

    Returns:
        Whether it is there.
    """
    _log.info("Generating CDI spec for resource: %s", spec.kind)
    if not spec.devices:
        raise CdiError("failed to save CDI spec: failed to write spec: invalid CDI Spec: invalid spec, no devices")
    if any(device.container_edits.is_empty for device in spec.devices):
        _log.error("Ignoring empty CDI specs of %s: a device would change nothing in a container", spec.kind)
        return False
    place = folder / f"{spec.kind.replace('/', '-')}.json"
    draft: str | None = None
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        file, draft = tempfile.mkstemp(prefix="spec.", suffix=".tmp", dir=folder)
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            stream.write(_text(spec))
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


def _text(spec: CdiSpec) -> str:
    text = json.dumps(
        replace(spec, cdi_version=spec.needed_version()).to_json(), ensure_ascii=False, separators=(",", ":")
    )
    # As Go's encoding/json has it, so that JSON may be put into HTML.
    for character in "&<>\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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
    return CdiDevice("all", container_edits=ContainerEdits(device_nodes=nodes, mounts=mounts))
