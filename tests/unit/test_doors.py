"""A failure of one object, whatever the exception, ends nothing: each door fails for one object in a live cluster.

Fed in: an exception in the function behind each door, for the object ``broken`` alone; observed: the report, the log,
the Event about the object, another object that is handled, and that everything goes on.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import pkgutil
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import ClientSession

import scenarios
import simkubelet
from scenarios.trace.trace import Broadcast
from scenarios.up.control_socket import _answer
from scenarios.up.nodes import LiveNodes, _kept_running
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.cluster.scheduler.cluster_state import PodInfo
from simkubelet.cluster.scheduler.queue import QueuedPod
from simkubelet.devices.pod_devices import DeviceRunOptions
from simkubelet.dra.claim_info import ClaimInfo
from simkubelet.dra.manager import DraManager
from simkubelet.dra.slice_wipes import SliceWipes
from simkubelet.host import DOORS, Door, contain_failures
from simkubelet.model.clock import ManualClock, RealClock
from simkubelet.model.config import KubeletConfig
from simkubelet.model.errors import HostError
from simkubelet.model.events import EventRecorded, KubeletStopped
from simkubelet.model.pod import Container, Pod, PodUID
from simkubelet.node import NodeLease, NodePublisher
from simkubelet.remote import ApiError
from simkubelet.remote.back_off import WorkQueue
from simkubelet.remote.references import References
from simkubelet.remote.reflector import Reflector
from simkubelet.runtime.cri import Cri, RuntimeState
from tests.support import broken_object
from tests.support.broken_object import MINOR, NAMES, World, break_calls, pod, world
from tests.support.dra_node import claim_object
from tests.support.node import FakePlugin, short_folder
from tests.support.patience import LIMIT_S
from tests.support.remote import pod_manifest, serving
from tests.support.watched_plugin import WatchedPlugin

__all__ = ["short_folder"]

Provoke = Callable[[World], Awaitable[object]]


@dataclass(frozen=True)
class Case:
    """How the handling of an object fails at a door.

    Attributes:
        breaks: the function that fails for the broken object.
        provoke: has both objects handled.
        has_event: the object is one of the API, so there is an Event about it.
        seconds: that have to pass at least.
    """

    breaks: str
    provoke: Provoke
    has_event: bool = True


def each(act: Callable[[World, str], object]) -> Provoke:
    async def provoke(made: World) -> None:
        for name in NAMES:
            act(made, name)

    return provoke


def pods(**spec: Any) -> Provoke:
    return each(lambda made, name: made.store.create_pod(pod(name, **spec)))


def nodes(*taints: str) -> Provoke:
    return each(lambda made, name: made.create_node(name, *taints))


async def waiting_bindings(made: World) -> None:
    for order, name in enumerate(NAMES):
        created = made.store.create_pod(pod(name, schedulerName="another"))
        queued = QueuedPod(PodInfo(created), order, 0.0)
        made.scheduler._bindings.add(queued, "node-1", ())
    made.scheduler.flush()


async def unschedulable(made: World) -> None:
    await pods(nodeSelector={"of": "another-node"})(made)
    await made.until(lambda: all(made.events_about(name) for name in NAMES))
    made.create_node("node-2")


async def start_of_a_scheduler(made: World) -> None:
    await pods(schedulingGates=[{"name": "example.com/wait"}])(made)
    made.scheduler._begin()


async def pods_on_tainted_nodes(made: World) -> None:
    made.create_node("tainted", "example.com/no")
    await pods(nodeName="tainted")(made)


async def pods_of_a_node_that_is_gone(made: World) -> None:
    await pods(nodeName="gone")(made)
    await made.clock.advance(90)


async def claims_of_tainted_devices(made: World) -> None:
    now = made.objects.wall_time.now()
    taint = {"key": "xid", "effect": "NoExecute", "timeAdded": now}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "devices": [{"name": "gpu-0", "taints": [taint]}]}
    made.create("resourceslices.resource.k8s.io", "slice", spec=spec)
    for name in NAMES:
        claims = [{"name": "gpu", "resourceClaimName": name}]
        created = made.store.create_pod(pod(name, nodeName="node-9", resourceClaims=claims))
        result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
        user = {"resource": "pods", "name": name, "uid": created.uid}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        made.create("resourceclaims.resource.k8s.io", name, "default", spec={}, status=status)


def taint_rule(made: World, name: str) -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": made.objects.wall_time.now()}
    made.create("devicetaintrules.resource.k8s.io", name, spec={"deviceSelector": {"driver": "d"}, "taint": taint})


def owned(made: World, name: str, owner: dict[str, Any] | None = None, **metadata: Any) -> Any:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "gone"}
    return made.create("configmaps", name, "default", metadata={"ownerReferences": [reference], **metadata})


def leaving_owner(made: World, name: str) -> None:
    deletion = {"deletionTimestamp": made.objects.wall_time.now(), "finalizers": ["foregroundDeletion"]}
    made.create("configmaps", name, "default", metadata=deletion)


def daemon_set(made: World, name: str) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("p")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template, "updateStrategy": {"type": "RollingUpdate"}}
    made.create("daemonsets.apps", name, "default", spec=spec)


async def deleted_namespaces(made: World) -> None:
    for name in NAMES:
        deletion = {"deletionTimestamp": made.objects.wall_time.now()}
        status = {"phase": "Terminating"}
        made.create("namespaces", name, metadata=deletion, spec={"finalizers": ["kubernetes"]}, status=status)
    await made.clock.advance(5)


async def killed_containers(made: World) -> None:
    runtime = made.kubelet._runtime
    start = runtime.start

    async def named_start(of: Pod, container: Container, options: DeviceRunOptions, attempt: int = 0) -> Any:
        handle: Any = await start(of, container, options, attempt)
        handle.name = of.name
        return handle

    runtime.start = named_start  # type: ignore[method-assign]
    await pods(nodeName="node-1")(made)
    await made.until(lambda: made.phase("well") == "Running")
    for name in NAMES:
        with suppress(MemoryError):
            await made.kubelet.complete(name, "c", 1)


async def deleted_pods(made: World) -> None:
    await pods(nodeName="node-1")(made)
    await made.until(lambda: [made.phase(name) for name in NAMES] == ["Running", "Running"])
    for name in NAMES:
        found = made.store.pod_named(name)
        assert found is not None
        made.store.delete_pod(found.uid)


async def manifests(made: World) -> None:
    for name in NAMES:
        text = f"{{kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: none}}]}}}}"
        (made.manifests / f"{name}.yaml").write_text(text)


async def publishers(made: World) -> None:
    for name in NAMES:
        made.create_node(name)
        cri = Cri(made.clock)
        config, state = KubeletConfig(name, MINOR), RuntimeState(cri, made.clock)
        made.keep(NodePublisher(config, made.context, cri, state, is_new_node=False, boot_id="").run())


async def leases(made: World) -> None:
    for name in NAMES:
        made.keep(NodeLease(name, made.context).run())


async def device_plugins(made: World) -> None:
    for name in NAMES:
        plugin = FakePlugin(made.kubelet.folder.directory, f"{name}.sock", f"example.com/{name}")
        made.stack.push_async_callback(plugin.stop)
        plugin.list(["d"])
        await plugin.serve()
        with suppress(RpcError):
            await plugin.register()


async def watched_plugins(made: World) -> None:
    for name in NAMES:
        socket = made.folder / "plugins_registry" / f"{name}.sock"
        plugin = WatchedPlugin(socket, made.clock, name=f"example.com/{name}")
        made.stack.push_async_callback(plugin.stop)
        await plugin.serve()


def manager(made: World) -> DraManager:
    instance = made.kubelet._instance
    assert instance is not None
    assert instance.containers.dra is not None
    return instance.containers.dra


async def drivers(made: World) -> None:
    plugins = manager(made).plugins
    for name in NAMES:
        await plugins.register(f"{name}.example.com", str(made.folder / f"{name}.sock"), ["v1.DRAPlugin"])
        [plugin] = plugins.of_driver(f"{name}.example.com")
        made.keep(manager(made)._watch_health(plugin))


async def claims_of_pods_that_are_gone(made: World) -> None:
    for name in NAMES:
        info = ClaimInfo.of(claim_object(f"claim-of-{name}", drivers=("d",)))
        assert info is not None
        info.pods[PodUID(name)] = None
        manager(made).cache.add(info)
    await manager(made).reconcile(())


async def drivers_that_are_gone(made: World) -> None:
    wipes = SliceWipes("node-1", made.store, MINOR, clock=made.clock, tasks=made.tasks)
    made.stack.callback(wipes.stop)
    for name in NAMES:
        wipes.set_usable(name, False)


async def writes(made: World) -> None:
    async def work(name: str) -> None:
        broken_object.handle(name)

    queue = WorkQueue[str](work, made.tasks, made.clock, lambda text: None)
    made.stack.push_async_callback(queue.close)
    for name in NAMES:
        queue.add(name)


class Follower:
    """Hands each object on to what is broken."""

    def replaced(self, items: Sequence[Any]) -> None:
        broken_object.handle(items)

    def changed(self, item: Any) -> None:
        broken_object.handle(item)

    def deleted(self, item: Any) -> None:
        broken_object.handle(item)


class Lists:
    """An API server with a list of one object at each path."""

    async def get(self, path: str, query: Any) -> Any:
        return {"items": [{"metadata": {"name": path}}], "metadata": {"resourceVersion": "1"}}


def reflector(made: World, path: str) -> Reflector:
    client: Any = Lists()
    return Reflector(client, path, {}, Follower(), made.clock, lambda text: None)


async def lists(made: World) -> None:
    for name in NAMES:
        await reflector(made, f"/{name}")._list()


async def changes(made: World) -> None:
    for verb in ("ADDED", "DELETED"):
        for name in NAMES:
            item = {"metadata": {"name": name, "resourceVersion": "2"}}
            # What is not taken ends the watch, as the list is to be read again.
            with suppress(ApiError):
                reflector(made, "/pods")._handled({"type": verb, "object": item})


async def references(made: World) -> None:
    client: Any = Lists()
    held = References(client, made.tasks, made.clock, lambda text: None)
    for name in NAMES:
        await held._call_when_read(PodUID(name), (), partial(broken_object.handle, name))


async def joined_objects(made: World, part: str) -> None:
    async with serving() as server, server.joined() as joined:
        items = [{**pod_manifest(name), "metadata": {"name": name, "uid": name}} for name in NAMES]
        getattr(joined.cluster, part).replaced(items)


async def api_requests(made: World) -> None:
    async with serving() as server, ClientSession() as session:
        path = f"{server.api.url}/api/v1/namespaces/default/pods"
        statuses = [(await session.get(f"{path}/{name}")).status for name in NAMES]
    assert statuses == [500, 404]


async def followers(made: World) -> None:
    record = Broadcast()
    seen: list[object] = []
    record.follow(lambda entry: broken_object.handle(entry.event))
    record.follow(seen.append)
    for name in NAMES:
        record.append(EventRecorded(name, "Normal", name, "", ""))
    assert len(seen) == 2


def live_nodes(made: World) -> LiveNodes:
    nodes = LiveNodes((), {}, made.folder, made.tasks)
    made.stack.push_async_callback(nodes.close)
    return nodes


async def node_events(made: World) -> None:
    live = live_nodes(made)
    for name in NAMES:
        live.observe(KubeletStopped(name))


async def control_plane(made: World) -> None:
    live = live_nodes(made)

    async def work(name: str) -> None:
        broken_object.handle(name)
        await asyncio.get_running_loop().create_future()

    for name in NAMES:
        live.keep(name, partial(work, name))


async def supervised_plugins(made: World) -> None:
    class Process:
        def __init__(self, name: str) -> None:
            self.command = SimpleNamespace(node="node-1", name=name)

        async def run(self) -> None:
            broken_object.handle(self.command.name)
            await asyncio.get_running_loop().create_future()

    for name in NAMES:
        process: Any = Process(name)
        made.keep(_kept_running(process, RealClock()))


async def control_requests(made: World) -> None:
    async def perform(step: object) -> str:
        broken_object.handle(step)
        return "done"

    answers = [await _answer(json.dumps(name).encode(), perform) for name in NAMES]
    assert [sorted(answer) for answer in answers] == [["error", "status"], ["done"]]


_HANDLE = "tests.support.broken_object.handle"
CASES = {
    "notice of a write": Case("simkubelet.cluster.scheduler.event_handlers.EventHandlers.put_pod", pods()),
    "scheduling of a pod": Case("simkubelet.cluster.scheduler.cycle.SchedulingCycles.try_pod", pods()),
    "scheduling gates of a pod": Case(
        "simkubelet.cluster.scheduler.dynamic_resources.inventory.Inventory.missing", pods()
    ),
    "binding of a pod": Case("simkubelet.cluster.scheduler.scheduler.Scheduler._look", waiting_bindings),
    "queueing hint of a pod": Case("simkubelet.cluster.scheduler.queue.SchedulingQueue._helps", unschedulable),
    "start of the scheduler": Case(
        "simkubelet.cluster.scheduler.event_handlers.EventHandlers.put_pod", start_of_a_scheduler
    ),
    "taints of a node": Case("simkubelet.cluster.controllers.node_lifecycle.NodeLifecycle._taint", nodes()),
    "health of a node": Case("simkubelet.cluster.controllers.node_lifecycle.NodeLifecycle._look_at", nodes()),
    "evictions from a node": Case("simkubelet.cluster.controllers.node_lifecycle.TaintEviction._settle", nodes()),
    "eviction of a pod by taints": Case(
        "simkubelet.cluster.controllers.node_lifecycle.TaintEviction._consider", pods_on_tainted_nodes
    ),
    "eviction of a pod": Case(
        "simkubelet.cluster.controllers.pod_evictions.PodEvictions._record", pods_on_tainted_nodes
    ),
    "eviction of a pod by device taints": Case(
        "simkubelet.cluster.controllers.device_taint_eviction.DeviceTaintEviction._reasons", claims_of_tainted_devices
    ),
    "status of a DeviceTaintRule": Case(
        "simkubelet.cluster.controllers.device_taint_rule_status.RuleStatuses.update", each(taint_rule)
    ),
    "garbage collection of an owner's dependents": Case(
        "simkubelet.cluster.controllers.garbage_collector.GarbageCollector._end_owner", each(leaving_owner)
    ),
    "garbage collection of an object": Case(
        "simkubelet.cluster.controllers.garbage_collector.GarbageCollector._look_at", each(owned)
    ),
    "garbage collection of a pod": Case(
        "simkubelet.cluster.controllers.garbage_collector.PodGarbageCollector._delete", pods_of_a_node_that_is_gone
    ),
    "sync of a namespace": Case(
        "simkubelet.cluster.controllers.namespaces.NamespaceController._furnish",
        each(lambda made, name: made.create("namespaces", name)),
    ),
    "deletion of a namespace": Case(
        "simkubelet.cluster.controllers.namespace_deletion.NamespaceDeletion._end", deleted_namespaces
    ),
    "sync of a ResourceClaim or of a pod with claims": Case(
        "simkubelet.cluster.controllers.resource_claims.ResourceClaimController._sync_pod",
        pods(resourceClaims=[{"name": "r", "resourceClaimName": "c"}]),
    ),
    "sync of a DaemonSet": Case(
        "simkubelet.cluster.controllers.daemonset_controller.DaemonSetController._sync", each(daemon_set)
    ),
    "end of a container": Case("simkubelet.runtime.container_runtime.BookKeepingContainer.wait", killed_containers),
    "end of a pod": Case("simkubelet.pods.pod_worker.end_containers", deleted_pods),
    "manifest of a static pod": Case("simkubelet.pods.static_pods._static_pod", manifests, has_event=False),
    "admission or update of a pod": Case(
        "simkubelet.pods.pod_admission.PodAdmission.rejection", pods(nodeName="node-1")
    ),
    "sync of a pod": Case("simkubelet.pods.pod_worker.actions_for", pods(nodeName="node-1")),
    "status of a node": Case("simkubelet.node.NodePublisher._next", publishers),
    "lease of a node": Case("simkubelet.cluster.store.Store.renew_lease", leases, has_event=False),
    "connection to a device plugin": Case(
        "simkubelet.registration.plugin_client.PluginClient.connect", device_plugins, has_event=False
    ),
    "stream of a device plugin": Case(
        "simkubelet.registration.plugin_client.PluginClient.run", device_plugins, has_event=False
    ),
    "registration of a plugin": Case(
        "simkubelet.registration.plugin_manager.PluginManager._register", watched_plugins, has_event=False
    ),
    "socket of a plugin": Case(
        "simkubelet.registration.plugin_manager.PluginManager._may_try", watched_plugins, has_event=False
    ),
    "connection to a DRA driver": Case("simkubelet.dra.plugins.DriverPlugin.keep_connected", drivers, has_event=False),
    "health of a DRA driver's devices": Case(
        "simkubelet.dra.manager.DraManager._take_reports", drivers, has_event=False
    ),
    "claims of a pod that is gone": Case(
        "simkubelet.dra.manager.DraManager._unprepare", claims_of_pods_that_are_gone, has_event=False
    ),
    "ResourceSlices of a driver that is gone": Case(
        "simkubelet.cluster.store.Store.delete_resource_slices", drivers_that_are_gone, has_event=False
    ),
    "write to the API server": Case(_HANDLE, writes, has_event=False),
    "list of the API server": Case(_HANDLE, lists, has_event=False),
    "change that the API server reports": Case(_HANDLE, changes, has_event=False),
    "pod whose references have been read": Case(_HANDLE, references, has_event=False),
    "listed pod": Case(
        "simkubelet.remote.pods.RemotePods.changed", partial(joined_objects, part="_pods"), has_event=False
    ),
    "listed node": Case(
        "simkubelet.remote.nodes.RemoteNodes.changed", partial(joined_objects, part="_nodes"), has_event=False
    ),
    "request to the API server": Case(
        "simkubelet.cluster.api.endpoints.reading.Reading.answer", api_requests, has_event=False
    ),
    "display of an event": Case(_HANDLE, followers, has_event=False),
    "event of a node": Case("scenarios.up.nodes.LiveNodes._take", node_events, has_event=False),
    "part of the control plane": Case(_HANDLE, control_plane, has_event=False),
    "supervision of a plugin": Case(_HANDLE, supervised_plugins, has_event=False),
    "request of another command": Case(_HANDLE, control_requests, has_event=False),
}


@pytest.fixture
def reported() -> list[str]:
    return []


@pytest.mark.slow
@pytest.mark.parametrize("door", CASES)
async def test_others_are_handled_when_one_object_fails(
    door: str,
    reported: list[str],
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = CASES[door]
    calls = break_calls(monkeypatch, case.breaks)
    contain_failures(reported.append)

    async with world(short_folder) as made:
        await case.provoke(made)
        assert await made.until(lambda: calls.broken and calls.others), "nothing was handled"
        assert await made.until(lambda: any(line.startswith(f"{door}: ") for line in reported)), reported
        if case.has_event:
            assert await made.until(lambda: any("it is broken" in text for text in made.events_about("broken")))
        made.store.create_pod(pod("later", nodeName="node-1"))
        assert await made.until(lambda: made.phase("later") == "Running")
        assert not any(loop.done() for loop in made.loops)

    about = [line for line in reported if line.startswith(f"{door}: ")]
    assert all("MemoryError: it is broken" in line for line in about)
    assert any(about[0] in record.message and record.levelno == logging.ERROR for record in caplog.records)


def test_every_door_fails_in_a_test() -> None:
    left_out = {"__main__", "_container_init", "_generated", "catalog", "enter_view", "pytest_plugin"}
    for package in (simkubelet, scenarios):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not left_out & set(module.name.split(".")):
                importlib.import_module(module.name)

    assert len(DOORS) > 40
    assert DOORS.keys() - {door.name for door in _OF_TESTS} == CASES.keys()


_OF_TESTS = [Door("door of a test"), Door("door that lets pass", KeyError)]


def test_failure_leaves_its_door_where_nothing_contains_it() -> None:
    with pytest.raises(ZeroDivisionError), _OF_TESTS[0]("one"):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "error",
    [
        KeyError("passes"),
        HostError("the machine failed"),
        OSError(28, "No space left on device"),
        ExceptionGroup("", [ValueError(), ExceptionGroup("", [HostError("the machine failed")])]),
        asyncio.CancelledError(),
    ],
)
async def test_what_says_nothing_about_an_object_leaves_every_door(error: BaseException, reported: list[str]) -> None:
    contain_failures(reported.append)

    with pytest.raises(type(error)), _OF_TESTS[1]("one"):
        raise error

    assert reported == []


async def test_event_that_cannot_be_recorded_ends_nothing(reported: list[str]) -> None:
    contain_failures(reported.append)

    def record(error: str) -> None:
        raise UnicodeError

    with _OF_TESTS[0]("one", record) as passage:
        raise ValueError("x" * 1_000_000)

    assert isinstance(passage.error, ValueError)
    assert len(reported[0]) < 1000


async def test_failed_work_is_done_again_after_growing_pauses(reported: list[str]) -> None:
    contain_failures(reported.append)
    clock, times = ManualClock(), list[float]()

    async def work() -> None:
        times.append(clock.now())
        if len(times) < 9:
            raise ValueError

    task = asyncio.create_task(_OF_TESTS[0].again_until_done("one", work, clock.sleep))
    await clock.advance(300)
    await task

    assert times == [0, 1, 3, 7, 15, 31, 63, 123, 183]


async def cancelled(work: Coroutine[Any, Any, None], began: asyncio.Event) -> asyncio.Task[None]:
    """Cancel work that has begun; it has ended."""
    task = asyncio.create_task(work)
    await began.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=LIMIT_S)
    task.cancel()
    assert done
    return task


async def test_cancelled_work_ends_though_its_clean_up_fails(reported: list[str]) -> None:
    contain_failures(reported.append)
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise PermissionError("/proc")

    clock = ManualClock()
    plugin: Any = SimpleNamespace(command=SimpleNamespace(node="n", name="p"), run=work, starts=2)
    for works in (_OF_TESTS[0].again_until_done("one", work, clock.sleep), _kept_running(plugin, RealClock())):
        began.clear()
        assert (await cancelled(works, began)).cancelled()

    assert len(reported) == 2


async def test_plugin_that_fails_while_it_is_ended_is_not_started_again() -> None:
    began = asyncio.Event()

    async def run() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise HostError("the machine failed")

    plugin: Any = SimpleNamespace(command=SimpleNamespace(node="n", name="p"), run=run, starts=2)
    assert (await cancelled(_kept_running(plugin, RealClock()), began)).cancelled()


async def test_clean_up_of_several_goes_on_after_one_that_fails(reported: list[str]) -> None:
    contain_failures(reported.append)
    cleaned = list[str]()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for name in ("one", "another"):
                with _OF_TESTS[0](name):
                    cleaned.append(name)
                    raise ValueError

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert (cleaned, task.cancelled()) == (["one", "another"], True)
