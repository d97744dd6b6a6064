"""A node under test: a kubelet in a folder of its own, plugins that say what a test tells them, and a manual clock.

The plugins are served in the test's own event loop but over real sockets; what they are asked is kept in
`FakePlugin.calls`. What happens on the node is kept in `Node.events`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from simkubelet._internal.change import Change
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import Method
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.cluster import Objects, Scheduler, Store, WallTime
from simkubelet.kubelet.kubelet import Kubelet
from simkubelet.model.clock import ManualClock
from simkubelet.model.config import KubeletConfig
from simkubelet.model.events import NodeEvent
from simkubelet.model.pod_status import ContainerStatus, PodStatus
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import DEFAULT, version
from simkubelet.node import NodeContext
from simkubelet.node_tree import DEVICE_PLUGINS
from tests.support.grpc_peers import DEVICE_PLUGIN, REGISTRATION, Context, RealServer, calls, methods_of, serve
from tests.support.patience import LIMIT_S
from tests.support.short_paths import short_place

RESOURCE = "example.com/stub"


class FakePlugin:
    """A device plugin whose answers a test sets; by default every Allocate tells the ids in the environment."""

    def __init__(self, folder: Path, endpoint: str = "stub.sock", resource: str = RESOURCE) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self.resource = resource
        self.options = api.DevicePluginOptions()
        self.devices: list[api.Device] = []
        self.calls: list[tuple[str, Any]] = []
        self.streams = 0
        self.allocate_answer: Callable[[api.AllocateRequest], api.AllocateResponse] = env_of_ids
        self.preferred: list[str] | None = None
        self.pre_start_error: str | None = None
        self.stream_ended = Change()
        self._changed = Change()
        self._server: GrpcServer | RealServer | None = None

    async def serve(self) -> None:
        self._server = await serve(self.methods(), self.folder / self.endpoint)

    def methods(self) -> dict[str, Method]:
        """What is served, by path."""
        return methods_of(self, DEVICE_PLUGIN)

    async def register(self, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "version": api.VERSION,
            "endpoint": self.endpoint,
            "resource_name": self.resource,
            **changes,
        }
        async with calls(self.folder / api.KUBELET_SOCKET_NAME, REGISTRATION) as kubelet:
            await kubelet.Register(api.RegisterRequest(**fields))

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            if (socket := self.folder / self.endpoint).is_socket():
                socket.unlink()

    def list(self, healthy: Iterable[str] = (), unhealthy: Iterable[str] = (), numa_node: int | None = None) -> None:
        topology = None if numa_node is None else api.TopologyInfo(nodes=[api.NUMANode(ID=numa_node)])
        self.devices = [
            *(api.Device(ID=device, health=api.HEALTHY, topology=topology) for device in healthy),
            *(api.Device(ID=device, health=api.UNHEALTHY, topology=topology) for device in unhealthy),
        ]
        self._changed.notify()

    async def until_no_stream(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            while self.streams:
                await self.stream_ended.wait(self.stream_ended.count)

    async def GetDevicePluginOptions(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:
        self.calls.append(("GetDevicePluginOptions", None))
        return self.options

    async def ListAndWatch(self, request: api.Empty, context: Context) -> AsyncIterator[api.ListAndWatchResponse]:
        self.calls.append(("ListAndWatch", None))
        self.streams += 1
        try:
            seen = self._changed.count
            while True:
                yield api.ListAndWatchResponse(devices=self.devices)
                seen = await self._changed.wait(seen)
        finally:
            self.streams -= 1
            self.stream_ended.notify()

    async def GetPreferredAllocation(self, request: Any, context: Context) -> api.PreferredAllocationResponse:
        asked = request.container_requests[0]
        self.calls.append(
            ("GetPreferredAllocation", (list(asked.available_deviceIDs), list(asked.must_include_deviceIDs)))
        )
        if self.preferred is None:
            return api.PreferredAllocationResponse()
        answer = api.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return api.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:
        self.calls.append(("Allocate", [list(asked.devices_ids) for asked in request.container_requests]))
        try:
            return self.allocate_answer(request)
        except ValueError as error:
            await context.abort(Code.RESOURCE_EXHAUSTED, str(error))
            raise

    async def PreStartContainer(self, request: Any, context: Context) -> api.PreStartContainerResponse:
        self.calls.append(("PreStartContainer", list(request.devices_ids)))
        if self.pre_start_error is not None:
            await context.abort(Code.INTERNAL, self.pre_start_error)
        return api.PreStartContainerResponse()


def env_of_ids(request: api.AllocateRequest) -> api.AllocateResponse:
    return api.AllocateResponse(
        container_responses=[
            api.ContainerAllocateResponse(envs={"STUB": ",".join(sorted(asked.devices_ids))})
            for asked in request.container_requests
        ]
    )


@cache
def _names() -> Faker:
    # To make one takes longer than to start a node.
    return Faker()


@dataclass
class Node:
    """A simulated node with its cluster; `until` waits for a condition on them."""

    kubelet: Kubelet
    store: Store
    clock: ManualClock
    folder: Path
    events: list[NodeEvent]
    changed: Change
    faker: Faker = field(default_factory=_names)
    plugins: list[FakePlugin] = field(default_factory=list)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                # What the node tells, and what the cluster's objects say without a word in the trace.
                waits = [asyncio.ensure_future(each.wait(each.count)) for each in (self.changed, self.store.change)]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()

    async def plugin(self, *healthy: str, **settings: Any) -> FakePlugin:
        """A plugin that is served, registered and has listed `healthy`."""
        plugin = FakePlugin(self.folder, **settings)
        self.plugins.append(plugin)
        plugin.list(healthy)
        await plugin.serve()
        listed = len(self.of("devices-listed"))
        await plugin.register()
        await self.until(lambda: len(self.of("devices-listed")) > listed)
        return plugin

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]

    async def tick(self) -> None:
        """Let one period of the node status pass."""
        await self.clock.advance(10)

    def status(self, resource: str = RESOURCE) -> tuple[int | None, int | None]:
        """(capacity, allocatable) of a resource as published; None is absent."""
        status = self.store.nodes["node-1"]
        name = ResourceName(resource)
        return status.capacity.get(name), status.allocatable.get(name)

    def pod(self, count: int | None, *, bound: bool = True, **spec: Any) -> str:
        """Create a pod with one container that asks for `count` devices; return its name."""
        name = str(self.faker.unique.slug())
        resources = {} if count is None else {"resources": {"limits": {RESOURCE: count}}}
        placement = {"nodeName": "node-1"} if bound else {}
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "none", **resources}], **placement, **spec},
        }
        for kind in ("initContainers", "containers"):
            for container in manifest["spec"].get(kind, ()):
                container.setdefault("image", "none")
        self.store.create_pod(manifest)
        return name

    async def settled_pod(self, count: int | None, **spec: Any) -> str:
        """A pod that is no longer Pending."""
        name = self.pod(count, **spec)
        await self.until(lambda: self.phase(name) != "Pending")
        return name

    def phase(self, name: str) -> str | None:
        pod = self.store.pod_named(name)
        return None if pod is None else pod.status.phase.value

    def pod_status(self, name: str) -> PodStatus:
        pod = self.store.pod_named(name)
        assert pod is not None
        return pod.status

    def container(self, name: str, container: str = "c") -> ContainerStatus:
        """What the node reports of a container."""
        status = self.pod_status(name).container(container)
        assert status is not None
        return status

    def message(self, name: str) -> str:
        pod = self.store.pod_named(name)
        assert pod is not None
        return pod.status.message

    def devices(self, name: str, container: str = "c") -> tuple[str, ...]:
        pod = self.store.pod_named(name)
        assert pod is not None
        return self.kubelet.devices_of(pod)[container].get(ResourceName(RESOURCE), ())

    def pod_events(self, name: str) -> list[tuple[str, str]]:
        pod = self.store.pod_named(name)
        assert pod is not None
        return [(event.reason, event.message) for event in self.store.events_of(pod.uid)]

    async def kill(self, name: str, container: str = "c") -> None:
        """Kill a container's process; the kubelet starts it again where its restart policy says so."""
        pod = self.store.pod_named(name)
        assert pod is not None
        await self.kubelet.runtime.stop(pod.uid, container, grace_s=0)

    async def delete(self, name: str) -> None:
        pod = self.store.pod_named(name)
        assert pod is not None
        self.store.delete_pod(pod.uid)
        await self.until(lambda: self.store.pod_named(name) is None)


