"""When a pod that was refused is tried again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simkubelet.cluster.scheduler.cluster_state import PodInfo
from simkubelet.cluster.scheduler.hints import Kind, PodEvent
from simkubelet.cluster.scheduler.queue import QueuedPod, SchedulingQueue
from simkubelet.cluster.scheduler.refusals import Plugin
from simkubelet.model.pod import PodUID, pod_from_manifest
from simkubelet.model.version import version
from tests.support.scheduled_cluster import GPU, ScheduledCluster, StepClock


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


@pytest.mark.parametrize(("minor", "count"), [("1.36", 2), ("1.37", 1)])
def test_change_of_taints_retries_pods_that_wait_for_nodes_before_1_37(minor: str, count: int):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("p", 2)
    cluster.try_all()

    cluster.node("n", 1, taints=[{"key": "k", "effect": "NoSchedule"}])

    assert tries(cluster) == count


@pytest.mark.parametrize(("minor", "count"), [("1.32", 1), ("1.33", 2)])
def test_nominated_pod_that_goes_frees_its_room_from_1_33_on(minor: str, count: int):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("low", nodeName="n")
    cluster.pod("high", priority=1)
    cluster.pod("waits")
    assert tries(cluster, "waits") == 1

    cluster.remove("pods", "high")
    cluster.advance(2)

    assert tries(cluster, "waits") == count


@pytest.mark.parametrize(("minor", "count"), [("1.32", 1), ("1.33", 2), ("1.34", 2), ("1.35", 1)])
def test_nominated_pod_that_is_bound_frees_its_room_only_in_1_33_and_1_34(minor: str, count: int):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("low", nodeName="n")
    cluster.pod("high", priority=1)
    cluster.pod("waits")
    assert tries(cluster, "waits") == 1

    cluster.change_pod("high", nodeName="n")

    assert tries(cluster, "waits") == count


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


def test_node_counts_until_1_31_whatever_pods_are_there():
    cluster = ScheduledCluster("1.31")
    cluster.node("n")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.pod("p", affinity=affinity)
    cluster.try_all()

    cluster.node("n", labels={"new": "label"})
    cluster.advance(2)

    assert len(cluster.failures("p")) == 2


@dataclass
class Waiting:
    """What a plain queue knows of a pod."""

    pod: PodInfo
    came: int
    since: float
    place: str = "active"
    refused: int = 0
    errors: int = 0

    @property
    def turn(self) -> tuple[int, float, int]:
        return -self.pod.priority, self.since, self.came

    def backoff_end(self) -> float:
        tries = self.errors or self.refused
        return math.floor(self.since + min(2.0 ** (tries - 1), 10.0)) + 1.0


class QueueMachine(RuleBasedStateMachine):
    """The queue against one that looks through all its pods each time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = StepClock()
        self.queue = SchedulingQueue(self.clock.now, version("1.34"))
        self.waiting: dict[str, Waiting] = {}
        self.tried: list[tuple[QueuedPod, Waiting]] = []
        self.count = 0

    @rule(priority=st.sampled_from([0, 5, -5]))
    def add(self, priority: int) -> None:
        self.count += 1
        pod = info(f"p{self.count}", priority)
        self.queue.add(pod)
        self.waiting[pod.name] = Waiting(pod, self.count, self.clock.now())

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), label=st.sampled_from("xy"))
    def update(self, data: st.DataObject, label: str) -> None:
        one = self.waiting[data.draw(st.sampled_from(sorted(self.waiting)))]
        new = info(one.pod.name, one.pod.priority, label)
        self.queue.update(one.pod, new)
        one.pod = new

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        one = self.waiting.pop(data.draw(st.sampled_from(sorted(self.waiting))))
        self.queue.delete(one.pod.uid)

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        active = [one for one in self.waiting.values() if one.place == "active"]
        refused = [one for one in self.waiting.values() if one.place == "backoff"]
        if active:
            first = min(active, key=lambda one: one.turn)
        elif refused:
            first = min(refused, key=lambda one: (one.backoff_end(), one.turn))
        else:
            assert queued is None
            return
        assert queued is not None
        assert queued.pod is first.pod
        self.tried.append((queued, self.waiting.pop(first.pod.name)))

    @precondition(lambda self: self.tried)
    @rule(is_refused=st.booleans())
    def put_back(self, is_refused: bool) -> None:
        queued, one = self.tried.pop()
        self.queue.put_back(queued, frozenset({Plugin.NODE_RESOURCES_FIT}) if is_refused else frozenset())
        one.since = self.clock.now()
        one.place = "unschedulable" if is_refused else "errors"
        one.refused, one.errors = (one.refused + 1, 0) if is_refused else (one.refused, one.errors + 1)
        self.waiting[one.pod.name] = one

    @rule()
    def pod_goes(self) -> None:
        gone = info("gone", 0, node="n")
        self.queue.happened(PodEvent(Kind.POD_DELETED, gone, None))
        for one in self.waiting.values():
            if one.place == "unschedulable":
                one.place = "backoff" if one.backoff_end() > self.clock.now() else "active"

    @rule(seconds=st.sampled_from([0.3, 1, 4, 40, 330]))
    def flush(self, seconds: float) -> None:
        self.clock.ms += round(seconds * 1000)
        self.queue.flush()
        for one in self.waiting.values():
            if one.place in ("backoff", "errors") and one.backoff_end() <= self.clock.now():
                one.place = "active"
            if one.place == "unschedulable" and timeout_of(one) <= self.clock.now():
                one.place = "active"

    @invariant()
    def next_flush_is_the_first_of_all(self) -> None:
        ends = [one.backoff_end() for one in self.waiting.values() if one.place in ("backoff", "errors")]
        timeouts = [timeout_of(one) for one in self.waiting.values() if one.place == "unschedulable"]
        assert self.queue.next_flush() == min([*ends, *timeouts], default=None)

    @invariant()
    def idle_queue_has_pods_that_wait_for_a_change_only(self) -> None:
        assert self.queue.is_idle == all(one.place == "unschedulable" for one in self.waiting.values())


def timeout_of(one: Waiting) -> float:
    return (math.floor((one.since + 300) / 30) + 1) * 30.0


def info(name: str, priority: int, label: str = "x", node: str = "") -> PodInfo:
    container = {"name": "c", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}
    spec = {"containers": [container], "priority": priority, **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "default", "labels": {"app": label}}
    pod = pod_from_manifest({"metadata": metadata, "spec": spec})
    return PodInfo(replace(pod, uid=PodUID(f"uid-of-{name}")))


TestAnyQueue = QueueMachine.TestCase
TestAnyQueue.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
