from __future__ import annotations

import math

import pytest

from simkubelet.cluster.objects.events import EventRecorder
from simkubelet.cluster.objects.objects import Key

from ..conftest import Cluster

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "a", "uid": "u", "resourceVersion": "7"}


def record(cluster: Cluster, *messages: str, type_: str = "Warning", **settings: str) -> None:
    for message in messages:
        cluster.store.recorder.record(POD, type_, "Reason", message, "kubelet", **settings)


def counts(cluster: Cluster) -> dict[str, int]:
    return {event["message"]: event["count"] for event in cluster.objects.all_of("events")}


def test_events_of_one_moment_have_different_names(cluster: Cluster) -> None:
    record(cluster, "a", "b", host="n")
    names = [event["metadata"]["name"] for event in cluster.objects.all_of("events")]
    assert len(set(names)) == 2
    assert all(name.startswith("a.") and int(name[2:], 16) for name in names)


def test_tenth_message_of_a_reason_is_combined_with_those_that_follow(cluster: Cluster) -> None:
    record(cluster, *(f"m{n}" for n in range(12)))
    told = counts(cluster)
    assert [f"m{n}" for n in range(9)] == [text for text in told if text.startswith("m")]
    assert told["(combined from similar events): m11"] == 3


async def test_messages_of_long_ago_do_not_combine(cluster: Cluster) -> None:
    record(cluster, *(f"m{n}" for n in range(9)))
    await cluster.clock.advance(601)
    record(cluster, "m9")
    assert counts(cluster)["m9"] == 1


async def test_more_than_25_events_are_dropped_and_one_comes_through_in_five_minutes(cluster: Cluster) -> None:
    record(cluster, *["again"] * 40)
    assert counts(cluster) == {"again": 25}
    await cluster.clock.advance(300)
    record(cluster, "again", "again")
    assert sum(1 for event in cluster.told if event.kind == "event") == 26


def test_types_are_dropped_apart(cluster: Cluster) -> None:
    record(cluster, *["again"] * 30)
    record(cluster, "fine", type_="Normal")
    assert counts(cluster)["fine"] == 1


def test_removed_event_is_recorded_again(cluster: Cluster) -> None:
    record(cluster, "m")
    (event,) = cluster.objects.all_of("events")
    cluster.objects.remove(Key("events", "ns", event["metadata"]["name"]))
    record(cluster, "m")
    (again,) = cluster.objects.all_of("events")
    assert again["metadata"]["name"] != event["metadata"]["name"]
    assert again["count"] == 1


def test_action_makes_an_event_of_the_newer_library(cluster: Cluster) -> None:
    record(cluster, "m", action="Scheduling")
    (event,) = cluster.objects.all_of("events")
    assert event["firstTimestamp"] is None
    assert event["eventTime"].endswith("Z")
    assert event["source"] == {}
    assert (event["action"], event["reportingComponent"]) == ("Scheduling", "kubelet")
    assert "count" not in event


async def test_newer_library_counts_one_version_of_an_object_for_six_minutes(cluster: Cluster) -> None:
    record(cluster, "m", "other words", action="Scheduling")
    (event,) = cluster.objects.all_of("events")
    assert event["message"] == "m"
    assert event["series"]["count"] == 2
    await cluster.clock.advance(361)
    record(cluster, "m", action="Scheduling")
    assert len(cluster.objects.all_of("events")) == 2


def test_newer_library_tells_versions_of_an_object_apart(cluster: Cluster) -> None:
    recorder = EventRecorder(cluster.objects)
    for number in ("1", "2"):
        about = {**POD, "resourceVersion": number}
        recorder.record(about, "Warning", "FailedScheduling", "m", "default-scheduler", action="Scheduling")
    assert len(cluster.objects.all_of("events")) == 2


async def test_event_is_gone_an_hour_after_it_was_written_last(cluster: Cluster) -> None:
    record(cluster, "old")
    record(cluster, "repeated")
    await cluster.clock.advance(3000)
    record(cluster, "repeated")
    await cluster.clock.advance(601)
    record(cluster, "new")
    assert sorted(counts(cluster)) == ["new", "repeated"]


def test_restarted_component_repeats_nothing(cluster: Cluster) -> None:
    record(cluster, *["again"] * 30, host="n")
    record(cluster, "again", host="other")
    cluster.store.recorder.forget("kubelet", "n")
    record(cluster, "again", host="n")
    assert sorted(event["count"] for event in cluster.objects.all_of("events")) == [1, 1, 25]


@pytest.mark.parametrize(("ttl_s", "kept", "next_s"), [(60.0, 0, 60.0), (120.0, 1, 59.0), (0.0, 1, math.inf)])
async def test_event_stays_as_long_as_the_cluster_says(
    cluster: Cluster, ttl_s: float, kept: int, next_s: float
) -> None:
    recorder = EventRecorder(cluster.objects, ttl_s)
    recorder.record(POD, "Normal", "Started", "m", "kubelet")
    await cluster.clock.advance(61)
    assert (recorder.expire(), len(cluster.objects.all_of("events"))) == (next_s, kept)


def test_event_that_etcd_would_refuse_is_not_kept(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    record(cluster, "x" * (4 << 20), "short")
    record(cluster, *(f"m{n}" for n in range(9)), "y" * (4 << 20))

    assert all(len(message) < 100 for message in counts(cluster))
    assert counts(cluster)["short"] == 1
    assert caplog.messages == ["Server rejected event (will not retry!): etcdserver: request is too large"] * 2
