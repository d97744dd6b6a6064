"""Fed in: a plugin and pods; observed: what a `SimulatedNode` publishes, gives to pods and reports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet import InputError, KubeletConfig, ManualClock, SimulatedNode
from tests.support.node import RESOURCE, FakePlugin


def manifest(name: str, count: int) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {RESOURCE: count}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


@pytest.fixture
async def node(short_folder: Path) -> AsyncIterator[SimulatedNode]:
    async with SimulatedNode(short_folder / "node", KubeletConfig("gpu-node"), ManualClock()) as made:
        yield made


@pytest.fixture
async def plugin(node: SimulatedNode) -> AsyncIterator[FakePlugin]:
    """A plugin with two devices, which the node has published."""
    made = FakePlugin(node.plugin_folder)
    made.list(["d-0", "d-1"])
    await made.serve()
    await made.register()
    await node.until(lambda: any(event.kind == "devices-listed" for event in node.events))
    assert isinstance(node.clock, ManualClock)
    await node.clock.advance(10)
    yield made
    await made.stop()


async def test_listed_devices_are_published(node: SimulatedNode, plugin: FakePlugin) -> None:
    assert (node.capacity[RESOURCE], node.allocatable[RESOURCE]) == (2, 2)


async def test_pod_gets_devices_and_what_the_plugin_answers(node: SimulatedNode, plugin: FakePlugin) -> None:
    node.apply(manifest("trainer", 2))
    await node.until(lambda: node.pod("trainer").status.phase == "Running")

    assert node.devices_of("trainer") == {"main": {RESOURCE: ("d-0", "d-1")}}
    assert set(node.options_of("trainer")["main"].envs.values()) == {"d-0,d-1"}


async def test_deleted_pod_gives_its_devices_back(node: SimulatedNode, plugin: FakePlugin) -> None:
    node.apply(manifest("trainer", 2))
    await node.until(lambda: node.pod("trainer").status.phase == "Running")
    node.delete("trainer")
    await node.until(lambda: node.events[-1].kind == "pod-removed")
    node.apply(manifest("next", 1))
    await node.until(lambda: node.pod("next").status.phase == "Running")

    assert node.devices_of("next")["main"].keys() == {RESOURCE}


async def test_restarted_kubelet_keeps_a_pods_devices(node: SimulatedNode, plugin: FakePlugin) -> None:
    node.apply(manifest("trainer", 1))
    await node.until(lambda: node.pod("trainer").status.phase == "Running")
    held = node.devices_of("trainer")
    await node.kubelet.restart()

    assert node.devices_of("trainer") == held


async def test_unmet_condition_names_the_latest_events(node: SimulatedNode) -> None:
    with pytest.raises(TimeoutError, match=r"within 0 s; the node's latest events: kubelet-started, node-status"):
        await node.until(lambda: False, within_s=0)


async def test_unknown_pod_is_refused(node: SimulatedNode) -> None:
    with pytest.raises(InputError, match="no pod 'trainer'; the pods are: none"):
        node.pod("trainer")


async def test_left_node_can_be_entered_by_another(short_folder: Path) -> None:
    for _ in range(2):
        async with SimulatedNode(short_folder) as node:
            assert node.kubelet.is_running
        assert not node.kubelet.is_running
