"""Plugins on a real cluster, observed through their pods, stubs and kubelet logs."""

import asyncio
import json
import signal
from typing import Any, Literal

import pytest

from scenarios.backends.kind.api import ClusterApi
from scenarios.backends.kind.daemon_set import LABELS, Place
from scenarios.backends.kind.image import PluginImage
from scenarios.backends.kind.node import PLUGIN_FOLDER, TAPS, KindNode
from scenarios.backends.kind.plugins import KindPlugins
from scenarios.backends.kind.program import Program
from scenarios.story.specs import PluginSpec
from scenarios.story.verbs.plugin_action import AnswerRpc, EndStream, StopPlugin
from scenarios.trace.events import PluginExited, PluginStarted
from scenarios.trace.snapshot import PluginState, PluginView, Rpc
from scenarios.trace.trace import Trace
from simkubelet.model.events import (
    DevicesListed,
    DriverConnected,
    DriverDisconnected,
    DriverReconnected,
    PluginRegistered,
)

_IMAGE = PluginImage("simkubelet/plugin:1", "/usr/bin/python3", "/site")
_RUNNING: dict[str, Any] = {"running": {}}


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


class SilentApi(ClusterApi):
    """An API server that takes everything; the DaemonSets that it was given are kept."""

    def __init__(self) -> None:
        super().__init__(None)
        self.made: list[Any] = []

    async def call(self, method: str, url: str, body: object = None, **options: Any) -> dict[str, Any]:
        if url.endswith("daemonsets"):
            self.made.append(body)
        return {}


class SilentNode(KindNode):
    """A node whose agent does all that it is asked to."""

    def __init__(self) -> None:
        super().__init__("node-1", "dev-control-plane", _IMAGE, lambda told: None)
        self.asked: list[tuple[str, Any]] = []

    async def ask(self, do: str, **given: Any) -> Any:
        self.asked.append((do, given))
        return 1

    async def put(self, archive: bytes) -> None:
        pass


@pytest.fixture
def trace() -> Trace:
    return Trace()


@pytest.fixture
def api() -> SilentApi:
    return SilentApi()


async def started(
    trace: Trace,
    api: SilentApi,
    specs: tuple[PluginSpec, ...],
    programs: dict[str, Program],
    node: SilentNode | None = None,
) -> KindPlugins:
    made = KindPlugins(specs, programs, _IMAGE, trace)
    node = node or SilentNode()
    await made.start(api, {"node-1": node}, [Place("node-1", {"FAKEGPU_SEGMENT": "/x"}, {}, has_machine=True)])
    return made


@pytest.fixture
async def plugins(trace: Trace, api: SilentApi) -> KindPlugins:
    specs = (PluginSpec(name="nvidia", builtin="nvidia"), PluginSpec(name="gpu", builtin="stub"))
    return await started(trace, api, specs, {})


def pod(uid: str, restarts: int, state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"restartCount": restarts, "state": state, "lastState": last or {}}
    return {
        "metadata": {"uid": uid, "labels": {**LABELS, "plugin": "gpu", "node": "node-1"}},
        "spec": {"nodeName": "dev-control-plane"},
        "status": {"containerStatuses": [status]},
    }


def view(plugins: KindPlugins, name: str) -> PluginView:
    return next(one for one in plugins.views if one.name == name)


def lives(trace: Trace) -> list[tuple[str, int]]:
    started = {entry.seq: entry.event.life for entry in trace if isinstance(entry.event, PluginStarted)}
    exited = {entry.seq: entry.event.status for entry in trace if isinstance(entry.event, PluginExited)}
    return [(trace[seq].kind, number) for seq, number in sorted((started | exited).items())]


def test_a_pod_that_is_not_up_yet_is_no_life(plugins: KindPlugins, trace: Trace) -> None:
    plugins.seen_pod(pod("1", 0, {"waiting": {"reason": "ContainerCreating"}}), True)

    assert not lives(trace)


def test_a_killed_plugin_ends_by_its_signal_and_lives_again(plugins: KindPlugins, trace: Trace) -> None:
    plugins.seen_pod(pod("1", 0, _RUNNING), True)
    plugins.seen_pod(pod("1", 1, _RUNNING, ended(137)), True)

    assert lives(trace) == [("plugin-started", 1), ("plugin-exited", -9), ("plugin-started", 2)]
    assert view(plugins, "gpu").restarts == 1
    assert view(plugins, "gpu").state is PluginState.RUNNING


