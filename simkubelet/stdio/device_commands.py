"""Commands about devices, plugins and NUMA nodes: what is known, who holds it, what changed, which hints there are.

PodResources answers as to a monitoring agent, without the socket and the rate limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..apis import podresources as v1
from ..apis.deviceplugin import Device
from ..apis.grpcwire.served_call import CallError
from ..devices.pod_devices import NO_NUMA_NODE, Allocation, DeviceID
from ..dra.claim_info import ClaimInfo
from ..dra.container_claims import DynamicDevice
from ..model.metrics import Metrics
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName
from ..monitoring.pod_resources import PodResourcesServer
from ..topology.hint import ProviderHints, TopologyHint, nodes_in, numa_mask
from .node import Node
from .request import Fields, RequestError
from .session import Answer, CommandFailedError, CommandTable

__all__ = ["commands"]

commands: Final = CommandTable[Node]()


@commands.add()
async def do_capacity(node: Node, fields: Fields) -> Answer:
    """Devices known and usable by resource, and the resources forgotten since the last time."""
    return _capacity(node)


@commands.add("resource", "capacity", "allocatable", "timeout_ms")
async def do_wait_capacity(node: Node, fields: Fields) -> Answer:
    """Wait until a resource has so many devices known, usable, or both; seen_t is when it was seen."""
    name, timeout_ms = fields.text("resource"), fields.number("timeout_ms", 0.0)
    wanted = {key: fields.whole(key) for key in ("capacity", "allocatable") if key in fields}
    deleted: set[str] = set()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                seen = node.changed.count
                found = _capacity(node)
                deleted.update(found["deleted"])
                answer = {**found, "deleted": sorted(deleted), "seen_t": time.monotonic_ns()}
                if all(found[key].get(name) == count for key, count in wanted.items()):
                    return answer
                await node.changed.wait(seen)
    except TimeoutError:
        raise CommandFailedError(f"not seen within {timeout_ms:g} ms", **answer) from None


@commands.add()
async def do_allocatable_devices(node: Node, fields: Fields) -> Answer:
    """The healthy devices of each resource, with their NUMA nodes."""
    books = node.manager.devices
    return {
        "devices": {
            name: [_listed(books.devices[name][device]) for device in sorted(devices & books.devices[name].keys())]
            for name, devices in books.healthy.items()
            if name in books.devices
        }
    }


@commands.add("pod", "container")
async def do_devices(node: Node, fields: Fields) -> Answer:
    """The devices that a container holds, by resource."""
    uid = PodUID(fields.text("pod"))
    held = node.manager.devices.pod_devices.container(uid, fields.text("container"))
    return {"devices": {name: _held(allocation) for name, allocation in held.items() if allocation.device_ids}}


@commands.add("resource", "endpoint", "versions")
async def do_watcher_register(node: Node, fields: Fields) -> Answer:
    """Register a plugin as the plugin watcher does that found its socket; stage says where it failed."""
    name, versions = fields.text("resource"), fields.texts("versions")
    endpoint = str(node.socket_of(fields.text("endpoint")))
    registration = node.manager.registration
    if refusal := registration.validate_plugin(name, endpoint, versions):
        raise CommandFailedError(refusal, stage="validate")
    if refusal := await registration.register_plugin(name, endpoint):
        raise CommandFailedError(refusal, stage="register")
    return {}


@commands.add("resource", "endpoint")
async def do_watcher_deregister(node: Node, fields: Fields) -> Answer:
    """Deregister a plugin as the plugin watcher does whose socket was removed."""
    endpoint = str(node.socket_of(fields.text("endpoint")))
    await node.manager.registration.deregister_plugin(fields.text("resource"), endpoint)
    return {}


def _capacity(node: Node) -> dict[str, Any]:
    known = node.manager.capacity()
    return {
        "capacity": dict(known.capacity),
        "allocatable": dict(known.allocatable),
        "deleted": sorted(known.deleted),
    }


def _listed(device: Device) -> Mapping[str, Any]:
    return {"id": device.ID, "health": device.health, **_numa([node.ID for node in device.topology.nodes])}


def _held(allocation: Allocation) -> list[Mapping[str, Any]]:
    nodes: dict[DeviceID, list[int]] = {}
    for node, devices in allocation.device_ids.items():
        for device in devices:
            nodes.setdefault(device, []).extend([node] if node != NO_NUMA_NODE else [])
    return [{"id": device, **_numa(nodes[device])} for device in sorted(nodes)]


def _numa(nodes: list[int]) -> Mapping[str, Any]:
    return {"numa": sorted(nodes)} if nodes else {}


@commands.add("policy", "scope", "options", "numa", "distances", needs_manager=False)
async def do_topology(node: Node, fields: Fields) -> Answer:
    """The topology manager's settings for the next start: start's own fields under short names."""
    node.settings = node.settings.with_topology(fields)
    return {}


@commands.add("pod", "container")
async def do_topology_hints(node: Node, fields: Fields) -> Answer:
    """On which NUMA nodes a container's devices could be, by resource; null for one that does not care."""
    pod, container = node.pods.container(fields.text("pod"), fields.text("container"))
    return {"hints": _hints(node.manager.hints.container_hints(pod, container))}


@commands.add("pod")
async def do_pod_topology_hints(node: Node, fields: Fields) -> Answer:
    """The same for all that a pod asks for at one time."""
    return {"hints": _hints(node.manager.hints.pod_hints(node.pods.pod(fields.text("pod"))))}


@commands.add("pod", "container", "nodes", "preferred", needs_manager=False)
async def do_set_affinity(node: Node, fields: Fields) -> Answer:
    """Say on which NUMA nodes a container's devices should be, whatever the topology manager says; null for any."""
    nodes = numa_mask(fields.numa_nodes("nodes")) if "nodes" in fields else None
    hint = TopologyHint(nodes, preferred=fields.flag("preferred", default=False))
    node.set_affinity(PodUID(fields.text("pod")), fields.text("container"), hint)
    return {}


@commands.add("pod", "container")
async def do_get_affinity(node: Node, fields: Fields) -> Answer:
    """On which NUMA nodes a container's devices should be; nodes is null for any."""
    return _hint(node.manager.affinities.get_affinity(PodUID(fields.text("pod")), fields.text("container")))


def _hints(hints: ProviderHints) -> dict[str, Any]:
    return {name: None if of_resource is None else _sorted(of_resource) for name, of_resource in hints.items()}


def _sorted(hints: Sequence[TopologyHint]) -> list[Answer]:
    # By their text, as [0,1] before [0].
    return sorted((_hint(hint) for hint in hints), key=lambda hint: f"{hint['nodes']},".replace(" ", ""))


def _hint(hint: TopologyHint) -> Answer:
    nodes = None if hint.nodes is None else list(nodes_in(hint.nodes))
    return {"nodes": nodes, "preferred": hint.preferred}


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
    """What the PodResources API reports."""

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
        return self._node.manager.devices_of(pod, container)

    def allocatable_devices(self) -> Mapping[ResourceName, Mapping[DeviceID, Sequence[int] | None]]:
        return self._node.manager.allocatable_devices()

    def dynamic_resources(self, pod: Pod, container: str) -> Iterable[tuple[ClaimInfo, Sequence[DynamicDevice]]]:
        return self._node.manager.dynamic_resources(pod, container)


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
