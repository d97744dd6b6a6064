"""Which container of which pod holds which devices, and what these add to the container's creation.

The first is the device manager's book, kept in the checkpoint; the second are the plugins' answers, merged: env,
mounts, device nodes, annotations, CDI devices.

Source: devicemanager/pod_devices.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NewType

from ..apis.deviceplugin import ContainerAllocateResponse
from ..model.errors import KubeletPanicError
from ..model.pod import PodUID
from ..model.resources import ResourceName

__all__ = [
    "NO_NUMA_NODE",
    "Allocation",
    "AllocationEntry",
    "DeviceID",
    "DeviceNode",
    "DeviceRunOptions",
    "Mount",
    "PodDevices",
    "by_numa_node",
    "cdi_annotation",
    "merge",
    "response_data",
]

DeviceID = NewType("DeviceID", str)

NO_NUMA_NODE: Final = -1

_ANNOTATION_PREFIX: Final = "cdi.k8s.io/"
_LONGEST_KEY: Final = 63
_VENDOR: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]")
_CLASS: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_LETTER: Final = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container holds of one resource.

    Attributes:
        device_ids: NUMA node -> ids; `NO_NUMA_NODE` for devices without topology. A device on two nodes stands
            under both.
        response: what the plugin answered to Allocate, as it goes into the container.
    """

    device_ids: Mapping[int, tuple[DeviceID, ...]]
    response: ContainerAllocateResponse

    def devices(self) -> frozenset[DeviceID]:
        return frozenset(device for devices in self.device_ids.values() for device in devices)


@dataclass(frozen=True, slots=True)
class AllocationEntry:
    """An `Allocation` with its place: one line of the checkpoint."""

    pod_uid: PodUID
    container: str
    resource: ResourceName
    allocation: Allocation


class PodDevices:
    """Pod -> container -> resource -> `Allocation`."""

    def __init__(self, entries: Iterable[AllocationEntry] = ()) -> None:
        self._pods: dict[PodUID, dict[str, dict[ResourceName, Allocation]]] = {}
        self._entries: dict[tuple[PodUID, str, ResourceName], AllocationEntry] = {}
        for entry in entries:
            self.insert(entry)

    def __iter__(self) -> Iterator[AllocationEntry]:
        """Every allocation, in the order in which they were made."""
        return iter(self._entries.values())

    def pods(self) -> frozenset[PodUID]:
        return frozenset(self._pods)

    def insert(self, entry: AllocationEntry) -> None:
        containers = self._pods.setdefault(entry.pod_uid, {})
        containers.setdefault(entry.container, {})[entry.resource] = entry.allocation
        self._entries[entry.pod_uid, entry.container, entry.resource] = entry

    def delete(self, pods: Iterable[PodUID]) -> None:
        for pod_uid in pods:
            for container, resources in self._pods.pop(pod_uid, {}).items():
                for resource in resources:
                    del self._entries[pod_uid, container, resource]

    def container(self, pod_uid: PodUID, container: str) -> Mapping[ResourceName, Allocation]:
        """Resource -> allocation of one container; empty when it holds nothing."""
        return self._pods.get(pod_uid, {}).get(container, {})

    def container_devices(self, pod_uid: PodUID, container: str, resource: ResourceName) -> frozenset[DeviceID] | None:
        """Devices that a container holds of a resource; None when nothing was ever allocated to it."""
        allocation = self.container(pod_uid, container).get(resource)
        return None if allocation is None else allocation.devices()

    def allocated(self) -> dict[ResourceName, set[DeviceID]]:
        """Resource -> every device that some container holds."""
        held: dict[ResourceName, set[DeviceID]] = {}
        for entry in self:
            held.setdefault(entry.resource, set()).update(entry.allocation.devices())
        return held


def by_numa_node(
    devices: Iterable[DeviceID], numa_nodes: Mapping[DeviceID, Sequence[int]]
) -> dict[int, tuple[DeviceID, ...]]:
    """Sort devices under their NUMA nodes as the checkpoint keeps them.

    A device that its plugin no longer lists counts as one without topology, as it did up to 1.33.

    Args:
        devices: the devices of one resource.
        numa_nodes: device -> its NUMA nodes, of the devices with a topology.

    Source: devicemanager/manager.go, end of ``allocateContainerResources`` (kubernetes v1.33.4, v1.34.4).
    """
    nodes: dict[int, list[DeviceID]] = {}
    for device in sorted(devices):
        for node in numa_nodes.get(device) or (NO_NUMA_NODE,):
            nodes.setdefault(node, []).append(device)
    return {node: tuple(devices) for node, devices in nodes.items()}


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
    """The annotation by which kubelets of 1.28 to 1.31 also pass CDI devices to a container runtime.

    There is none where its key would be too long (a container's name of more than 12 letters in a pod with the usual
    uid), or where a device's name is not qualified. The rules for names are the kubelet's own copy, older than those
    of the runtimes.

    Source: devicemanager/pod_devices.go, ``getCDIAnnotations``; cm/util/cdi/cdi.go, ``GenerateAnnotations`` (kubernetes
    v1.28.15, v1.31.14).

    Raises:
        KubeletPanicError: a vendor or class of one letter.
    """
    key = f"devicemanager_{pod}-{container}"
    if not devices or len(key) > _LONGEST_KEY or not all(_is_qualified(device) for device in sorted(devices)):
        return {}
    return {_ANNOTATION_PREFIX + key: ",".join(sorted(devices))}


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