def test_a_plugin_between_two_lives_waits(plugins: KindPlugins, trace: Trace) -> None:
    plugins.seen_pod(pod("1", 0, _RUNNING), True)
    plugins.seen_pod(pod("1", 0, {"waiting": {"reason": "CrashLoopBackOff"}}, ended(1)), True)

    assert lives(trace) == [("plugin-started", 1), ("plugin-exited", 1)]
    assert view(plugins, "gpu").state is PluginState.WAITING


def test_the_lives_of_a_new_pod_follow_those_of_the_old(plugins: KindPlugins, trace: Trace) -> None:
    plugins.seen_pod(pod("1", 0, _RUNNING), True)
    plugins.seen_pod(pod("1", 0, _RUNNING), False)
    assert view(plugins, "gpu").state is PluginState.STOPPED

    plugins.seen_pod(pod("2", 0, _RUNNING), True)

    assert lives(trace) == [("plugin-started", 1), ("plugin-exited", 0), ("plugin-started", 2)]


def test_an_old_pod_that_still_ends_beside_its_successor_is_no_life(plugins: KindPlugins, trace: Trace) -> None:
    plugins.seen_pod(pod("1", 0, _RUNNING), True)
    plugins.seen_pod(pod("2", 0, _RUNNING), True)
    before = lives(trace)

    plugins.seen_pod(pod("1", 0, ended(0)), True)
    plugins.seen_pod(pod("1", 0, ended(0)), False)

    assert lives(trace) == before
    assert view(plugins, "gpu").state is PluginState.RUNNING


def test_a_plugin_whose_pod_is_rejected_after_a_reboot_was_killed_with_its_node(
    plugins: KindPlugins, trace: Trace
) -> None:
    rejected = pod("1", 0, _RUNNING)
    plugins.seen_pod(rejected, True)
    plugins.seen_pod({**rejected, "status": {"phase": "Failed"}}, True)
    plugins.seen_pod({**rejected, "status": {"phase": "Failed"}}, False)

    assert lives(trace) == [("plugin-started", 1), ("plugin-exited", -9)]


def test_a_stub_counts_its_calls_and_keeps_the_last_refusal(plugins: KindPlugins) -> None:
    for report in (
        {"ready": True},
        {"called": "Allocate", "devices": ["gpu-0"]},
        {"registered": "example.com/gpu", "endpoint": "gpu.sock", "error": ""},
        {"registered": "example.com/gpu", "endpoint": "gpu.sock", "error": "no"},
    ):
        plugins.seen_line("gpu", "node-1", json.dumps(report))

    seen = view(plugins, "gpu")
    assert (seen.calls, seen.registrations, seen.refusal) == ({"Allocate": 1, "Register": 2}, 1, "no")


def test_a_kubelets_log_tells_registrations_and_lists(plugins: KindPlugins, trace: Trace) -> None:
    for line in (
        'I1122 06:32:18.715133 637 server.go:160] "Got registration request from device plugin with resource" '
        'resourceName="nvidia.com/gpu"',
        'I1122 06:32:18.815133 637 handler.go:85] "Connected to new client" resource="nvidia.com/gpu"',
        'I1122 06:32:18.915133 637 manager.go:315] "Processed device updates for resource" '
        'resourceName="nvidia.com/gpu" totalCount=8 healthyCount=7',
        'I1122 06:32:19.015133 637 kubelet.go:1] "Something else"',
    ):
        plugins.seen_journal("node-1", line)

    (registered,), (listed,) = trace.of(PluginRegistered), trace.of(DevicesListed)
    assert view(plugins, "nvidia").registrations == 1
    assert registered.resource == "nvidia.com/gpu"
    assert (len(listed.healthy), len(listed.unhealthy)) == (7, 1)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "example.com/other"])