@asynccontextmanager
async def running_node(
    folder: Path, minor: str = DEFAULT, *, scheduler: bool = False, **settings: Any
) -> AsyncIterator[Node]:
    """A node whose kubelet runs in `folder`, with `KubeletConfig`'s settings; its plugins end with it."""
    events: list[NodeEvent] = []
    changed = Change()

    def observe(event: NodeEvent) -> None:
        events.append(event)
        changed.notify()

    clock, behaviour = ManualClock(), version(minor)
    store = Store(Objects(WallTime(clock)), observe)
    async with asyncio.TaskGroup() as tasks:
        config = KubeletConfig("node-1", behaviour, **settings)
        kubelet = Kubelet(folder, config, NodeContext(clock, store, observe, tasks))
        await kubelet.start()
        node = Node(kubelet, store, clock, kubelet.folder.directory, events, changed)
        scheduling = tasks.create_task(Scheduler(store, clock, behaviour).run()) if scheduler else None
        try:
            yield node
        finally:
            for plugin in node.plugins:
                await plugin.stop()
            await kubelet.close()
            if scheduling is not None:
                scheduling.cancel()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for socket names."""
    folder = Path(tempfile.mkdtemp(prefix="sk-", dir=short_place()))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def plugin_folder(short_folder: Path) -> Path:
    """The device plugin folder that the test's node will find."""
    folder = short_folder / DEVICE_PLUGINS
    folder.mkdir()
    return folder


@pytest.fixture
async def make_node(short_folder: Path, faker: Faker) -> AsyncIterator[Callable[..., Any]]:
    """Builds the node of a test: ``await make_node("1.33", scheduler=True)``."""
    async with AsyncExitStack() as stack:

        async def make(*settings: str, **options: Any) -> Node:
            node = await stack.enter_async_context(running_node(short_folder, *settings, **options))
            node.faker = faker
            return node

        yield make


@pytest.fixture
async def node(make_node: Callable[..., Any]) -> Node:
    """A node of Kubernetes 1.34 without a scheduler: pods are bound by name."""
    made: Node = await make_node()
    return made
