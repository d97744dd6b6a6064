"""Every bundled plugin with the kubelet's own device manager, over its own gRPC.

Fed in: processes of plugins, pods; observed: what the manager knows, and what a container gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fakegpu import Machine
from tests.support.kubelet_sides import Programs
from tests.support.oracle import OracleProcess
from tests.support.patience import ASKED_LIMIT_MS
from tests.support.plugin_cases import CASES, PluginCase
from tests.support.plugin_kubelet import plugin_process
from tests.support.short_paths import short_place

NEEDS_A_POD = {"gpu-memory", "gpushare", "volcano"}
"""Plugins that give nothing to a container without a pod that a scheduler has written to."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for sockets."""
    with TemporaryDirectory(prefix="real-", dir=short_place()) as name:
        yield Path(name)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_real_manager_allocates_devices_of_each_plugin(
    oracle_programs: Programs, case: PluginCase, folder: Path
) -> None:
    (folder / "node").mkdir()
    (folder / "sockets").mkdir()

    async def has_allocatable(devices: int) -> None:
        wanted = {"resource": case.resource, "allocatable": devices, "timeout_ms": ASKED_LIMIT_MS}
        seen = await kubelet.ask(cmd="wait_capacity", **wanted)
        assert seen["ok"], f"{seen}\n{(folder / 'log').read_text()}"

    async with case.node(folder / "node") as node, OracleProcess(oracle_programs.oracle, folder / "sockets") as kubelet:
        await kubelet.ask(cmd="start", sources_ready=True)
        arguments = (*node.arguments, "--kubelet-dir", str(folder / "sockets"))
        async with plugin_process(arguments, folder / "log", node.environment):
            await has_allocatable(node.devices)
            if case.name not in NEEDS_A_POD:
                await kubelet.ask(cmd="add_pod", uid="u1", containers=[{"name": "c", "limits": {case.resource: 2}}])
                assert (await kubelet.ask(cmd="admit", pod="u1"))["ok"]
                given = await kubelet.ask(cmd="run_options", pod="u1", container="c")
                assert given["options"]["envs"] or given["options"]["devices"]
            if case.name == "nvidia":
                machine = Machine.open(folder / "node" / "machine")
                machine.fail(0, xid=79)
                await has_allocatable(node.devices - 1)
                machine.close()
            await kubelet.ask(cmd="restart", sources_ready=True)
            if case.restarts_itself:
                await has_allocatable(node.devices)
