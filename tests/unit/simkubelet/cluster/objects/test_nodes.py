from __future__ import annotations

from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.objects.nodes import (
    KubeletEndpoint,
    free_address,
    new_node_json,
    node_status_json,
    read_node,
    read_node_status,
)
from simkubelet.cluster.objects.objects import WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.node import ConditionStatus, ConditionType, NodeCondition, NodeStatus, Taint
from simkubelet.model.resources import ResourceName

WALL = WallTime(ManualClock(), datetime(2026, 1, 2, tzinfo=UTC))
NODE = new_node_json("node-1")

names = st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu"])
amounts = st.dictionaries(names.map(ResourceName), st.integers(0, 2**40))
seconds = st.integers(0, 10**6).map(float)
conditions = st.lists(st.sampled_from(ConditionType), unique=True).flatmap(
    lambda types: st.tuples(
        *(
            st.builds(
                NodeCondition,
                st.just(type_),
                st.sampled_from(ConditionStatus),
                st.text("ab", max_size=3),
                st.text("ab", max_size=3),
                seconds,
                seconds,
            )
            for type_ in types
        )
    )
)
statuses = st.builds(NodeStatus, amounts, amounts, conditions, st.sampled_from(["", "v1.34.4"]))


@given(statuses)
def test_status_is_read_as_it_was_written(status: NodeStatus) -> None:
    assert read_node_status(node_status_json(NODE, status, WALL, KubeletEndpoint()), WALL) == status


@given(statuses)
def test_status_that_is_written_twice_does_not_change(status: NodeStatus) -> None:
    once = node_status_json(NODE, status, WALL, KubeletEndpoint())
    assert node_status_json({**NODE, "status": once}, status, WALL, KubeletEndpoint()) == once


def test_amounts_are_written_as_a_kubelet_writes_them() -> None:
    machine = {"cpu": 7910, "memory": 65846500 * 1024, "pods": 110, "nvidia.com/gpu": 1000}
    status = NodeStatus({ResourceName(name): amount for name, amount in machine.items()})
    assert node_status_json(NODE, status, WALL, KubeletEndpoint())["capacity"] == {
        "cpu": "7910m",
        "memory": "65846500Ki",
        "pods": "110",
        "nvidia.com/gpu": "1k",
    }


def test_quantity_of_another_author_stays_as_it_was_written() -> None:
    stored = {**NODE, "status": {"capacity": {"example.com/dongle": "4000m"}}}
    status = NodeStatus({ResourceName("example.com/dongle"): 4})
    assert node_status_json(stored, status, WALL, KubeletEndpoint())["capacity"] == {"example.com/dongle": "4000m"}


def test_conditions_and_fields_of_others_stay() -> None:
    foreign = {"type": "NetworkUnavailable", "status": "False"}
    stored = {**NODE, "status": {"conditions": [foreign], "images": [{"names": ["x"]}]}}
    ready = NodeCondition(ConditionType.READY, ConditionStatus.TRUE, "KubeletReady", "", 5.0, 5.0)
    new = node_status_json(stored, NodeStatus(conditions=(ready,)), WALL, KubeletEndpoint())
    assert new["conditions"][0] == foreign
    assert new["conditions"][1]["lastTransitionTime"] == "2026-01-02T00:00:05Z"
    assert new["images"] == [{"names": ["x"]}]


def test_node_is_read_with_its_taints_and_labels() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    node = read_node({**NODE, "spec": {"taints": [taint], "unschedulable": True}}, NodeStatus())
    assert node.taints == (Taint("k", "", "NoSchedule"),)
    assert node.is_unschedulable
    assert node.labels["kubernetes.io/hostname"] == "node-1"


@pytest.mark.parametrize("pod_range", ["127.64.3.0/28", "10.244.1.7/29", "fd00:10:244:1::/124"])
@given(used=st.sets(st.integers(0, 16)))
def test_free_address_is_the_first_that_no_pod_has(pod_range: str, used: set[int]) -> None:
    network: IPv4Network | IPv6Network = ip_network(pod_range, strict=False)
    taken = {str(network.network_address + place) for place in used}

    # The first two and the last address of a range are no pod's.
    places = [str(one) for one in list(network)[2:-1] if str(one) not in taken]
    assert free_address(pod_range, taken) == (places[0] if places else "")


def test_node_without_a_range_has_no_free_address() -> None:
    assert free_address("", set()) == ""
