"""The PodResources API as a command: what a monitoring agent would get, without the socket and the rate limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..apis import podresources as v1
from ..apis.grpcwire.served_call import CallError
from ..devices.pod_devices import DeviceID
from ..model.metrics import Metrics
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName
from ..monitoring.pod_resources import PodResourcesServer
from .command import Answer, CommandFailedError, CommandTable
from .node import Node
from .request import Fields, RequestError

__all__ = ["commands"]

commands: Final = CommandTable()


@commands.add("call", "name", "namespace")
async def do_pod_resources(node: Node, fields: Fields) -> Answer:
    """What the PodResources API answers; call is list, get (of a pod, by name and namespace) or allocatable."""
    try:
        return await _answered(PodResourcesServer(Path(), _Books(node), node.config(), Metrics()), fields)
    except CallError as error:
        raise CommandFailedError(str(error)) from None


async def _answered(server: PodResourcesServer, fields: Fields) -> Answer:
    call = fields.text("call")
    if call == "list":
        listed = await server.List(v1.ListPodResourcesRequest())
        return {"pods": sorted(map(_pod, listed.pod_resources), key=lambda pod: (pod["namespace"], pod["name"]))}
    if call == "get":
        request = v1.GetPodResourcesRequest(
            pod_name=fields.text("name"), pod_namespace=fields.text("namespace", "default")
        )
        return {"pod": _pod((await server.Get(request)).pod_resources)}
    if call == "allocatable":
        known = await server.GetAllocatableResources(v1.AllocatableResourcesRequest())
        return {"devices": _devices(known.devices)}
    raise RequestError(f"call: {call!r} is not list, get or allocatable")


class _Books:
    """What the API reports."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def pods(self) -> Iterable[Pod]:
        return self._node.pods.all().values()

    def active_pods(self) -> Iterable[Pod]:
        active = self._node.pods.active()
        return [pod for uid, pod in self._node.pods.all().items() if uid in active]

    def update_allocated_devices(self) -> None:
        self._node.manager.allocator.release_inactive()

    def devices_of(self, pod: PodUID, container: str) -> Mapping[ResourceName, Mapping[int, Sequence[DeviceID]]]:
        held = self._node.manager.devices.pod_devices.container(pod, container)
        return {resource: allocation.device_ids for resource, allocation in held.items()}

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        books = self._node.manager.devices
        return {
            resource: {device: books.devices[resource].numa_nodes.get(device) for device in healthy}
            for resource, healthy in books.healthy.items()
            if resource in books.devices
        }


def _pod(message: v1.PodResources) -> dict[str, Any]:
    containers = [{"name": each.name, "devices": _devices(each.devices)} for each in message.containers]
    return {"name": message.name, "namespace": message.namespace, "containers": containers}


def _devices(messages: Iterable[v1.ContainerDevices]) -> list[dict[str, Any]]:
    answers = [
        {"resource": message.resource_name, "ids": sorted(message.device_ids)}
        | ({"numa": nodes} if (nodes := [node.ID for node in message.topology.nodes]) else {})
        for message in messages
    ]
    return sorted(answers, key=lambda entry: (entry["resource"], entry["ids"], entry.get("numa", [])))
