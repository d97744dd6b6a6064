from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from simkubelet.cluster.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.model.node import ConditionStatus, NodeStatus, conditions_of
from simkubelet.model.pod_status import Condition, ConditionType, PodPhase, PodStatus

from ..conftest import Cluster, manifest

NODE = Key("nodes", "", "n")


@pytest.fixture
async def watched(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster with a ready node and the controllers of nodes and taints."""
    cluster.store.register_node("n", ready(cluster))
    tasks = [
        asyncio.create_task(NodeLifecycle(cluster.store, cluster.clock).run()),
        asyncio.create_task(TaintEviction(cluster.store, cluster.clock).run()),
    ]
    await cluster.clock.advance(0)
    yield cluster
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def ready(cluster: Cluster) -> NodeStatus:
    return NodeStatus(conditions=conditions_of((), missing_capacities=(), now=cluster.clock.now()))


def node(cluster: Cluster) -> JSON:
    found = cluster.objects.get(NODE)
    assert found is not None
    return found


async def change(cluster: Cluster, **spec: Any) -> None:
    old = node(cluster)
    cluster.objects.replace(NODE, {**old, "spec": {**old["spec"], **spec}})
    await cluster.clock.advance(0)


def taints(cluster: Cluster) -> set[tuple[str, str]]:
    return {(each["key"].partition("/")[2], each["effect"]) for each in node(cluster)["spec"].get("taints") or ()}


def reasons(cluster: Cluster) -> list[str]:
    return [event["reason"] for event in cluster.objects.all_of("events")]


async def test_cordoned_node_is_tainted_until_it_is_uncordoned(watched: Cluster) -> None:
    mine = {"key": "example.com/mine", "effect": "NoSchedule"}
    await change(watched, unschedulable=True, taints=[mine])
    assert taints(watched) == {("mine", "NoSchedule"), ("unschedulable", "NoSchedule")}
    await change(watched, unschedulable=False)
    assert taints(watched) == {("mine", "NoSchedule")}


async def test_node_that_a_user_made_loses_its_taint_when_it_is_ready(watched: Cluster) -> None:
    await change(watched, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    assert "taints" not in node(watched)["spec"]


async def test_node_that_misses_a_capacity_is_tainted(watched: Cluster) -> None:
    status = NodeStatus(conditions=conditions_of((), missing_capacities=("cpu",), now=0.0))
    watched.store.publish_node("n", status)
    await watched.clock.advance(0)
    assert taints(watched) == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}


async def test_silent_node_is_unknown_after_fifty_seconds(watched: Cluster) -> None:
    pod = watched.store.create_pod(manifest("p", nodeName="n"))
    running = PodStatus(PodPhase.RUNNING, conditions=(Condition(ConditionType.READY, True),))
    watched.store.set_pod_status(pod.uid, running)
    await watched.clock.advance(50)
    assert taints(watched) == set()

    await watched.clock.advance(5)
    conditions = node(watched)["status"]["conditions"]
    assert {each["status"] for each in conditions} == {"Unknown"}
    assert {each["message"] for each in conditions} == {"Kubelet stopped posting node status."}
    assert taints(watched) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
    found = watched.store.pod(pod.uid)
    assert found is not None
    assert found.status.condition(ConditionType.READY) == Condition(ConditionType.READY, False)
    assert sorted(reasons(watched)) == ["NodeNotReady", "NodeNotReady", "RegisteredNode"]


async def test_node_whose_lease_is_renewed_is_not_silent(watched: Cluster) -> None:
    lease = Key("leases.coordination.k8s.io", "kube-node-lease", "n")
    watched.objects.create(lease, {"spec": {"renewTime": "first"}})
    for time in range(8):
        await watched.clock.advance(10)
        stored = watched.objects.get(lease)
        assert stored is not None
        watched.objects.replace(lease, {**stored, "spec": {"renewTime": f"at {time}"}})
    assert taints(watched) == set()


async def test_node_that_speaks_again_is_ready_at_once(watched: Cluster) -> None:
    await watched.clock.advance(60)
    known = watched.store.nodes["n"]
    again = conditions_of(known.conditions, missing_capacities=(), now=watched.clock.now())
    assert {each.status for each in known.conditions} == {ConditionStatus.UNKNOWN}
    watched.store.publish_node("n", NodeStatus(conditions=again))
    await watched.clock.advance(0)
    assert taints(watched) == set()


async def test_pods_leave_a_lost_node_after_five_minutes(watched: Cluster) -> None:
    pod = watched.store.create_pod(manifest("p", nodeName="n"))
    await watched.clock.advance(60)
    await watched.clock.advance(290)
    assert not _is_deleting(watched, "p")
    await watched.clock.advance(10)
    assert _is_deleting(watched, "p")
    assert "TaintManagerEviction" in reasons(watched)
    found = watched.store.pod(pod.uid)
    assert found is not None
    announced = found.status.condition(ConditionType.DISRUPTION_TARGET)
    assert announced is not None
    assert announced.reason == "DeletionByTaintManager"


async def test_pod_stays_when_its_node_speaks_again_in_time(watched: Cluster) -> None:
    watched.store.create_pod(manifest("p", nodeName="n"))
    await watched.clock.advance(200)
    assert taints(watched)
    beat = asyncio.create_task(_beat(watched))
    await watched.clock.advance(400)
    beat.cancel()
    assert not _is_deleting(watched, "p")
    assert "Cancelling deletion of Pod default/p" in [each["message"] for each in watched.objects.all_of("events")]


@pytest.mark.parametrize(
    ("tolerations", "goes_after"),
    [
        ([], 0),
        ([{"key": "example.com/mine", "operator": "Exists"}], None),
        ([{"key": "example.com/mine", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}], 20),
    ],
)
async def test_pod_stays_as_long_as_it_tolerates_a_taint(
    watched: Cluster, tolerations: list[JSON], goes_after: int | None
) -> None:
    watched.store.create_pod(manifest("p", nodeName="n", tolerations=tolerations))
    await change(watched, taints=[{"key": "example.com/mine", "effect": "NoExecute"}])
    beat = asyncio.create_task(_beat(watched))
    if goes_after:
        await watched.clock.advance(goes_after - 1)
        assert not _is_deleting(watched, "p")
    await watched.clock.advance(1000 if goes_after is None else 1)
    beat.cancel()
    assert _is_deleting(watched, "p") == (goes_after is not None)


async def _beat(cluster: Cluster) -> None:
    while True:
        await cluster.clock.sleep(10)
        cluster.store.publish_node("n", ready(cluster))


def _is_deleting(cluster: Cluster, name: str) -> bool:
    pod = cluster.store.pod_named(name)
    assert pod is not None
    return pod.is_deleting
