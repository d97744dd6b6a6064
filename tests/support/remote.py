"""A small control plane in this process, without TLS, and nodes that reach it over HTTP.

The API server may go away and come back over the same objects; what the server is asked is kept in `Server.requests`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from simkubelet.cluster import (
    JSON,
    ApiServer,
    Key,
    KubeletEndpoint,
    NamespaceController,
    NodeLifecycle,
    NodeLogs,
    Objects,
    Scheduler,
    Store,
    WallTime,
    all_strategies,
    ensure_priority_classes,
)
from simkubelet.kubelet import Kubelet
from simkubelet.model.clock import RealClock
from simkubelet.model.config import KubeletConfig
from simkubelet.model.version import version
from simkubelet.node import NodeContext
from simkubelet.remote import ApiClient, RemoteCluster, ServerAccess
from tests.support.patience import LIMIT_S

__all__ = ["NODE", "Joined", "Server", "pod_manifest", "serving"]

NODE: Final = "node-1"
ANYWHERE: Final = KubeletEndpoint()
MINOR: Final = version("1.34")


class Server:
    """The objects of a cluster and its API server, which is at the same port after each start."""

    def __init__(self) -> None:
        self.clock = RealClock()
        self.objects = Objects(WallTime(self.clock))
        self.store = Store(self.objects, lambda event: None)
        logs = NodeLogs({}, lambda: datetime.now(UTC))
        self.api = ApiServer(self.objects, all_strategies(self.objects), logs=logs, plain=True)

    @property
    def access(self) -> ServerAccess:
        return ServerAccess(self.api.url)

    def prepare(self) -> None:
        """Create what every cluster has."""
        NamespaceController(self.api.registry, self.api.authority).ensure_namespaces()
        ensure_priority_classes(self.api.registry)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition on what the server has holds."""
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await self.objects.change.wait(self.objects.change.count)

    def find(self, kind: str, name: str, namespace: str = "default") -> JSON | None:
        """Return an object."""
        return self.objects.get(Key(kind, namespace, name))

    def pod(self, name: str) -> JSON:
        """Return a pod, which exists."""
        found = self.find("pods", name)
        assert found is not None
        return found

    def phase(self, name: str) -> str:
        """Return the phase of a pod, which exists."""
        return str((self.pod(name).get("status") or {}).get("phase"))

    @asynccontextmanager
    async def joined(self, *nodes: str, at: KubeletEndpoint = ANYWHERE) -> AsyncIterator[Joined]:
        """Join nodes of these names, by default one, whose kubelets are there."""
        async with ApiClient(self.access) as client:
            complaints: list[str] = []
            names = dict.fromkeys(nodes or (NODE,), MINOR)
            endpoints = dict.fromkeys(names, at)
            remote = RemoteCluster(
                client, names, self.clock, lambda event: None, complaints.append, endpoints=endpoints
            )
            async with remote as cluster:
                yield Joined(self, client, cluster, complaints)


class Joined:
    """What nodes see of a server.

    Attributes:
        client: of the server.
        cluster: theirs.
        complaints: what the server has refused.
    """

    def __init__(self, server: Server, client: ApiClient, cluster: RemoteCluster, complaints: Sequence[str]) -> None:
        self.server = server
        self.client = client
        self.cluster = cluster
        self.complaints = complaints

    async def create(self, kind: str, body: Mapping[str, Any], namespace: str = "default") -> JSON:
        """Create an object as another client."""
        return await self.client.call("POST", f"/api/v1/namespaces/{namespace}/{kind}", body)

    @asynccontextmanager
    async def kubelet(self, folder: Path, node: str = NODE, **settings: Any) -> AsyncIterator[Kubelet]:
        """Run a kubelet of these settings on one of the nodes."""
        async with asyncio.TaskGroup() as tasks:
            context = NodeContext(self.server.clock, self.cluster, lambda event: None, tasks, renews_leases=True)
            kubelet = Kubelet(folder, KubeletConfig(node, **settings), context)
            try:
                await kubelet.start()
                yield kubelet
            finally:
                await kubelet.close()


def pod_manifest(name: str = "pod", node: str | None = NODE, **spec: Any) -> JSON:
    """A pod of one container, by default bound to `NODE`."""
    bound = {} if node is None else {"nodeName": node}
    container = {"name": "main", "image": "image"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **bound, **spec}}


@asynccontextmanager
async def serving(*, is_scheduling: bool = False) -> AsyncIterator[Server]:
    """Serve a cluster of its own; with a scheduler and the node controller where these are asked for."""
    server = Server()
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
        await server.api.start()
        stack.push_async_callback(server.api.stop)
        server.prepare()
        if is_scheduling:
            for work in (Scheduler(server.store, server.clock, MINOR), NodeLifecycle(server.store, server.clock)):
                stack.callback(tasks.create_task(work.run()).cancel)
        yield server
