"""Topology spread constraints: which nodes they refuse, which are better, and when a pod that waits is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import Key
from tests.support.scheduled_cluster import ScheduledCluster

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}


def spread(key: str = ZONE, when: str = "DoNotSchedule", **more: Any) -> dict[str, Any]:
    selector = {"labelSelector": {"matchLabels": WEB}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


@pytest.fixture
def cluster() -> ScheduledCluster:
    """Zone `a` has two nodes, zone `b` one."""
    return zones()


def zones(minor: str = "1.34") -> ScheduledCluster:
    cluster = ScheduledCluster(minor)
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        cluster.node(name, 8, labels={ZONE: zone})
    return cluster


def web(cluster: ScheduledCluster, name: str, *constraints: dict[str, Any], **more: Any) -> str | None:
    cluster.pod(name, 1, **{"labels": WEB, "topologySpreadConstraints": list(constraints), **more})
    cluster.try_all()
    return cluster.node_of(name)


def test_zones_get_pods_in_turn(cluster: ScheduledCluster) -> None:
    nodes = [web(cluster, f"p{number}", spread()) for number in range(4)]

    assert sorted(node[0] for node in nodes if node) == ["a", "a", "b", "b"]


def test_pod_waits_where_no_node_would_be_even(cluster: ScheduledCluster) -> None:
    web(cluster, "first", spread(), nodeName="a1")
    cluster.node("b1", 8, labels={ZONE: "b"}, taints=[{"key": "x", "effect": "NoSchedule"}])

    assert web(cluster, "second", spread()) is None
    assert cluster.failures("second") == [
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match pod topology spread "
        "constraints. no new claims to deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful "
        "for scheduling, 2 No preemption victims found for incoming pod."
    ]
    assert web(cluster, "honors", spread(nodeTaintsPolicy="Honor")) in ("a1", "a2")


def test_node_without_the_label_takes_no_pod(cluster: ScheduledCluster) -> None:
    for name in ("a1", "a2", "b1"):
        cluster.remove("nodes", name)
    cluster.node("plain", 8)

    assert web(cluster, "p", spread()) is None
    assert (
        "1 node(s) didn't match pod topology spread constraints (missing required label)." in cluster.failures("p")[0]
    )


@pytest.mark.parametrize(("domains", "fits"), [(2, True), (3, False)])
def test_fewest_count_as_none_without_enough_topologies(cluster: ScheduledCluster, domains: int, fits: bool) -> None:
    for name, node in (("p", "a1"), ("q", "b1")):
        web(cluster, name, nodeName=node)

    assert (web(cluster, "third", spread(minDomains=domains)) is not None) is fits


def test_affinity_says_which_nodes_count(cluster: ScheduledCluster) -> None:
    web(cluster, "first", nodeName="a1")
    near = {"nodeSelector": {ZONE: "a"}}

    assert web(cluster, "second", spread(nodeAffinityPolicy="Ignore"), **near) is None
    assert web(cluster, "third", spread(), **near) in ("a1", "a2")


def test_labels_of_the_pod_itself_choose_whom_it_counts(cluster: ScheduledCluster) -> None:
    web(cluster, "first", nodeName="a1", labels={**WEB, "version": "1"})
    by_version = spread(matchLabelKeys=["version"])
    cluster.node("b1", 0, labels={ZONE: "b"})

    assert web(cluster, "old", by_version, labels={**WEB, "version": "1"}) is None
    assert web(cluster, "new", by_version, labels={**WEB, "version": "2"}) in ("a1", "a2")


def test_pod_that_is_going_does_not_count(cluster: ScheduledCluster) -> None:
    web(cluster, "first", nodeName="a1")
    cluster.node("b1", 0, labels={ZONE: "b"})
    body = cluster.object("pods", "first")
    metadata = {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    cluster.objects.replace(Key("pods", "default", "first"), {**body, "metadata": metadata})

    assert web(cluster, "second", spread()) in ("a1", "a2")


@pytest.mark.parametrize(("key", "node"), [(ZONE, "b1"), (HOSTNAME, "a2")])
def test_soft_constraint_prefers_where_fewer_pods_are(cluster: ScheduledCluster, key: str, node: str) -> None:
    cluster.node("b1", 8, labels={ZONE: "b"}, allocatable={"cpu": "3"})
    web(cluster, "first", nodeName="a1")

    assert web(cluster, "second", spread(key, "ScheduleAnyway")) == node


def test_more_important_pod_preempts_for_its_constraint(cluster: ScheduledCluster) -> None:
    cluster.node("b1", 0, labels={ZONE: "b"})
    web(cluster, "first", nodeName="a1", priority=1)

    assert web(cluster, "second", spread(), priority=1000) is None
    assert ("first", "Preempted", "Preempted by pod uid-of-second on node a1") in cluster.events


@pytest.mark.parametrize("minor", ["1.26", "1.31", "1.34"])
def test_pod_that_goes_gives_another_one_its_turn(minor: str) -> None:
    cluster = zones(minor)
    cluster.node("b1", 0, labels={ZONE: "b"})
    web(cluster, "first", nodeName="a1")
    assert web(cluster, "second", spread()) is None

    cluster.remove("pods", "first")
    cluster.advance(3)

    assert cluster.node_of("second") in ("a1", "a2")


@pytest.mark.parametrize(("minor", "is_tried"), [("1.30", False), ("1.31", True), ("1.34", True)])
def test_pod_that_comes_gives_another_one_its_turn_from_1_31_on(minor: str, is_tried: bool) -> None:
    cluster = zones(minor)
    cluster.node("b1", 0, labels={ZONE: "b"})
    web(cluster, "first", nodeName="a1")
    assert web(cluster, "second", spread()) is None

    cluster.pod("third", 0, labels=WEB, nodeName="b1")
    cluster.advance(3)

    assert (cluster.node_of("second") is not None) is is_tried


@pytest.mark.parametrize(("minor", "is_tried"), [("1.31", False), ("1.32", True)])
def test_node_that_goes_gives_a_pod_its_turn_from_1_32_on(minor: str, is_tried: bool) -> None:
    cluster = zones(minor)
    cluster.node("b1", 0, labels={ZONE: "b"})
    web(cluster, "first", nodeName="a1")
    assert web(cluster, "second", spread()) is None

    cluster.remove("nodes", "b1")
    cluster.advance(3)

    assert (cluster.node_of("second") is not None) is is_tried


@pytest.mark.parametrize(("zone", "is_tried"), [("a", False), ("c", True)])
def test_label_that_changes_topologies_gives_a_pod_its_turn(
    cluster: ScheduledCluster, zone: str, is_tried: bool
) -> None:
    web(cluster, "first", nodeName="a1")
    cluster.node("b1", 0, labels={ZONE: "b"})
    assert web(cluster, "second", spread()) is None

    cluster.node("a2", 8, labels={ZONE: zone, "more": "x"})
    cluster.advance(3)

    assert cluster.node_of("second") == ("a2" if is_tried else None)
