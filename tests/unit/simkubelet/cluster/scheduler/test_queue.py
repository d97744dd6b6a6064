"""When a pod that was refused is tried again."""

from __future__ import annotations

import pytest

from tests.support.scheduled_cluster import ScheduledCluster


@pytest.fixture
def cluster() -> ScheduledCluster:
    """A cluster with a pod that waits for its second GPU."""
    cluster = ScheduledCluster()
    cluster.node("n")
    cluster.pod("p", 2)
    cluster.try_all()
    return cluster


def tries(cluster: ScheduledCluster, pod: str = "p") -> int:
    cluster.try_all()
    return len(cluster.failures(pod))


def test_node_that_has_become_large_enough_helps_at_once(cluster: ScheduledCluster):
    cluster.node("n", 2)
    cluster.try_all()

    assert cluster.node_of("p") == "n"


@pytest.mark.parametrize(("minor", "count"), [("1.32", 0), ("1.33", 1)])
def test_back_off_holds_a_pod_for_which_there_is_hope_until_1_32(minor: str, count: int):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("p", 2)
    cluster.try_all()
    cluster.node("n", 2)
    cluster.try_all()

    assert sum(reason == "Scheduled" for _, reason, _ in cluster.events) == count
    cluster.advance(2)
    assert cluster.node_of("p") == "n"


@pytest.mark.parametrize("gpus", [0, 1])
def test_node_that_is_still_too_small_is_no_reason(cluster: ScheduledCluster, gpus: int):
    cluster.node("other", gpus)
    cluster.node("n", gpus, labels={"new": "label"})

    assert tries(cluster) == 1


def test_change_of_taints_retries_pods_that_wait_for_nodes(cluster: ScheduledCluster):
    cluster.node("n", 1, taints=[{"key": "k", "effect": "NoSchedule"}])

    assert tries(cluster) == 2


def test_pod_that_goes_makes_room(cluster: ScheduledCluster):
    cluster.pod("small")
    cluster.try_all()
    cluster.pod("waits")
    assert tries(cluster, "waits") == 1

    cluster.remove("pods", "small")
    cluster.try_all()

    assert cluster.node_of("waits") == "n"


def test_pod_that_has_ended_makes_room(cluster: ScheduledCluster):
    cluster.pod("small")
    cluster.try_all()
    cluster.pod("waits")
    cluster.try_all()

    cluster.end("small", "Succeeded")
    cluster.try_all()

    assert cluster.node_of("waits") == "n"


def test_pending_pod_that_goes_is_no_reason(cluster: ScheduledCluster):
    cluster.pod("other", 3)
    assert tries(cluster) == 1

    cluster.remove("pods", "other")

    assert tries(cluster) == 1


def test_pod_is_tried_again_when_nothing_has_happened_for_five_minutes(cluster: ScheduledCluster):
    cluster.advance(300)
    assert tries(cluster) == 1

    cluster.advance(30)
    assert tries(cluster) == 2


def test_toleration_that_is_added_is_a_reason_for_a_pod_that_taints_keep_out(cluster: ScheduledCluster):
    cluster.node("n", 2, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert tries(cluster) == 2

    cluster.change_pod("p", tolerations=[{"key": "k", "operator": "Exists"}])
    cluster.try_all()

    assert cluster.node_of("p") == "n"


def test_uncordoned_node_is_a_reason(cluster: ScheduledCluster):
    cluster.node("big", 2, unschedulable=True)
    assert tries(cluster) == 2

    cluster.node("big", 2)
    cluster.try_all()

    assert cluster.node_of("p") == "big"


def test_gated_pod_waits_for_its_gates(cluster: ScheduledCluster):
    cluster.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    cluster.advance(400)
    assert (cluster.node_of("gated"), cluster.failures("gated")) == (None, [])

    cluster.change_pod("gated", schedulingGates=[])
    cluster.try_all()

    assert cluster.node_of("gated") == "n"


@pytest.mark.parametrize(("gpus", "node"), [(1, None), (2, "n")])
def test_node_counts_until_1_31_only_where_the_pod_fits_now(gpus: int, node: str | None):
    cluster = ScheduledCluster("1.31")
    cluster.node("n")
    cluster.pod("p", 2)
    cluster.try_all()

    cluster.node("n", gpus, labels={"new": "label"})
    cluster.advance(2)

    assert cluster.node_of("p") == node
    assert len(cluster.failures("p")) == 1