async def test_a_resource_that_nobody_is_known_to_serve_is_the_unknown_programs(
    resource: str, trace: Trace, api: SilentApi
) -> None:
    specs = (
        PluginSpec(name="nvidia", builtin="nvidia"),
        PluginSpec(name="mine", command=("x",)),
        PluginSpec(name="gpu", builtin="stub"),
    )
    plugins = await started(trace, api, specs, {"mine": Program(("/x",), frozenset())})

    plugins.seen_journal("node-1", f'"Connected to new client" resource="{resource}"')

    counts = {one.name: one.registrations for one in plugins.views}
    assert counts == {"nvidia": resource == "nvidia.com/gpu", "mine": resource != "nvidia.com/gpu", "gpu": 0}


class NodeWithDriver(SilentNode):
    """The plugin `new` listens on the socket ``dra-new.sock``."""

    async def ask(self, do: str, **given: Any) -> Any:
        await super().ask(do, **given)
        if do != "listeners":
            return 1
        return [mark for mark in given["marks"] if given["socket"].endswith("dra-new.sock") and mark.endswith("new")]


def of_driver(name: str, said: str, rest: str) -> str:
    """A line of the log about an instance of a driver's plugin."""
    endpoint = f'endpoint="/var/lib/kubelet/plugins/dra.example.com/dra-{name}.sock"'
    about = f'logger="DRA registration handler" driverName="dra.example.com" {endpoint}'
    return f'I1127 06:32:18.8 7 dra_plugin_manager.go:138] "{said}" {about} {rest}'


REGISTERED = ("Registered DRA plugin", 'chosenService="v1.DRAPlugin" numPlugins=1')
UNREGISTERED = ("Unregistered DRA plugin", "numPlugins=0")
CONNECTED = ("Connection changed", "connected=true")
DISCONNECTED = ("Connection changed", "connected=false")


