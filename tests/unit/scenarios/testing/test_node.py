"""A node that a test drives by itself; the plugins' processes are in tests/process/simkubelet/test_pytest_plugin.py."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from scenarios.testing.api import AsyncCluster, AsyncNode, ExpectationError, running_machine, running_node
from scenarios.testing.blocking import running
from scenarios.testing.story import find_file, jobs, replacements
from simkubelet import InputError

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "passenger"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where nodes make their folders: a place with a short path, as sockets are made below it."""
    folder = Path(tempfile.mkdtemp(prefix="sk-unit-", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _nothing_stays(temporary: Path) -> Any:
    yield
    # A folder with anything in it cannot be removed so.
    temporary.rmdir()
    assert "simkubelet" not in {thread.name for thread in threading.enumerate()}


async def test_pod_runs_on_the_node() -> None:
    async with AsyncNode() as node:
        assert node.apply(POD).status.phase == "Pending"
        await node.expect(pod="passenger", phase="Running")
        node.delete("passenger")
        await node.expect(pod="passenger", gone=True)
        with pytest.raises(InputError, match="no pod 'passenger'; the pods are: none"):
            node.pod("passenger")


async def test_node_follows_the_keys_of_a_story() -> None:
    async with AsyncNode({"name": "gpu-node", "kubernetes": "1.30", "files": ["/srv/seats/aisle"]}) as node:
        await node.expect(kubelet="running")
        await node.expect(node="gpu-node", kubelet="running")
        assert (node.root / "srv" / "seats" / "aisle").exists()
        assert (node.plugin_folder / "kubelet.sock").is_socket()


async def test_kubelet_stops_starts_and_reboots() -> None:
    async with AsyncNode() as node:
        await node.stop()
        await node.expect(kubelet="stopped")
        await node.start()
        await node.reboot()
        await node.restart()
        await node.advance(300)

        assert [entry.kind for entry in node.trace if entry.kind.startswith("kubelet-")] == [
            *("kubelet-started", "kubelet-stopped") * 3,
            "kubelet-started",
        ]
        node.apply(POD)
        await node.expect(pod="passenger", phase="Running")
        assert node.trace[-1].time_s >= 300


async def test_unmet_expectation_shows_expected_actual_and_trace() -> None:
    async with AsyncNode() as node:
        with pytest.raises(ExpectationError) as failed:
            await node.expect(kubelet="stopped", within="10ms")

    lines = str(failed.value).splitlines()
    assert lines[0] == "expect node node-1 is not met"
    assert lines[1:5] == ["  kubelet", "    expected  stopped", "    actual    running", "  within: 10ms"]
    assert any("kubelet-started" in line for line in lines)


async def test_expectation_that_does_not_hold_is_not_met() -> None:
    async with AsyncNode() as node:
        node.apply(POD)
        with pytest.raises(ExpectationError, match="holds: 30s"):
            await node.expect(pod="passenger", phase="Pending", holds="30s")


async def test_error_of_the_test_itself_is_in_no_group() -> None:
    with pytest.raises(ZeroDivisionError):
        async with AsyncNode():
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with AsyncCluster():
            raise ZeroDivisionError


async def test_condition_that_stays_false_fails_with_the_trace() -> None:
    async with AsyncNode() as node:
        with pytest.raises(ExpectationError, match=r"(?s)did not come true\n  waited 0.01 s\n.*kubelet-started"):
            await node.until(lambda: False, 0.01)


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        pytest.param({"restartKubelt": {}}, "restartKubelt: unknown key; did you mean 'restartK", id="verb"),
        pytest.param({"restartKubelet": {"node": "node-2"}}, "no node 'node-2'; the node is 'node-1'", id="node"),
        pytest.param({"killPlugin": {"plugin": "a"}}, "no plugin 'a'; those that were started: none", id="plugin"),
        pytest.param({"expect": {"nod": "node-1"}}, "expected a mapping with exactly one of 'node'", id="subject"),
        pytest.param({"expect": {"node": "node-1", "podResources": {}}}, "of stories only|stories only", id="api"),
    ],
)
async def test_impossible_step_is_refused_in_one_line(step: dict[str, Any], complaint: str) -> None:
    async with AsyncNode() as node:
        with pytest.raises(InputError, match=complaint) as refused:
            await node.step(**step)

    assert "\n" not in str(refused.value)


