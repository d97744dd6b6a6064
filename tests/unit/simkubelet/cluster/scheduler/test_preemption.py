"""A pod that matters more makes others go."""

from __future__ import annotations

import pytest

from simkubelet.model.pod import PodUID
from tests.support.scheduled_cluster import GPU, ScheduledCluster


@pytest.fixture
def cluster() -> ScheduledCluster:
    """Two nodes of one GPU each, both taken."""
    cluster = ScheduledCluster()
    for name, priority in (("a", 5), ("b", 3)):
        cluster.node(name)
        cluster.pod(f"on-{name}", nodeName=name, priority=priority)
    return cluster


def test_least_important_pod_goes(cluster: ScheduledCluster):
    cluster.pod("high", priority=10)
    cluster.try_all()

    victim = cluster.object("pods", "on-b")
    (target,) = [one for one in victim["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert "deletionTimestamp" in victim["metadata"]
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert cluster.object("pods", "high")["status"]["nominatedNodeName"] == "b"
    assert cluster.events == [
        ("high", "FailedScheduling", f"0/2 nodes are available: 2 Insufficient {GPU}."),
        ("on-b", "Preempted", "Preempted by pod uid-of-high on node b"),
    ]


@pytest.mark.parametrize(("minor", "by"), [("1.28", "a pod"), ("1.29", "pod uid-of-high")])
def test_victim_event_has_the_minor_s_text(minor: str, by: str):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("low", nodeName="n")
    cluster.pod("high", priority=1)
    cluster.try_all()

    assert ("low", "Preempted", f"Preempted by {by} on node n") in cluster.events


@pytest.mark.parametrize(
    ("minor", "place"),
    [
        pytest.param("1.36", "", id="1.36"),
        pytest.param(
            "1.37", " preemption: found a potential placement for pod on node n, preempting 1 victims", id="1.37"
        ),
    ],
)
def test_pod_that_preempts_says_where_from_1_37_on(minor: str, place: str):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("low", nodeName="n")
    cluster.pod("high", priority=1)
    cluster.try_all()

    assert cluster.failures("high") == [f"0/1 nodes are available: 1 Insufficient {GPU}.{place}"]


@pytest.mark.parametrize(("minor", "events"), [("1.34", ["Preempted"]), ("1.35", [])])
def test_victim_that_is_being_deleted_is_left_as_it_is_from_1_35_on(minor: str, events: list[str]):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("low", nodeName="n")
    cluster.store.delete_pod(PodUID("uid-of-low"))
    cluster.pod("high", priority=1)
    cluster.try_all()

    assert [reason for pod, reason, _ in cluster.events if pod == "low"] == events
    assert ("conditions" in cluster.object("pods", "low")["status"]) is bool(events)
    assert cluster.object("pods", "high")["status"]["nominatedNodeName"] == "n"


def test_room_is_kept_for_the_pod_that_waits_for_it(cluster: ScheduledCluster):
    cluster.pod("high", priority=10)
    cluster.try_all()
    cluster.pod("equal", priority=5)
    cluster.remove("pods", "on-b")
    cluster.try_all()

    assert (cluster.node_of("high"), cluster.node_of("equal")) == ("b", None)


def test_waiting_for_victims_is_reported(cluster: ScheduledCluster):
    cluster.pod("high", priority=10)
    cluster.try_all()
    cluster.advance(331)

    assert cluster.failures("high")[-1] == (
        f"0/2 nodes are available: 2 Insufficient {GPU}. no new claims to deallocate, preemption: not eligible due to "
        "a terminating pod on the nominated node."
    )


def test_pod_that_never_preempts_waits(cluster: ScheduledCluster):
    cluster.pod("polite", priority=10, preemptionPolicy="Never")
    cluster.try_all()

    assert cluster.failures("polite") == [
        f"0/2 nodes are available: 2 Insufficient {GPU}. no new claims to deallocate, preemption: not eligible due to "
        "preemptionPolicy=Never."
    ]


def test_no_more_pods_go_than_must():
    cluster = ScheduledCluster()
    cluster.node("n", 4)
    for name, gpus, priority in (("small", 1, 1), ("large", 2, 2), ("other", 1, 3)):
        cluster.pod(name, gpus, nodeName="n", priority=priority)
    cluster.pod("high", priority=10)
    cluster.try_all()

    assert [pod for pod, reason, _ in cluster.events if reason == "Preempted"] == ["small"]


def test_pod_of_equal_priority_is_no_victim(cluster: ScheduledCluster):
    cluster.pod("equal", priority=3)
    cluster.try_all()

    assert not [reason for _, reason, _ in cluster.events if reason == "Preempted"]