async def test_registration_of_a_driver_counts_for_who_listens_there(trace: Trace, api: SilentApi) -> None:
    node = NodeWithDriver()
    specs = tuple(PluginSpec(name=name, command=("x",)) for name in ("old", "new"))
    program = Program(("/x",), frozenset())
    plugins = await started(trace, api, specs, {"old": program, "new": program}, node)

    for said in (REGISTERED, CONNECTED):
        for name in ("new", "another"):
            plugins.seen_journal("node-1", of_driver(name, *said))
    await trace.longer_than(0)
    for name in ("another", "new"):
        plugins.seen_journal("node-1", of_driver(name, *DISCONNECTED))

    assert {one.name: one.registrations for one in plugins.views} == {"old": 0, "new": 1}
    (connected,), (disconnected,) = trace.of(DriverConnected), trace.of(DriverDisconnected)
    assert (connected.driver, connected.endpoint) == ("dra.example.com", "dra.example.com/dra-new.sock")
    assert disconnected.endpoint == connected.endpoint
    mounts = {one["mountPath"] for one in api.made[0]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]}
    assert mounts >= {"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}


async def test_connection_that_the_kubelet_makes_again_is_no_registration(trace: Trace, api: SilentApi) -> None:
    program = Program(("/x",), frozenset())
    plugins = await started(trace, api, (PluginSpec(name="new", command=("x",)),), {"new": program}, NodeWithDriver())

    def say(*lines: tuple[str, str]) -> None:
        for said in lines:
            plugins.seen_journal("node-1", of_driver("new", *said))

    say(REGISTERED, CONNECTED)
    await trace.longer_than(0)
    say(DISCONNECTED, CONNECTED)
    assert view(plugins, "new").registrations == 1
    say(UNREGISTERED, DISCONNECTED, REGISTERED, CONNECTED)
    await trace.longer_than(4)

    assert view(plugins, "new").registrations == 2
    assert [type(entry.event) for entry in trace] == [
        DriverConnected,
        DriverDisconnected,
        DriverReconnected,
        DriverDisconnected,
        DriverConnected,
    ]


async def test_program_in_place_of_a_bundled_plugin_serves_the_same(trace: Trace, api: SilentApi) -> None:
    specs = (PluginSpec(name="nvidia", builtin="nvidia"),)
    plugins = await started(trace, api, specs, {"nvidia": Program(("/x",), frozenset())})

    plugins.seen_journal("node-1", '"Connected to new client" resource="nvidia.com/gpu"')

    assert view(plugins, "nvidia").registrations == 1


def test_only_a_stub_gets_a_pipe_for_commands(plugins: KindPlugins, api: SilentApi) -> None:
    nvidia, stub = (one["spec"]["template"]["spec"]["containers"][0] for one in api.made)

    assert "<>" in stub["command"][2]
    assert nvidia["command"][0] == _IMAGE.python
    assert {"name": "FAKEGPU_SEGMENT", "value": "/x"} in nvidia["env"]


async def test_a_tap_has_the_plugins_folder_and_tells_in_the_place_of_a_stub(trace: Trace, api: SilentApi) -> None:
    node = SilentNode()
    specs = (PluginSpec(name="gpu", builtin="stub", tap=True), PluginSpec(name="nvidia", builtin="nvidia", tap=True))
    plugins = await started(trace, api, specs, {}, node)

    await plugins.perform(EndStream(plugin="nvidia"), "node-1")
    await plugins.perform(AnswerRpc(plugin="gpu", rpc=Rpc.REGISTER, empty=True), "node-1")
    plugins.seen_line("gpu", "node-1", json.dumps({"called": "Allocate", "devices": []}))
    for name in ("gpu", "nvidia"):
        plugins.seen_report(name, "node-1", {"registered": "example.com/gpu", "endpoint": "s", "error": ""})

    assert node.asked == [
        ("add_tap", {"plugin": "gpu"}),
        ("add_stub", {"plugin": "gpu"}),
        ("add_tap", {"plugin": "nvidia"}),
        ("command_tap", {"plugin": "nvidia", "command": {"command": "endStream"}}),
        (
            "command_tap",
            {"plugin": "gpu", "command": {"command": "answer", "rpc": "Register", "after_s": 0.0, "empty": True}},
        ),
    ]
    seen = {one.name: (one.calls, one.registrations) for one in plugins.views}
    assert seen == {"gpu": ({"Register": 1}, 1), "nvidia": ({"Register": 1}, 0)}
    for made, name in zip(api.made, ("gpu", "nvidia"), strict=True):
        (spec,) = [made["spec"]["template"]["spec"]]
        mounts = {one["name"]: one["mountPath"] for one in spec["containers"][0]["volumeMounts"]}
        paths = {mounts[one["name"]]: one["hostPath"]["path"] for one in spec["volumes"]}
        assert paths[PLUGIN_FOLDER] == f"{TAPS}/{name}"
        assert paths["/var/lib/kubelet/plugins_registry"] == f"{TAPS}/{name}_found"


async def test_a_plugin_is_off_when_the_controller_lets_go_of_its_pod(trace: Trace) -> None:
    api = LateController()
    plugins = await started(trace, api, (PluginSpec(name="gpu", builtin="gopher"),), {})

    assert await plugins.switch_off("node-1") == ("gpu",)

    assert not api.left
    assert "DELETE" not in api.methods


@pytest.mark.parametrize(("number", "signals"), [("TERM", []), ("KILL", [signal.SIGSTOP, signal.SIGKILL])])
async def test_a_plugin_that_is_stopped_has_ended(
    trace: Trace, number: Literal["TERM", "KILL"], signals: list[int]
) -> None:
    node = SilentNode()
    plugins = await started(trace, LateController(), (PluginSpec(name="gpu", builtin="stub"),), {}, node)
    plugins.seen_pod(pod("1", 0, _RUNNING), True)

    stopping = asyncio.create_task(plugins.perform(StopPlugin(plugin="gpu", signal=number), "node-1"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(stopping), 0.5)
    plugins.seen_pod(pod("1", 0, ended(143)), True)
    await stopping

    assert lives(trace) == [("plugin-started", 1), ("plugin-exited", -15)]
    # The kubelet ends it with SIGTERM; what ended earlier could be started again.
    assert [given["number"] for do, given in node.asked if do == "signal"] == signals


class LateController(SilentApi):
    """A cluster whose DaemonSet controller takes a few looks until it deletes a pod."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 3
        self.methods: list[str] = []

    async def call(self, method: str, url: str, body: object = None, **options: Any) -> dict[str, Any]:
        self.methods.append(method)
        if method != "GET":
            return await super().call(method, url, body, **options)
        self.left -= 1
        return {"items": [{"metadata": {} if self.left else {"deletionTimestamp": "now"}}]}
