"""Fed in: nodes of a live cluster with ``--plugin stub``; observed: what they offer, and how the stubs obey."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenarios.trace.snapshot import PluginState
from scenarios.up.cluster import ClusterSpec, LiveCluster
from scenarios.up.options import NodeOptions
from simkubelet.model.errors import InputError
from tests.support.patience import until

_NAMES = ("node-1", "node-2", "node-3")


@pytest.fixture
async def cluster() -> AsyncIterator[LiveCluster]:
    given = NodeOptions(len(_NAMES), None, False, None, None, None, ("stub",), (), (), "book-keeping", ())
    spec = ClusterSpec("c", given.specs(_NAMES, "1.34"), given.plugins())
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        async with LiveCluster(spec, Path(folder)) as cluster:
            yield cluster


def _states(cluster: LiveCluster) -> list[PluginState]:
    return [view.state for view in cluster.live.plugins.views]


async def test_each_node_has_a_stub_with_eight_devices_in_this_process(cluster: LiveCluster) -> None:
    objects = cluster.api.registry.objects

    def offered() -> list[str | None]:
        return [node["status"]["allocatable"].get("example.com/device") for node in objects.all_of("nodes")]

    # Each has registered before the next node was made.
    assert [view.registrations for view in cluster.live.plugins.views] == [1, 1, 1]
    for kubelet in cluster.live.kubelets.values():
        kubelet.publish()
    await until(lambda: offered() == ["8"] * 3)
    assert list(cluster.live.introductions()) == [f"  {name}  8 x example.com/device" for name in _NAMES]


async def test_link_in_the_place_of_a_log_ends_no_cluster(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scenarios.up.nodes._BROKEN_PLUGIN_BACKOFF_S", 0.1)
    await until(lambda: _states(cluster) == [PluginState.RUNNING] * 3)
    log = cluster.live.by_name["node-2"].plugin_logs / "stub.log"
    log.rename(log.with_name("before"))
    log.symlink_to("/etc/passwd")

    await cluster.controls.perform({"killPlugin": {"plugin": "stub", "node": "node-2"}})
    warned = ""
    while "stub.log: cannot be written: Too many levels of symbolic links" not in warned:
        await asyncio.sleep(0.01)
        warned += capsys.readouterr().err
    log.unlink()

    await until(lambda: _states(cluster) == [PluginState.RUNNING] * 3)
    assert [view.restarts > 0 for view in cluster.live.plugins.views] == [False, True, False]


async def test_stub_is_killed_and_started_again_but_not_paused(cluster: LiveCluster) -> None:
    await until(lambda: _states(cluster) == [PluginState.RUNNING] * 3)
    await cluster.controls.perform({"killPlugin": {"plugin": "stub", "node": "node-2"}})
    await until(lambda: [view.restarts for view in cluster.live.plugins.views] == [0, 1, 0])

    with pytest.raises(InputError, match="'stub' is part of this process and cannot be sent SIGSTOP; kill or stop it"):
        await cluster.controls.perform({"pausePlugin": {"plugin": "stub", "node": "node-2"}})


async def test_stub_registers_again_with_a_kubelet_that_restarts(cluster: LiveCluster) -> None:
    await until(lambda: [view.registrations for view in cluster.live.plugins.views] == [1, 1, 1])
    await cluster.controls.perform({"restartKubelet": {"node": "node-3"}})

    await until(lambda: [view.registrations for view in cluster.live.plugins.views] == [1, 1, 2])
