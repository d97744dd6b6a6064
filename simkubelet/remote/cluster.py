"""A cluster elsewhere: what kubelets of this process ask of it (`ClusterApi`), over the HTTP API of its API server.

Reads are answered from copies that watches keep up to date, so nothing here waits; writes count at once and are sent
by queues, again and again while the server is away. One watch of nodes and one of pods serve all nodes of the process:
of a single node it has that node's name as selector, of several it is about all pods that are bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from ..cluster.objects.events import KubeEvent
from ..cluster.objects.nodes import KubeletEndpoint
from ..cluster.objects.objects import JSON, WallTime
from ..cluster_api import ClaimNotReadError, ClusterApi, PodWatch
from ..model.clock import Clock
from ..model.events import Observer
from ..model.node import Node, NodeStatus
from ..model.pod import Pod, PodUID
from ..model.pod_status import PodStatus
from ..model.version import Version
from .client import ApiClient, ApiError
from .events import RemoteEvents
from .nodes import RemoteNodes
from .pods import RemotePods
from .references import References
from .reflector import Follower, Reflector

__all__ = ["RemoteCluster"]

_RESOURCES: Final = "/apis/resource.k8s.io/v1"

_log = logging.getLogger(__name__)


class RemoteCluster(ClusterApi):
    """The cluster of some nodes, from `__aenter__` to `__aexit__`; entered when the server's state has been read.

    Args:
        client: of the API server, open as long as this.
        nodes: the nodes that this process simulates -> the release of their kubelets.
        clock: the nodes' time.
        observe: called with what changes on them.
        complain: called with one line about what the server refuses; that it is away is no complaint.
        labels: of the nodes that this registers, beside those of every node.
        endpoints: node -> where the API server reaches its kubelet; of a node that is missing, as of any simulated one.
        retries: the time of pauses before calls that failed are tried again; the nodes' where it is None.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: Mapping[str, Version],
        clock: Clock,
        observe: Observer,
        complain: Callable[[str], None],
        labels: Mapping[str, str] = MappingProxyType({}),
        endpoints: Mapping[str, KubeletEndpoint] = MappingProxyType({}),
        retries: Clock | None = None,
    ) -> None:
        wall_time = WallTime(clock)
        self._client = client
        self._names = tuple(nodes)
        self._retries = retries or clock
        self._complain = complain
        self._tasks = asyncio.TaskGroup()
        self._loops: list[asyncio.Task[None]] = []
        tools = (wall_time, self._retries, observe, self._tasks, complain)
        endpoints = {name: endpoints.get(name, KubeletEndpoint()) for name in nodes}
        self._nodes = RemoteNodes(client, endpoints, labels, *tools)
        self._references = References(client, self._tasks, self._retries, complain)
        self._pods = RemotePods(client, nodes, endpoints, self._nodes, self._references, *tools)
        self._events = RemoteEvents(client, *tools)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        try:
            by_name, by_node = "metadata.name", "spec.nodeName"
            await self._follow("/api/v1/nodes", self._selector(by_name, ""), self._nodes)
            await self._follow("/api/v1/pods", self._selector(by_node, f"{by_node}!="), self._pods)
            await self._references.until_read()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Give up what was not sent; `until_sent` waits for it."""
        ends = AsyncExitStack()
        ends.push_async_exit(self._tasks)
        # A group that is not told of a failure here would wait for what nobody ends any more.
        for part in (self._references, self._nodes, self._events, self._pods):
            ends.push_async_callback(part.close)
        for loop in self._loops:
            ends.callback(loop.cancel)
        await ends.__aexit__(kind, error, traceback)

    async def until_sent(self) -> None:
        """Return when the server has all that kubelets have written, leases apart."""
        for part in (self._nodes, self._pods, self._events):
            await part.until_sent()

    def _selector(self, field: str, of_several: str) -> dict[str, str]:
        selector = f"{field}={self._names[0]}" if len(self._names) == 1 else of_several
        return {"fieldSelector": selector} if selector else {}

    async def _follow(self, path: str, query: Mapping[str, str], follower: Follower) -> None:
        reflector = Reflector(self._client, path, query, follower, self._retries, self._complain)
        self._keep(reflector.run(), f"watch of {path}")
        await reflector.is_synced.wait()

    def _keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._loops.append(self._tasks.create_task(work, name=name))

    # What users of a joined cluster see

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of a node, oldest first."""
        return self._pods.on(node)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """The pods of all nodes of this process, oldest first."""
        return tuple(self._pods.all())

    def as_published(self, pod: Pod) -> JSON:
        """Return the object of one of the pods with the status that its kubelet has published, sent or not."""
        return self._pods.as_published(pod)

    def events_of(self, uid: PodUID) -> tuple[KubeEvent, ...]:
        """Return the Events about a pod that kubelets of this process have recorded, oldest first."""
        return self._events.pods.about(uid)

    # ClusterApi

    def read_object(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self._references.read(kind, namespace, name)

    async def resource_claim(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            return await self._client.find(f"{_RESOURCES}/namespaces/{namespace}/resourceclaims/{name}")
        except ApiError as error:
            raise ClaimNotReadError(str(error)) from None

    async def delete_resource_slices(self, selector: Mapping[str, str]) -> bool:
        if self._nodes.node(selector["spec.nodeName"]) is None:
            return False
        fields = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
        try:
            await self._client.call("DELETE", f"{_RESOURCES}/resourceslices", query={"fieldSelector": fields})
        except ApiError as error:
            _log.info("ResourceSlices of %s cannot be deleted: %s", fields, error)
            return False
        return True

    def pod(self, uid: PodUID) -> Pod | None:
        return self._pods.pod(uid)

    def pod_named(self, key: str) -> Pod | None:
        return self._pods.pod_named(key)

    def watch_pods(self, node: str) -> PodWatch:
        return self._pods.watch(node)

    def end_watch(self, node: str, watch: PodWatch) -> None:
        self._pods.end_watch(node, watch)

    def create_pod(self, manifest: Mapping[str, Any]) -> None:
        self._pods.create(manifest)

    def remove_pod(self, uid: PodUID) -> None:
        self._pods.remove(uid)

    def set_pod_status(self, uid: PodUID, status: PodStatus) -> None:
        self._pods.set_status(uid, status)

    def node(self, name: str) -> Node | None:
        return self._nodes.node(name)

    def register_node(self, node: str, status: NodeStatus) -> None:
        self._nodes.publish(node, status)

    def publish_node(self, node: str, status: NodeStatus) -> None:
        if self._nodes.node(node) is not None:
            self._nodes.publish(node, status)

    def renew_lease(self, node: str, duration_s: int) -> None:
        self._nodes.renew_lease(node, duration_s)

    def record(
        self, pod: Pod, type_: str, reason: str, message: str, component: str, *, container: str | None = None
    ) -> None:
        self._events.pods.record(pod, type_, reason, message, component, container=container)

    def record_node_event(self, node: str, type_: str, reason: str, message: str, component: str) -> None:
        self._events.record_node_event(node, type_, reason, message, component)

    def forget_events(self, node: str, component: str) -> None:
        self._events.pods.recorder.forget(component, node)
