"""What the devices of a container add to its creation: env, mounts, device nodes, annotations, CDI devices.

The annotation is that by which kubelets of 1.28 to 1.31 also pass CDI devices to a container runtime.

Source: devicemanager/pod_devices.go, ``deviceRunContainerOptions``, ``getCDIAnnotations``; cm/util/cdi/cdi.go,
``GenerateAnnotations`` (kubernetes v1.28.15, v1.31.14). Its rules for names are the kubelet's own copy and older than
those of the runtimes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..apis.deviceplugin import ContainerAllocateResponse
from ..model.errors import KubeletPanicError

__all__ = ["DeviceNode", "DeviceRunOptions", "Mount", "cdi_annotation", "merge", "response_data"]

_PREFIX: Final = "cdi.k8s.io/"
_LONGEST_KEY: Final = 63
_VENDOR: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_CLASS: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_LETTER: Final = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the node and its path in the container; `permissions` are letters of rwm."""

    host_path: str
    container_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the node and its path in the container."""

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


def cdi_annotation(devices: Collection[str], pod: str, container: str) -> Mapping[str, str]:
    """The annotation for a container with these CDI devices.

    There is none where its key would be too long (a container's name of more than 12 letters in a pod with the usual
    uid), or where a device's name is not qualified.

    Raises:
        KubeletPanicError: a vendor or class of one letter.
    """
    key = f"devicemanager_{pod}-{container}"
    if not devices or len(key) > _LONGEST_KEY or not all(_is_qualified(device) for device in sorted(devices)):
        return {}
    return {_PREFIX + key: ",".join(sorted(devices))}


def _is_qualified(device: str) -> bool:
    kind, _, name = device.partition("=")
    vendor, _, class_name = kind.partition("/")
    if not vendor or not class_name or not name:
        return False
    for part, rule in ((vendor, _VENDOR), (class_name, _CLASS)):
        if _LETTER.fullmatch(part):
            raise KubeletPanicError("runtime error: slice bounds out of range [1:0]")
        if not rule.fullmatch(part):
            return False
    return _NAME.fullmatch(name) is not None
