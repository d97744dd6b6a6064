from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.scheduler import choose_node, failed_scheduling_message, fit_nodes
from simkubelet.node_status import NodeStatus
from simkubelet.pod import pod_from_manifest
from simkubelet.version import version

GOPHER = "lixueduan.com/gopher"


def node(**amounts: int) -> NodeStatus:
    return NodeStatus({}, {"pods": 110, **{name.replace("__", "/"): n for name, n in amounts.items()}})


def gopher_node(count: int) -> NodeStatus:
    return NodeStatus({}, {"pods": 110, GOPHER: count})


def pod(count: int, node_name: str | None = None):
    spec = {"containers": [{"name": "c", "resources": {"limits": {GOPHER: count}}}], "nodeName": node_name}
    return pod_from_manifest({"metadata": {"name": "p"}, "spec": spec})


@pytest.mark.parametrize(
    ("minor", "message"),
    [
        (
            "1.28",
            "0/1 nodes are available: 1 Insufficient lixueduan.com/gopher. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod..",
        ),
        (
            "1.29",
            "0/1 nodes are available: 1 Insufficient lixueduan.com/gopher. preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod.",
        ),
        (
            "1.34",
            "0/1 nodes are available: 1 Insufficient lixueduan.com/gopher. no new claims to deallocate, preemption: "
            "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
        ),
    ],
)
def test_pod_that_waits_for_a_device_in_use_is_told_in_the_words_of_the_version(minor, message):
    fits = fit_nodes(pod(1), {"n": gopher_node(1)}, [pod(1, "n")])

    assert choose_node(fits) is None
    assert failed_scheduling_message(fits, version(minor)) == message


@pytest.mark.parametrize(
    ("minor", "ending"),
    [
        ("1.33", "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."),
        ("1.34", "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."),
    ],
)
def test_pod_that_no_empty_node_could_hold_is_beyond_preemption_since_1_34(minor, ending):
    fits = fit_nodes(pod(8), {"n": gopher_node(7)}, [])

    assert failed_scheduling_message(fits, version(minor)).endswith(ending)


def test_reasons_of_several_nodes_are_counted_and_sorted():
    fits = fit_nodes(pod(2), {"a": gopher_node(0), "b": gopher_node(2), "c": NodeStatus()}, [pod(1, "b")])

    assert failed_scheduling_message(fits, version("1.34")) == (
        "0/3 nodes are available: 1 Too many pods, 3 Insufficient lixueduan.com/gopher. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def test_pod_goes_to_the_node_with_the_most_left_and_to_the_first_among_equals():
    nodes = {"b": gopher_node(4), "a": gopher_node(4), "c": gopher_node(2)}

    assert choose_node(fit_nodes(pod(1), nodes, [])) == "a"
    assert choose_node(fit_nodes(pod(1), nodes, [pod(1, "a")])) == "b"


async def test_pending_pod_is_scheduled_when_the_other_is_deleted(make_node: Any):
    node = await make_node(scheduler=True)
    await node.plugin("d0")
    await node.tick()
    first = node.pod(1, bound=False)
    await node.until(lambda: node.phase(first) == "Running")
    second = node.pod(1, bound=False)
    await node.until(lambda: node.pod_events(second))

    await node.delete(first)
    await node.clock.advance(1)
    await node.until(lambda: node.phase(second) == "Running")

    assert node.devices(second) == ("d0",)
    assert [reason for reason, _ in node.pod_events(second)] == ["FailedScheduling", "Scheduled", "Created", "Started"]


async def test_pod_is_tried_again_after_five_minutes_if_nothing_changes(make_node: Any):
    node = await make_node(scheduler=True)
    name = node.pod(1, bound=False)
    await node.until(lambda: node.pod_events(name))

    await node.clock.advance(290)
    (event,) = node.store.events_of(node.store.pod_named(name).uid)
    assert event.count == 1

    await node.clock.advance(10)
    (event,) = node.store.events_of(node.store.pod_named(name).uid)
    assert event.count == 2


@pytest.mark.parametrize(("minor", "tries"), [("1.34", 1), ("1.31", 2)])
async def test_device_less_makes_nobody_try_again_since_1_32(make_node: Any, minor: str, tries: int):
    node = await make_node(minor, scheduler=True)
    plugin = await node.plugin("d0", "d1")
    await node.tick()
    name = node.pod(3, bound=False)
    await node.until(lambda: node.pod_events(name))
    await node.clock.advance(2)

    plugin.list(["d0"])
    await node.until(lambda: len(node.of("devices-listed")) == 2)
    await node.tick()

    assert node.status() == (1, 1)
    (event,) = node.store.events_of(node.store.pod_named(name).uid)
    assert event.count == tries
