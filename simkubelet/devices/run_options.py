"""What the devices of a container add to its creation: env, mounts, device nodes, annotations, CDI devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..apis.deviceplugin import ContainerAllocateResponse

__all__ = ["DeviceNode", "DeviceRunOptions", "Mount", "merge", "response_data"]


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the node and where it stands in the container; `permissions` are letters of rwm."""

    host_path: str
    container_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the node and where it stands in the container."""

    host_path: str
    container_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class DeviceRunOptions:
    """The plugins' answers for one container, merged."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


def merge(responses: Iterable[ContainerAllocateResponse], *, takes_cdi_devices: bool = True) -> DeviceRunOptions:
    """Merge the answers for the resources of one container: of equal keys and container paths the first wins.

    Args:
        responses: the answers.
        takes_cdi_devices: whether the CDI devices in them count.

    Source: devicemanager/pod_devices.go, ``deviceRunContainerOptions`` (kubernetes v1.34.4).
    """
    envs: dict[str, str] = {}
    mounts: dict[str, Mount] = {}
    devices: dict[str, DeviceNode] = {}
    annotations: dict[str, str] = {}
    cdi_devices: dict[str, None] = {}
    for response in responses:
        for key, value in response.envs.items():
            envs.setdefault(key, value)
        for mount in response.mounts:
            mounts.setdefault(mount.container_path, Mount(mount.host_path, mount.container_path, mount.read_only))
        for device in response.devices:
            node = DeviceNode(device.host_path, device.container_path, device.permissions)
            devices.setdefault(device.container_path, node)
        for key, value in response.annotations.items():
            annotations.setdefault(key, value)
        for cdi_device in response.cdi_devices if takes_cdi_devices else ():
            cdi_devices.setdefault(cdi_device.name)
    return DeviceRunOptions(envs, tuple(mounts.values()), tuple(devices.values()), annotations, tuple(cdi_devices))


def response_data(response: ContainerAllocateResponse) -> dict[str, Any]:
    """An answer as plain data: its fields by their names, those that have something in them; CDI devices by name."""
    found = {
        "envs": dict(response.envs),
        "mounts": [
            {"container_path": one.container_path, "host_path": one.host_path, "read_only": one.read_only}
            for one in response.mounts
        ],
        "devices": [
            {"container_path": one.container_path, "host_path": one.host_path, "permissions": one.permissions}
            for one in response.devices
        ],
        "annotations": dict(response.annotations),
        "cdi_devices": [one.name for one in response.cdi_devices],
    }
    return {name: value for name, value in found.items() if value}
