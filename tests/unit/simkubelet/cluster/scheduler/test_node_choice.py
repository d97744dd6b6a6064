"""Where a pod goes among the nodes that it fits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.scheduler.cluster_state import HostPort, have_clash
from tests.support.scheduled_cluster import ScheduledCluster


@pytest.fixture
def cluster() -> ScheduledCluster:
    return ScheduledCluster()


def preferred(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def required(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def near(kind: str, app: str) -> dict[str, Any]:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_spread_as_each_counts_for_some_cpu_and_memory(cluster: ScheduledCluster):
    cluster.node("a", 4)
    cluster.node("b", 4)
    for number in range(4):
        cluster.pod(f"p{number}")
        cluster.try_all()

    assert [cluster.node_of(f"p{number}") for number in range(4)] == ["a", "b", "a", "b"]


_ANY = "0.0.0.0"  # noqa: S104
_HOSTS = st.sampled_from([_ANY, "10.0.0.1", "10.0.0.2"])
_PORTS = st.lists(st.builds(HostPort, _HOSTS, st.sampled_from(["TCP", "UDP"]), st.integers(1, 2)), max_size=4)


@given(_PORTS, _PORTS)
def test_ports_clash_at_the_same_address_or_where_one_is_for_all(wanted: list[HostPort], taken: list[HostPort]):
    pairs = [(one, other) for one in wanted for other in taken if one[1:] == other[1:]]

    assert have_clash(wanted, taken) == any(
        one.host == other.host or _ANY in (one.host, other.host) for one, other in pairs
    )


def test_thousands_of_ports_are_compared_once():
    ports = [HostPort("10.0.0.1", "TCP", number) for number in range(60_000)]

    assert not have_clash(ports, [port._replace(protocol="UDP") for port in ports])


def test_free_devices_do_not_count_but_free_cpu_does(cluster: ScheduledCluster):
    cluster.node("a", 8)
    cluster.node("b", 1, allocatable={"cpu": "16"})
    cluster.pod("p")
    cluster.try_all()

    assert cluster.node_of("p") == "b"


@pytest.mark.parametrize(
    ("minor", "node"), [pytest.param("1.35", "b", id="as it is then"), pytest.param("1.36", "a", id="what it gains")]
)
def test_balance_counts_by_what_a_pod_improves_from_1_36_on(minor: str, node: str):
    cluster = ScheduledCluster(minor)
    for name in ("a", "b"):
        cluster.node(name)
    cluster.pod("other", 0, requests={"cpu": "1m", "memory": "1Gi"}, nodeName="a")

    cluster.pod("pod", 0, requests={"cpu": "1"})
    cluster.try_all()

    assert cluster.node_of("pod") == node


def test_pod_keeps_away_from_a_soft_taint_while_it_can(cluster: ScheduledCluster):
    cluster.node("a", taints=[{"key": "slow", "effect": "PreferNoSchedule"}])
    cluster.node("b")
    for name in ("first", "second"):
        cluster.pod(name)
        cluster.try_all()

    assert (cluster.node_of("first"), cluster.node_of("second")) == ("b", "a")


def test_preferred_node_is_taken(cluster: ScheduledCluster):
    cluster.node("a")
    cluster.node("b", labels={"disk": "ssd"})
    cluster.pod("p", affinity=preferred("disk", "Exists"))
    cluster.try_all()

    assert cluster.node_of("p") == "b"


@pytest.mark.parametrize(
    ("operator", "values", "node"),
    [
        ("In", ["ssd", "hdd"], "b"),
        ("NotIn", ["ssd"], "a"),
        ("Exists", [], "b"),
        ("DoesNotExist", [], "a"),
    ],
)
def test_required_affinity_is_met(cluster: ScheduledCluster, operator: str, values: list[str], node: str):
    cluster.node("a")
    cluster.node("b", labels={"disk": "ssd"})
    cluster.pod("p", affinity=required("disk", operator, *values))
    cluster.try_all()

    assert cluster.node_of("p") == node


@pytest.mark.parametrize(("operator", "node"), [("Gt", "b"), ("Lt", "a")])
def test_required_affinity_compares_numbers(cluster: ScheduledCluster, operator: str, node: str):
    cluster.node("a", labels={"size": "9"})
    cluster.node("b", labels={"size": "10"})
    cluster.pod("p", affinity=required("size", operator, "10" if operator == "Lt" else "9"))
    cluster.try_all()

    assert cluster.node_of("p") == node


def test_node_selector_that_nothing_has_is_refused(cluster: ScheduledCluster):
    cluster.node("a")
    cluster.pod("p", nodeSelector={"disk": "ssd"})
    cluster.try_all()

    assert "1 node(s) didn't match Pod's node affinity/selector." in cluster.failures("p")[0]


def test_pod_that_names_its_node_or_another_scheduler_is_left_alone(cluster: ScheduledCluster):
    cluster.node("a")
    cluster.pod("named", nodeName="elsewhere")
    cluster.pod("foreign", schedulerName="another-one")
    cluster.try_all()

    assert (cluster.node_of("named"), cluster.node_of("foreign"), cluster.events) == ("elsewhere", None, [])


def test_host_port_is_taken_once_a_node(cluster: ScheduledCluster):
    cluster.node("a", 9)
    container = {"name": "c", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}
    for name in ("first", "second"):
        cluster.pod(name, containers=[container])
        cluster.try_all()

    assert cluster.node_of("first") == "a"
    assert "1 node(s) didn't have free ports for the requested pod ports." in cluster.failures("second")[0]


def test_pod_goes_to_those_it_wants_near_and_away_from_those_it_wants_far(cluster: ScheduledCluster):
    for name in ("a", "b"):
        cluster.node(name, 9)
    cluster.pod("web", labels={"app": "web"}, nodeName="b")
    cluster.pod("near", affinity=near("podAffinity", "web"))
    cluster.pod("far", affinity=near("podAntiAffinity", "web"))
    cluster.pod("nowhere", affinity=near("podAffinity", "database"))
    cluster.try_all()

    assert (cluster.node_of("near"), cluster.node_of("far")) == ("b", "a")
    assert "2 node(s) didn't match pod affinity rules." in cluster.failures("nowhere")[0]


def test_of_many_nodes_the_only_one_with_room_is_found_by_each_pod(cluster: ScheduledCluster):
    for number in range(250):
        cluster.node(f"n{number}", 3 if number == 249 else 0)
    for number in range(4):
        cluster.pod(f"p{number}")
        cluster.try_all()

    assert [cluster.node_of(f"p{number}") for number in range(4)] == ["n249", "n249", "n249", None]
    assert cluster.failures("p3")[0].startswith("0/250 nodes are available: 250 Insufficient nvidia.com/gpu. ")


def test_pods_are_tried_by_priority_then_by_age(cluster: ScheduledCluster):
    for name, priority in (("old", 0), ("young", 0), ("high", 7)):
        cluster.pod(name, priority=priority)
        cluster.clock.ms += 1
    cluster.node("a", 9)
    cluster.try_all()

    assert [pod for pod, reason, _ in cluster.events if reason == "Scheduled"] == ["high", "old", "young"]
