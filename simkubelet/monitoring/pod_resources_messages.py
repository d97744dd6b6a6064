"""The messages of the PodResources API from the kubelet's pods and devices, without I/O.

Devices stand one by one, and one that has several NUMA nodes stands once for each.

Source: kubelet/cm/container_manager.go, ``containerDevicesFromResourceDeviceInstances``;
apis/podresources/server_v1.go, server_v1alpha1.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..apis import podresources as v1
from ..apis import podresources_v1alpha1 as v1alpha1
from ..devices.pod_devices import NO_NUMA_NODE, DeviceID
from ..model.pod import ContainerKind, Pod, PodUID
from ..model.resources import ResourceName

__all__ = [
    "PodResourcesProvider",
    "allocatable_devices",
    "container_devices",
    "pod_resources",
    "pod_resources_v1alpha1",
]


class PodResourcesProvider(Protocol):
    """The pods and devices of a kubelet; read at each call, in the event loop."""

    def pods(self) -> Iterable[Pod]:
        """Pods that the kubelet knows, those that have ended too."""

    def active_pods(self) -> Iterable[Pod]:
        """Pods that have not ended."""

    def update_allocated_devices(self) -> None:
        """Take the devices of ended pods back."""

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        """Resource -> NUMA node (`NO_NUMA_NODE` without) -> ids that a container holds."""

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        """Resource -> id -> NUMA nodes of each healthy device, None for one without topology."""


def container_devices(held: Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]) -> list[v1.ContainerDevices]:
    """The devices of one container.

    Source: devicemanager/pod_devices.go, ``getContainerDevices`` (kubernetes v1.34.4).
    """
    messages: list[v1.ContainerDevices] = []
    for resource, by_node in held.items():
        nodes: dict[DeviceID, list[int]] = {}
        for node, devices in by_node.items():
            for device in devices:
                nodes.setdefault(device, []).extend(() if node == NO_NUMA_NODE else (node,))
        for device, known in nodes.items():
            messages += _device(resource, device, known or None)
    return messages


def allocatable_devices(
    known: Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]],
) -> list[v1.ContainerDevices]:
    """The healthy devices of a node; one whose topology names no NUMA node is left out."""
    return [
        message
        for resource, devices in known.items()
        for device, nodes in devices.items()
        for message in _device(resource, device, nodes)
    ]


def pod_resources(pod: Pod, provider: PodResourcesProvider, *, lists_sidecars: bool) -> v1.PodResources:
    """What a pod holds, by container: sidecars if they are listed, then app containers."""
    kinds = (ContainerKind.SIDECAR, ContainerKind.APP) if lists_sidecars else (ContainerKind.APP,)
    containers = [
        v1.ContainerResources(
            name=container.name, devices=container_devices(provider.devices_of(pod.uid, container.name))
        )
        for container in pod.containers
        if container.kind in kinds
    ]
    return v1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)


def pod_resources_v1alpha1(pod: Pod, provider: PodResourcesProvider) -> v1alpha1.PodResources:
    """What the app containers of a pod hold; a device still stands once for each of its NUMA nodes."""
    containers = [
        v1alpha1.ContainerResources(
            name=container.name,
            devices=[
                v1alpha1.ContainerDevices(resource_name=message.resource_name, device_ids=message.device_ids)
                for message in container_devices(provider.devices_of(pod.uid, container.name))
            ],
        )
        for container in pod.containers
        if container.kind is ContainerKind.APP
    ]
    return v1alpha1.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)


def _device(resource: ResourceName, device: DeviceID, nodes: Sequence[int] | None) -> list[v1.ContainerDevices]:
    if nodes is None:
        return [v1.ContainerDevices(resource_name=resource, device_ids=[device])]
    return [
        v1.ContainerDevices(
            resource_name=resource,
            device_ids=[device],
            topology=v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)]),
        )
        for node in nodes
    ]
