"""Random clusters to the real scheduler and to ours: each try, each score and each queue must be the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from simkubelet.model.version import DEFAULT
from tests.support.compared_schedulers import ComparedSchedulers
from tests.support.kubelet_sides import LineProgram
from tests.support.oracle import EXAMPLES, ROUNDS, SEED
from tests.support.random_cluster import FPGA, GPU, NODES, RandomCluster

pytestmark = pytest.mark.oracle

SHARDS = 2 * ROUNDS
STEPS = 40
MOST_PODS = 16

node_names = st.sampled_from(NODES)
pod_names = st.sampled_from([f"p{number}" for number in range(MOST_PODS)])
seeds = st.integers(0, 2**32)


class SchedulersMachine(RuleBasedStateMachine):
    """Writes what users, kubelets and controllers write; both schedulers follow."""

    oracle: LineProgram

    @initialize(nodes=st.sampled_from([0, 1, 2, 3, 3, 4, 5]), pods=st.sampled_from([0, 2, 8, MOST_PODS]), seed=seeds)
    def begin(self, nodes: int, pods: int, seed: int) -> None:
        self.cluster = ComparedSchedulers(self.oracle)
        for number, name in enumerate(NODES[:nodes]):
            self.node(name, seed + number)
        self.pods_come(pods, seed, are_tried=True)

    @rule(name=node_names, seed=seeds)
    def node(self, name: str, seed: int) -> None:
        """A node comes, or changes altogether."""
        self.cluster.put("nodes", RandomCluster(seed).node(name))

    @rule(name=node_names, part=st.sampled_from(["labels", "spec", "status"]), seed=seeds)
    def node_changes(self, name: str, part: str, seed: int) -> None:
        """One thing about a node changes."""
        node, other = self.cluster.find("nodes", name), RandomCluster(seed).node(name)
        if node is not None and part == "labels":
            self.cluster.put("nodes", {**node, "metadata": {**node["metadata"], "labels": other["metadata"]["labels"]}})
        elif node is not None:
            self.cluster.put("nodes", {**node, part: other[part]})

    @rule(name=node_names, resource=st.sampled_from([GPU, FPGA, "cpu", "pods"]), count=st.integers(0, 8))
    def node_offers(self, name: str, resource: str, count: int) -> None:
        node = self.cluster.find("nodes", name)
        if node is not None:
            allocatable = {**node["status"]["allocatable"], resource: str(count)}
            self.cluster.put("nodes", {**node, "status": {"capacity": allocatable, "allocatable": allocatable}})

    @rule(name=node_names)
    def node_goes(self, name: str) -> None:
        if len(self.cluster.names("nodes")) > 1:
            self.cluster.remove("nodes", name)

    @rule(count=st.integers(1, 8), seed=seeds, are_tried=st.booleans())
    def pods_come(self, count: int, seed: int, are_tried: bool) -> None:
        made = RandomCluster(seed)
        for number in range(MOST_PODS):
            if count and self.cluster.find("pods", f"p{number}") is None:
                self.cluster.create_pod(f"p{number}", made.labels(), made.pod_spec())
                count -= 1
        if are_tried:
            self.cluster.try_all()

    @rule(name=pod_names)
    def pod_goes(self, name: str) -> None:
        self.cluster.remove("pods", name)

    @rule(name=pod_names, seed=seeds, has_toleration=st.booleans())
    def pod_changes(self, name: str, seed: int, has_toleration: bool) -> None:
        """A pod gets other labels, perhaps one toleration more, and has no gates any more."""
        pod, made = self.cluster.find("pods", name), RandomCluster(seed)
        if pod is None:
            return
        spec: dict[str, Any] = {key: value for key, value in pod["spec"].items() if key != "schedulingGates"}
        if has_toleration:
            spec["tolerations"] = [*spec.get("tolerations", []), made.toleration()]
        self.cluster.put("pods", {**pod, "metadata": {**pod["metadata"], "labels": made.labels()}, "spec": spec})

    @rule(name=pod_names, phase=st.sampled_from(["Succeeded", "Failed"]))
    def pod_ends(self, name: str, phase: str) -> None:
        self.cluster.end_pod(name, phase)

    @rule(ms=st.sampled_from([1, 300, 1000, 2500, 20_000, 301_000]))
    def time_passes(self, ms: int) -> None:
        self.cluster.advance(ms)

    @rule()
    def one_is_tried(self) -> None:
        self.cluster.try_next()

    @rule()
    def all_are_tried(self) -> None:
        self.cluster.try_all()

    @rule()
    def victims_go(self) -> None:
        """The pods that were asked to end are gone."""
        self.cluster.remove_deleting_pods()


GOPHER = "lixueduan.com/gopher"


def node(name: str, gophers: int, **spec: Any) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", GOPHER: str(gophers)}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec, "status": status}


def pod(gophers: int, **spec: Any) -> dict[str, Any]:
    amounts = {GOPHER: str(gophers)}
    return {"containers": [{"resources": {"requests": amounts, "limits": amounts}}], **spec}


def device_in_use(cluster: ComparedSchedulers) -> None:
    cluster.put("nodes", node("n1", 1))
    for name in ("first", "second"):
        cluster.create_pod(name, {}, pod(1))
        cluster.try_all()


def too_many_devices(cluster: ComparedSchedulers) -> None:
    cluster.put("nodes", node("n1", 1))
    cluster.create_pod("first", {}, pod(2))


def plugin_comes_late(cluster: ComparedSchedulers) -> None:
    cluster.create_pod("first", {}, pod(1))
    cluster.try_all()
    for gophers in (0, 0, 1):
        cluster.put("nodes", node("n1", gophers))
        cluster.advance(4000)
        cluster.try_all()


def nodes_of_all_kinds(cluster: ComparedSchedulers) -> None:
    taint = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}
    kinds: list[tuple[int, dict[str, Any]]] = [(0, {}), (1, {"unschedulable": True}), (1, {"taints": [taint]}), (2, {})]
    for number, (gophers, spec) in enumerate(kinds):
        cluster.put("nodes", node(f"n{number}", gophers, **spec))
    cluster.create_pod("first", {}, pod(1))
    cluster.create_pod("second", {}, pod(2))


def preempted(cluster: ComparedSchedulers) -> None:
    cluster.put("nodes", node("n1", 1))
    cluster.create_pod("low", {}, pod(1))
    cluster.try_all()
    cluster.create_pod("high", {}, pod(1, priority=1000))
    cluster.try_all()
    cluster.advance(331_000)
    cluster.try_all()
    cluster.remove_deleting_pods()


def daemons_pod_without_room(cluster: ComparedSchedulers) -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    for name in ("n1", "n2"):
        cluster.put("nodes", node(name, 1))
    for name in ("first", "second"):
        cluster.create_pod(name, {}, pod(1, affinity={"nodeAffinity": required}))


def preference_that_cannot_be_read(cluster: ComparedSchedulers) -> None:
    for name in ("n1", "n2"):
        cluster.put("nodes", node(name, 1))
    expressions = [
        {"key": "size", "operator": "Gt", "values": ["no number"]},
        {"key": "zone", "operator": "In", "values": ["a", "no value"]},
    ]
    term = {"weight": 1, "preference": {"matchExpressions": expressions}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}, term]}
    cluster.create_pod("first", {}, pod(1, affinity={"nodeAffinity": preferred}))
    cluster.try_all()
    cluster.advance(20_000)


NO_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
UNREADABLE = (
    'running PreScore plugin "NodeAffinity": [[1].matchExpressions[0].values[0]: Invalid value: "no number": for '
    "'Gt', 'Lt' operators, the value must be an integer, [1].matchExpressions[0].values[0][size]: Invalid value: "
    f'"no number": {NO_LABEL}, [1].matchExpressions[1].values[1][zone]: Invalid value: "no value": {NO_LABEL}]'
)

CASES: dict[Callable[[ComparedSchedulers], None], list[str]] = {
    preference_that_cannot_be_read: [UNREADABLE, UNREADABLE],
    device_in_use: [
        "Successfully assigned default/first to n1",
        f"0/1 nodes are available: 1 Insufficient {GOPHER}. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 No preemption victims found for incoming pod.",
    ],
    too_many_devices: [
        f"0/1 nodes are available: 1 Insufficient {GOPHER}. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling.",
    ],
    plugin_comes_late: [
        "no nodes available to schedule pods",
        f"0/1 nodes are available: 1 Insufficient {GOPHER}. no new claims to deallocate, preemption: 0/1 nodes are "
        "available: 1 Preemption is not helpful for scheduling.",
        "Successfully assigned default/first to n1",
    ],
    nodes_of_all_kinds: [
        "Successfully assigned default/first to n3",
        f"0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient "
        f"{GOPHER}. no new claims to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found "
        "for incoming pod, 3 Preemption is not helpful for scheduling.",
    ],
    preempted: [
        "Successfully assigned default/low to n1",
        f"0/1 nodes are available: 1 Insufficient {GOPHER}.",
        "Preempted by pod high-2 on node n1",
        f"0/1 nodes are available: 1 Insufficient {GOPHER}. no new claims to deallocate, preemption: not eligible due "
        "to a terminating pod on the nominated node.",
        "Successfully assigned default/high to n1",
    ],
    daemons_pod_without_room: [
        "Successfully assigned default/first to n2",
        f"0/2 nodes are available: 1 Insufficient {GOPHER}, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new "
        "claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    ],
}


@pytest.fixture(scope="session")
def oracle() -> Iterator[LineProgram]:
    path, minor = (os.environ.get(f"SIMKUBELET_ORACLE_{name}") for name in ("SCHEDULER", "VERSION"))
    if not path:
        pytest.skip("no oracle: SIMKUBELET_ORACLE_SCHEDULER is not set, as the nox session `oracle` does")
    if minor not in (None, DEFAULT):
        pytest.skip(f"the scheduler's oracle is of {DEFAULT}, this is {minor}")
    program = LineProgram([path])
    yield program
    program.end()


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same(oracle: LineProgram, case: Callable[[ComparedSchedulers], None]):
    cluster = ComparedSchedulers(oracle)
    case(cluster)
    cluster.try_all()

    assert [event["message"] for outcome in cluster.outcomes for event in outcome["events"]] == CASES[case]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_clusters_are_scheduled_as_by_real_scheduler(oracle: LineProgram, shard: int):
    SchedulersMachine.oracle = oracle
    run_state_machine_as_test(
        seed(SEED + shard)(SchedulersMachine),
        settings=settings(
            max_examples=EXAMPLES // 2,
            stateful_step_count=STEPS,
            deadline=None,
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
