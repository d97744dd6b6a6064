"""What can be observed of a simulated node and its pods, as the values that expectations are compared with.

The PodResources API is asked as a monitoring agent asks it: over its socket, and no more often than it allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from simkubelet.kubelet import Kubelet
from simkubelet.model.node import Node
from simkubelet.model.pod import Pod, PodUID
from simkubelet.model.pod_status import ContainerStatus
from simkubelet.model.resources import ResourceName

from ...trace.snapshot import KubeletState, NodeView, PodEvent, PodView
from ..world.pod_resources import PodResourcesAnswers, PodResourcesClient

_PAUSE_S: Final = 0.01
"""For each call; the kubelet answers a hundred calls in a second, and ten more at first."""


class RecordedEvent(Protocol):
    """An Event about a pod."""

    @property
    def type(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


class PodEvents(Protocol):
    """Who knows the Events about pods."""

    def events_of(self, uid: PodUID, /) -> Iterable[RecordedEvent]:
        """Return those about a pod."""
        ...


def node_view(name: str, kubernetes: str, node: Node, *, is_running: bool, panic: str | None) -> NodeView:
    """A node as it is published, and whether its kubelet is there; `panic` is what ended it, if anything did."""
    state = KubeletState.RUNNING if is_running else KubeletState.STOPPED
    return NodeView(
        name,
        kubernetes,
        _plain(node.status.capacity),
        _plain(node.status.allocatable),
        state if panic is None else KubeletState.CRASHED,
        panic or "",
        labels=node.labels,
        annotations=node.manifest["metadata"].get("annotations") or {},
    )


def pod_view(pod: Pod, kubelet: Kubelet | None, cluster: PodEvents) -> PodView:
    """A pod as the cluster and its node's kubelet know it; `kubelet` is None while it is bound to no node."""
    containers = kubelet.containers_of(pod) if kubelet else {}
    held = kubelet.devices_of(pod) if kubelet else {}
    statuses = (*pod.status.init_containers, *pod.status.containers)
    return PodView(
        name=pod.key,
        phase=pod.status.phase.value,
        reason=pod.status.reason,
        message=pod.status.message,
        node=pod.node_name or "",
        devices={container: {str(name): ids for name, ids in book.items()} for container, book in held.items()},
        options={name: container.options for name, container in containers.items()},
        labels=pod.manifest["metadata"].get("labels") or {},
        annotations=pod.manifest["metadata"].get("annotations") or {},
        events=tuple(PodEvent(event.type, event.reason, event.message) for event in cluster.events_of(pod.uid)),
        restarts=sum(status.restart_count for status in statuses),
        health=_health(statuses),
    )


def _health(statuses: tuple[ContainerStatus, ...]) -> dict[str, dict[str, str]]:
    """Resource -> device id -> health, of all containers of a pod."""
    found: dict[str, dict[str, str]] = {}
    for status in statuses:
        for resource in status.resources:
            found.setdefault(resource.name, {}).update(
                {device.resource_id: device.health for device in resource.resources}
            )
    return found


def _plain(amounts: Mapping[ResourceName, int]) -> dict[str, int]:
    return {str(name): amount for name, amount in amounts.items()}


class PodResourcesAgent:
    """Calls the API of one node.

    Args:
        socket: ``pod-resources/kubelet.sock`` of the node.
        pods: Those of which Get is asked.
    """

    def __init__(self, socket: Path, pods: Collection[str]) -> None:
        self._client = PodResourcesClient(socket)
        self._pods = pods
        self._next_at = 0.0

    async def ask(self) -> PodResourcesAnswers:
        """What the kubelet answers; nothing where none answers."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_at - loop.time())
        self._next_at = loop.time() + _PAUSE_S * (2 + len(self._pods))
        return await self._client.ask(self._pods)

    def close(self) -> None:
        """End its connection; may be called twice."""
        self._client.close()
