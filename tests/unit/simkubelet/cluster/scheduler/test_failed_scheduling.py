"""Messages about a pod that fits no node; the texts are the real scheduler's of each minor."""

from __future__ import annotations

import pytest

from tests.support.device_claims import claim_for, request
from tests.support.scheduled_cluster import CLAIMS, GPU, DeviceCluster, ScheduledCluster

NOT_HELPFUL = (
    "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


@pytest.fixture
def cluster() -> ScheduledCluster:
    return ScheduledCluster()


@pytest.mark.parametrize(
    ("minor", "ending"),
    [
        ("1.28", f"{NO_VICTIMS}."),
        ("1.33", NO_VICTIMS),
        ("1.34", f"no new claims to deallocate, {NO_VICTIMS}"),
        ("1.37", NO_VICTIMS),
    ],
)
def test_pod_that_waits_for_a_device_gets_the_minor_s_message(minor: str, ending: str):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("first")
    cluster.pod("second")
    cluster.try_all()

    assert cluster.failures("second") == [f"0/1 nodes are available: 1 Insufficient {GPU}. {ending}"]


@pytest.mark.parametrize(("minor", "ending"), [("1.33", NO_VICTIMS), ("1.34", NOT_HELPFUL)])
def test_pod_that_no_empty_node_could_hold_is_beyond_preemption_since_1_34(minor: str, ending: str):
    cluster = ScheduledCluster(minor)
    cluster.node("n")
    cluster.pod("p", 2)
    cluster.try_all()

    assert cluster.failures("p") == [f"0/1 nodes are available: 1 Insufficient {GPU}. {ending}"]


@pytest.mark.parametrize(("minor", "words"), [("1.33", "taint {dedicated: gpu}"), ("1.34", "taint(s)")])
def test_taint_without_a_toleration_has_the_minor_s_message(minor: str, words: str):
    cluster = ScheduledCluster(minor)
    cluster.node("n", taints=[{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}])
    cluster.pod("p")
    cluster.pod("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    cluster.try_all()

    (message,) = cluster.failures("p")
    assert message.startswith(f"0/1 nodes are available: 1 node(s) had untolerated {words}. ")
    assert cluster.node_of("tolerant") == "n"


def test_reasons_of_several_nodes_are_counted_and_sorted(cluster: ScheduledCluster):
    cluster.node("a", 0)
    cluster.node("b", 2)
    cluster.node("c", 0, allocatable={"pods": "0"})
    cluster.node("d", unschedulable=True)
    cluster.pod("bound", nodeName="b")
    cluster.pod("p", 2)
    cluster.try_all()

    assert cluster.failures("p") == [
        f"0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 3 Insufficient {GPU}. no new claims "
        "to deallocate, preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, "
        "3 Preemption is not helpful for scheduling."
    ]


def test_cluster_without_nodes_is_reported_again_with_growing_pauses(cluster: ScheduledCluster):
    cluster.pod("p")
    cluster.try_all()
    tries = []
    for _ in range(12):
        cluster.advance(1)
        tries.append(len(cluster.failures("p")))

    assert set(cluster.failures("p")) == {"no nodes available to schedule pods"}
    assert tries == [1, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4]


def test_condition_of_the_pod_says_the_same(cluster: ScheduledCluster):
    cluster.node("n", 0)
    cluster.pod("p")
    cluster.try_all()

    (condition,) = cluster.object("pods", "p")["status"]["conditions"]
    told = {name: condition[name] for name in ("type", "status", "reason", "message")}
    assert told == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/1 nodes are available: 1 Insufficient {GPU}. {NOT_HELPFUL}",
    }


def test_nodes_that_a_daemons_pod_is_not_meant_for_are_reported_since_1_32():
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    told = []
    for minor in ("1.31", "1.32"):
        cluster = ScheduledCluster(minor)
        cluster.node("a", 0)
        cluster.node("b", 1)
        cluster.pod("p", affinity=affinity)
        cluster.try_all()
        told.append(cluster.failures("p")[0].partition(" preemption")[0])

    assert told == [
        f"0/2 nodes are available: 1 Insufficient {GPU}.",
        f"0/2 nodes are available: 1 Insufficient {GPU}, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
    ]


def test_nodes_that_are_not_named_are_reported_with_what_speaks_against_the_nominated_one() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    cluster = ScheduledCluster()
    cluster.node("a", 1)
    cluster.node("b", 1)
    cluster.pod("victim", nodeName="a")
    cluster.pod("p", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}, priority=10)
    # It makes room on a, and is tried again with a node that it is to get.
    cluster.try_all()
    assert cluster.object("pods", "p")["status"]["nominatedNodeName"] == "a"
    cluster.change_pod("p", tolerations=[])
    cluster.node("c", 1)
    cluster.try_all()

    assert cluster.failures("p")[-1].startswith(
        f"0/3 nodes are available: 1 Insufficient {GPU}, 2 node(s) didn't satisfy plugin(s) "
        "[NodeAffinity NodeResourcesFit]."
    )


def test_event_of_many_reasons_is_cut_and_the_condition_is_not(cluster: ScheduledCluster):
    resources = {f"example.com/{'long-' * 8}{number}": "1" for number in range(40)}
    cluster.node("n")
    cluster.pod("p", requests=resources)
    cluster.try_all()

    (message,) = cluster.failures("p")
    (condition,) = cluster.object("pods", "p")["status"]["conditions"]
    assert len(message) == 1024
    assert message.endswith(" ...")
    assert condition["message"].startswith(message.removesuffix(" ..."))


def test_preference_that_compares_with_no_number_is_an_error_where_there_is_a_choice(cluster: ScheduledCluster):
    expression = {"key": "size", "operator": "Gt", "values": ["many"]}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.node("a", 2)
    cluster.pod("alone", affinity=affinity)
    cluster.try_all()
    cluster.node("b")
    cluster.pod("torn", affinity=affinity)
    cluster.try_all()

    assert cluster.node_of("alone") == "a"
    text = (
        'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: Invalid value: "many": for '
        "'Gt', 'Lt' operators, the value must be an integer"
    )
    (condition,) = cluster.object("pods", "torn")["status"]["conditions"]
    assert cluster.failures("torn") == [text]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", text)


@pytest.mark.parametrize("is_threaded", [False, True], ids=["in the loop", "in a thread"])
async def test_ending_namespace_takes_no_binding(is_threaded: bool) -> None:
    cluster = DeviceCluster()
    cluster.write("namespaces", {"metadata": {"name": "default"}, "status": {"phase": "Terminating"}})
    cluster.pod("plain", 0)
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("claiming")

    if is_threaded:
        while await cluster.scheduler.try_next_in_thread():
            pass
    else:
        cluster.try_all()

    for name in "plain", "claiming":
        assert cluster.node_of(name) is None
        (condition,) = cluster.object("pods", name)["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == (
            "SchedulerError",
            f'running Bind plugin "DefaultBinder": pods "{name}" is forbidden: unable to create new content in '
            "namespace default because it is being terminated",
        )
    assert cluster.claim()["status"].get("reservedFor", []) == []
    assert cluster.events == []