async def test_plugin_that_is_not_there_is_refused() -> None:
    async with AsyncNode() as node:
        for command in ([], ["./absent"]):
            with pytest.raises(InputError, match="plugin 'plugin': no program"):
                await node.start_plugin(*command)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        pytest.param({"kubernets": "1.30"}, "node: kubernets: unknown key; did you mean 'kubernetes'?", id="key"),
        pytest.param({"kubernetes": "1.1"}, "node: kubernetes: no Kubernetes '1.1' here", id="version"),
        pytest.param({"gpus": {"profile": "t5", "count": 1}}, "node: gpus.profile: no profile 't5'", id="profile"),
    ],
)
def test_wrong_node_is_refused_before_it_starts(keys: dict[str, Any], complaint: str) -> None:
    for make in (AsyncNode, lambda wrong: AsyncCluster(2, **wrong)):
        with pytest.raises(InputError) as refused:
            make(keys)
        assert str(refused.value).startswith(complaint)


def test_blocking_node_does_the_same() -> None:
    with running_node({"kubernetes": "1.30"}) as node:
        node.apply(POD)
        node.until(lambda: node.pod("passenger").status.phase == "Running")
        node.step(restartKubelet={})
        node.expect(pod="passenger", phase="Running")
        with pytest.raises(ExpectationError) as failed:
            node.expect(pod="passenger", phase="Failed", within="10ms")

        assert node.devices_of("passenger") == {"main": {}}
        assert "kubelet-stopped" in node.happened
        assert next(entry.path.name for entry in failed.traceback) == Path(__file__).name


def test_work_that_nothing_waits_for_is_ended_with_its_loop() -> None:
    ended: list[bool] = []
    begun: list[asyncio.Task[None]] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    with running() as loop:
        loop.call(lambda: begun.append(asyncio.ensure_future(work())))

    assert ended == [True]


def test_machine_is_gone_after_the_test() -> None:
    with running_machine({"profile": "t4", "count": 2}) as machine:
        assert [gpu.name for gpu in machine.gpus] == ["Tesla T4"] * 2


async def test_cluster_has_nodes_and_a_kubeconfig() -> None:
    async with AsyncCluster(2, kubernetes="1.30") as cluster:
        assert cluster.nodes == ("node-1", "node-2")
        assert cluster.kubeconfig.exists()
        assert cluster.machine("node-1") is None
        await cluster.stop_kubelet("node-1")
        with pytest.raises(InputError, match="is stopped already"):
            await cluster.stop_kubelet("node-1")
        await cluster.start_kubelet("node-1")
        with pytest.raises(InputError, match="no node 'node-3'; the nodes are node-1, node-2"):
            cluster.machine("node-3")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 10**400, -5, "5", None])
async def test_advance_takes_only_a_time(seconds: Any) -> None:
    async with AsyncNode() as node:
        with pytest.raises(InputError):
            await node.advance(seconds)


@pytest.mark.parametrize(
    "keys",
    [
        {"nodes": "x"},
        {"nodes": None},
        {"nodes": 0},
        {"nodes": 1_000_000_000},
        {"plugins": 5},
        {"plugins": "nvidia"},
        {"plugins": [5]},
        {"images": 7},
        {"images": {"a": object()}},
        {"images": {"a": "program"}},
        {"images": {"a": [1]}},
        {"files": object()},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_cluster_of_other_values_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        AsyncCluster(**keys)


@pytest.mark.parametrize("name", [object(), 5, None, "", "a\0.yaml", "a\0", "a\ud800.yaml"])
def test_what_names_no_story_is_refused(name: Any) -> None:
    with pytest.raises(InputError):
        find_file(name, Path())


@pytest.mark.parametrize("plugin", ["'unclosed", "", [], 5, {"gopher": object()}, {5: "true"}, [object()]])
def test_what_is_no_command_of_a_plugin_is_refused(plugin: Any) -> None:
    story = find_file("gopher-pending", Path())

    with pytest.raises(InputError):
        replacements(story, plugin)


@pytest.mark.parametrize("kubernetes", [1.3, 1.34, 5, "1.99", "\ud800"])
def test_what_is_no_version_is_refused(kubernetes: Any) -> None:
    with pytest.raises(InputError, match=r"no Kubernetes|is no text"):
        jobs(find_file("gopher-pending", Path()), {}, kubernetes)
