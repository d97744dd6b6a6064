"""AMD GPUs as files: what the amdgpu driver and KFD show in sysfs, and the device nodes.

::

    sys/devices/pci0000:…/<address>/…          PCI functions, with partitions, NUMA node, drm/card<n>, drm/renderD<n>
    sys/devices/platform/amdgpu_xcp_<n>/drm/…  further partitions of a GPU
    sys/devices/virtual/kfd/kfd/topology/…     nodes with properties, memory and links
    sys/bus/pci/…  sys/class/drm/…  sys/class/kfd/…  sys/module/amdgpu/…      links to these
    dev/kfd  dev/dri/card<n>  dev/dri/renderD<n>
    exporter/<device>                          health of each device, which the exporter reports

Links are relative: a program sees the GPUs by a mount over ``/sys`` and ``/dev``, or by an option for their root. All
of it is plain files, so no ioctl works.

Sources: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c and amdgpu_xcp.c; ROCm/k8s-device-plugin, internal/pkg/amdgpu.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from ...errors import InputError
from ...files.inside import (
    link_inside,
    make_folder_inside,
    read_inside,
    remove_inside,
    touch_inside,
    write_all_inside,
    write_inside,
)
from .kfd import KfdNode, write_topology
from .model import AmdProfile, AmdSlot

__all__ = [
    "HEALTH",
    "HEALTHY",
    "UNHEALTHY",
    "VENDOR",
    "AmdDevice",
    "amd_files",
    "health",
    "remove_amd",
    "set_health",
    "write_amd",
]

VENDOR: Final = 0x1002
HEALTH: Final = "exporter"
HEALTHY: Final = "healthy"
UNHEALTHY: Final = "unhealthy"
_CLASS: Final = 0x120000
_FIRST_RENDER: Final = 128
_RENDER_NODES: Final = 64
_PARTS_PER_GPU: Final = 8
_SEED: Final = uuid.UUID("6f9d7e3a-0c1f-4bd7-8f0e-5a1d2c3b4e5f")
_OWN: Final = ("devices/virtual/kfd", "class/kfd", "class/drm", "module/amdgpu", "bus/pci/drivers/amdgpu")


@dataclass(frozen=True, slots=True)
class AmdDevice:
    """A GPU, or a partition of one.

    Attributes:
        name: as the device plugin names it: PCI address, or ``amdgpu_xcp_<n>``.
        address: PCI address of the GPU, with domain and function.
        slot: where the GPU sits.
        gpu: number of the GPU.
        part: number of the partition in the GPU.
        card: of ``/dev/dri/card<n>``.
        render: of ``/dev/dri/renderD<n>``.
        node: of KFD's topology; None for a device that the partition mode leaves without work.
    """

    name: str
    address: str
    slot: AmdSlot
    gpu: int
    part: int
    card: int
    render: int
    node: int | None


def write_amd(
    root: Path, profile: AmdProfile, count: int, *, compute: str = "spx", memory: str = "nps1", seed: str = "amd"
) -> Sequence[AmdDevice]:
    """Make ``count`` GPUs below ``root``; those that are there are replaced.

    Args:
        root: a folder, of a machine or not; made if it is missing.
        profile: model and server.
        count: number of GPUs, at most as many as the server has slots.
        compute: compute partition mode.
        memory: memory partition mode.
        seed: unique ids follow from it.

    Returns:
        The devices that have work, in KFD's order.

    Raises:
        InputError: more GPUs than slots, a mode that the model does not have, or another device at an address.
    """
    slots = profile.server.slots
    if not 1 <= count <= len(slots):
        raise InputError(f"cannot make {count} GPUs: the server has {len(slots)} slots")
    parts = _parts(profile, compute, memory)
    devices = list(_devices(profile, count, parts))
    root.mkdir(parents=True, exist_ok=True)
    root = root.resolve()
    system = root / "sys"
    _refuse_taken(system, devices)
    remove_amd(root)
    for device in devices:
        folder = _device_folder(system, device)
        if device.part == 0:
            _write_function(root, folder, device, profile, compute, memory, _unique_id(seed, device.gpu))
        _write_drm(root, folder, device)
    _link(root, system / "module" / "amdgpu" / "drivers" / "pci:amdgpu", system / "bus" / "pci" / "drivers" / "amdgpu")
    working = [device for device in devices if device.node is not None]
    write_topology(root, profile, [_kfd_node(device, profile, parts, seed) for device in working])
    touch_inside(root, "dev/kfd")
    make_folder_inside(root, HEALTH)
    for device in working:
        _write_health(root, device.name, HEALTHY)
    return working


def amd_files(root: Path) -> Sequence[Path]:
    """The files and folders of all AMD GPUs below ``root``."""
    root = root.resolve()
    system, found = root / "sys", []
    for driver in (system / "bus" / "pci" / "drivers" / "amdgpu").glob("*:*"):
        device = driver.resolve()
        # A link of somebody else may lead anywhere.
        if device.is_relative_to(system / "devices"):
            found.append(device)
        found.append(system / "bus" / "pci" / "devices" / driver.name)
    found += (system / "devices" / "platform").glob("amdgpu_xcp_*")
    found += (system / part for part in _OWN)
    found += (root / "dev" / "dri", root / HEALTH, root / "dev" / "kfd")
    return [path for path in dict.fromkeys(found) if path.is_symlink() or path.exists()]


def remove_amd(root: Path) -> None:
    """Remove all AMD GPUs below ``root``."""
    for path in amd_files(root):
        remove_inside(root.resolve(), path.relative_to(root.resolve()))


def set_health(root: Path, name: str, *, healthy: bool) -> None:
    """What the exporter reports of the device ``name`` from its next answer on."""
    _write_health(root, name, HEALTHY if healthy else UNHEALTHY)


def _write_health(root: Path, name: str, said: str) -> None:
    write_inside(root, PurePath(HEALTH, name), said)


def health(root: Path) -> dict[str, str]:
    """``healthy`` or ``unhealthy`` by the name of the device.

    Raises:
        InputError: there are no AMD GPUs below ``root``.
    """
    folder = root / HEALTH
    if not folder.is_dir():
        raise InputError(f"no AMD GPUs in {root}: `fakegpu amd up --dir {root}` makes some")
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    read = ((name, read_inside(root, PurePath(HEALTH, name))) for name in names)
    return {name: said for name, said in read if said is not None}


def _refuse_taken(system: Path, devices: Sequence[AmdDevice]) -> None:
    for device in devices:
        place = system / "bus" / "pci" / "devices" / device.address
        if place.exists() and not place.is_symlink():
            raise InputError(f"{place} is another device: choose another folder with --dir")


def _parts(profile: AmdProfile, compute: str, memory: str) -> int:
    modes = profile.partitions
    if modes is None:
        if (compute, memory) != ("spx", "nps1"):
            raise InputError(f"{profile.identity.name} cannot be partitioned")
        return 1
    for mode, known in ((compute, modes.compute), (memory, modes.memory)):
        if mode not in known:
            raise InputError(f"{profile.identity.name} has no partition mode '{mode}'; it has {', '.join(known)}")
    return modes.compute[compute]


def _devices(profile: AmdProfile, count: int, parts: int) -> Iterator[AmdDevice]:
    """All devices that the driver makes: it keeps a place for each partition that a GPU may ever have."""
    places = 1 if profile.partitions is None else _PARTS_PER_GPU
    node = 1 + max(slot.numa_node for slot in profile.server.slots)
    xcp = 0
    for gpu in range(count):
        slot = profile.server.slots[gpu]
        address = f"{slot.address if slot.address.count(':') > 1 else f'0000:{slot.address}'}.0"
        for part in range(places):
            number = gpu * places + part
            if number >= _RENDER_NODES:
                return
            name = address if part == 0 else f"amdgpu_xcp_{xcp}"
            works = part < parts
            yield AmdDevice(name, address, slot, gpu, part, number, _FIRST_RENDER + number, node if works else None)
            node += works
            xcp += part > 0


def _kfd_node(device: AmdDevice, profile: AmdProfile, parts: int, seed: str) -> KfdNode:
    domain, bus, function = device.address.split(":")
    return KfdNode(
        number=device.node or 0,
        gpu=device.gpu,
        numa_node=device.slot.numa_node,
        hive=device.slot.hive,
        domain=int(domain, 16),
        location=int(bus, 16) << 8 | int(function.partition(".")[0], 16) << 3 | device.part,
        render=device.render,
        parts=parts,
        unique_id=_unique_id(seed, device.gpu),
        hive_id=0 if device.slot.hive is None else _unique_id(seed, -1 - device.slot.hive),
    )


def _unique_id(seed: str, number: int) -> int:
    return uuid.uuid5(_SEED, f"{seed}/{number}").int >> 64


def _device_folder(system: Path, device: AmdDevice) -> Path:
    if device.part:
        return system / "devices" / "platform" / device.name
    domain, bus, _ = device.address.split(":")
    return system / "devices" / f"pci{domain}:{bus}" / device.address


def _write_function(
    root: Path, folder: Path, device: AmdDevice, profile: AmdProfile, compute: str, memory: str, unique_id: int
) -> None:
    identity, modes = profile.identity, profile.partitions
    files = {
        "vendor": f"0x{VENDOR:04x}",
        "device": f"0x{identity.device_id:04x}",
        "subsystem_vendor": f"0x{identity.subsystem_id & 0xFFFF:04x}",
        "subsystem_device": f"0x{identity.subsystem_id >> 16:04x}",
        "class": f"0x{_CLASS:06x}",
        "numa_node": f"{device.slot.numa_node}",
        "product_name": identity.name,
        "unique_id": f"{unique_id:016x}",
        "mem_info_vram_total": f"{profile.memory.total_mib << 20}",
        "mem_info_vram_used": "0",
    }
    if modes is not None:
        files |= {
            "current_compute_partition": compute.upper(),
            "available_compute_partition": ", ".join(modes.compute).upper(),
            "current_memory_partition": memory.upper(),
            "available_memory_partition": ", ".join(modes.memory).upper(),
        }
    write_all_inside(root, folder.relative_to(root), {name: f"{content}\n" for name, content in files.items()})
    for links in ("devices", "drivers/amdgpu"):
        _link(root, root / "sys" / "bus" / "pci" / links / device.address, folder)


def _write_drm(root: Path, folder: Path, device: AmdDevice) -> None:
    for name in (f"card{device.card}", f"renderD{device.render}"):
        drm = folder / "drm" / name
        _link(root, drm / "device", folder)
        _link(root, root / "sys" / "class" / "drm" / name, drm)
        touch_inside(root, PurePath("dev", "dri", name))


def _link(root: Path, place: Path, target: Path) -> None:
    link_inside(root, place.relative_to(root), os.path.relpath(target, place.parent))
