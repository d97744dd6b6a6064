from __future__ import annotations

import time
from typing import Any

import pytest

from simkubelet.cluster import Objects, Store, WallTime
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from simkubelet.model.node import NodeStatus
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import version

NODES = kind_named("nodes")
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture
def store() -> Store:
    return Store(Objects(WallTime(ManualClock())), lambda event: None)


@pytest.fixture
def registry(store: Store) -> Registry:
    return Registry(store.objects, all_strategies(store.objects))


def update(registry: Registry, part: str, *, subresource: str = "", **fields: Any) -> JSON:
    def changed(body: JSON) -> JSON:
        return {**body, part: {**body[part], **fields}}

    return registry.update(NODES, "", "n", changed, subresource=subresource)


def test_node_of_a_user_begins_as_not_ready(registry: Registry) -> None:
    created = registry.create(NODES, "", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 0.5}}})
    assert created["spec"]["taints"] == [NOT_READY]
    assert created["status"] == {"capacity": {"cpu": "500m"}, "allocatable": {"cpu": "500m"}}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.26", 'failed to parse cidr value:"somewhere" with error:invalid CIDR address: somewhere'),
        ("1.27", "invalid CIDR[1]: <nil> (invalid CIDR address: somewhere)"),
    ],
)
def test_place_of_a_wrong_range_is_named_from_1_27_on(store: Store, release: str, expected: str) -> None:
    registry = Registry(store.objects, all_strategies(store.objects, version(release)))
    body = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["127.64.0.0/24", "somewhere"]}}

    with pytest.raises(StatusError) as refused:
        registry.create(NODES, "", body)

    assert expected in refused.value.message


@pytest.mark.parametrize(("release", "is_kept"), [("1.35", False), ("1.36", True)])
def test_new_nodes_declare_features_from_1_36_on(store: Store, release: str, is_kept: bool) -> None:
    registry = Registry(store.objects, all_strategies(store.objects, version(release)))
    body = {
        "metadata": {"name": "n"},
        "spec": {"podPreemptionPolicy": {"disableResizePreemption": ["cpu"]}},
        "status": {"declaredFeatures": ["One"]},
    }

    created = registry.create(NODES, "", body)

    assert ("declaredFeatures" in created["status"]) == is_kept
    assert "podPreemptionPolicy" not in created["spec"]


def test_declared_features_are_checked(registry: Registry) -> None:
    registry.create(NODES, "", {"metadata": {"name": "n"}})

    with pytest.raises(StatusError) as refused:
        update(registry, "status", subresource="status", declaredFeatures=["B/x", "A", "A", "no", "L" + "o" * 253])

    assert str(refused.value) == (
        'Node "n" is invalid: ['
        'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically, '
        'status.declaredFeatures[2]: Duplicate value: "A", '
        'status.declaredFeatures[3]: Invalid value: "no": invalid feature name "no": must start with an UpperCamelCase '
        "segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain "
        "only alphanumeric characters and slashes, "
        f'status.declaredFeatures[4]: Invalid value: "L{"o" * 253}": list must be sorted alphabetically, '
        f'status.declaredFeatures[4]: Invalid value: "L{"o" * 253}": invalid feature name "L{"o" * 253}": must be no '
        "more than 253 characters]"
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"podCIDR": "10.1.0.0/24"}, ["10.1.0.0/24"]),
        ({"podCIDRs": ["10.2.0.0/24", "fd00::/64"]}, ["10.2.0.0/24", "fd00::/64"]),
        ({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24", "fd00::/64"]}, ["10.2.0.0/24", "fd00::/64"]),
        ({"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24"]}, ["10.1.0.0/24"]),
    ],
)
def test_older_field_of_the_ranges_decides(registry: Registry, given: JSON, kept: list[str]) -> None:
    spec = registry.create(NODES, "", {"metadata": {"name": "n"}, "spec": given})["spec"]
    assert (spec["podCIDR"], spec["podCIDRs"]) == (kept[0], kept)


def test_range_of_the_older_field_is_checked(registry: Registry) -> None:
    spec = {"podCIDR": "somewhere", "podCIDRs": ["10.2.0.0/24"]}
    with pytest.raises(StatusError, match=r'spec\.podCIDRs\[0\]: Invalid value: "somewhere"'):
        registry.create(NODES, "", {"metadata": {"name": "n"}, "spec": spec})


def test_capacity_that_a_user_adds_reaches_the_kubelet(registry: Registry, store: Store) -> None:
    store.register_node("n", NodeStatus())
    update(registry, "status", subresource="status", capacity={"nvidia.com/gpu": "4"})
    assert store.nodes["n"].capacity == {ResourceName("nvidia.com/gpu"): 4}


def test_update_leaves_the_status_alone(registry: Registry, store: Store) -> None:
    store.register_node("n", NodeStatus())
    update(registry, "status", capacity={"nvidia.com/gpu": "4"})
    assert store.nodes["n"].capacity == {}


def test_annotations_may_come_with_the_status_but_no_spec(registry: Registry, store: Store) -> None:
    store.register_node("n", NodeStatus())

    written = update(registry, "metadata", subresource="status", annotations={"gpu": "0"})
    kept = update(registry, "spec", subresource="status", unschedulable=True)

    assert written["metadata"]["annotations"]["gpu"] == "0"
    assert "unschedulable" not in kept["spec"]


def test_cordon_is_seen(registry: Registry, store: Store) -> None:
    store.register_node("n", NodeStatus())
    update(registry, "spec", unschedulable=True)
    node = store.node("n")
    assert node is not None
    assert node.is_unschedulable


@pytest.mark.parametrize(
    ("part", "fields", "is_status", "why"),
    [
        (
            "spec",
            {"taints": [{"key": "k", "effect": "Never"}]},
            False,
            'metadata.taints[0].effect: Unsupported value: "Never": supported values: '
            '"NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        ("spec", {"taints": [{"key": "k"}]}, False, "metadata.taints[0].effect: Required value"),
        (
            "spec",
            {"taints": [{"key": "k", "value": str(n), "effect": "NoExecute"} for n in range(2)]},
            False,
            'metadata.taints[1]: Duplicate value: {"Key":"k","Value":"1","Effect":"NoExecute","TimeAdded":null}: '
            "taints must be unique by key and effect pair",
        ),
        (
            "spec",
            {"podCIDRs": ["127.64.0.0/24", "somewhere"]},
            False,
            '[spec.podCIDRs[1]: Invalid value: "somewhere": must be a valid CIDR value, (e.g. 10.9.8.0/24 or '
            "2001:db8::/64), spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with "
            "error:invalid CIDR[1]: <nil> (invalid CIDR address: somewhere), spec.podCIDRs: Invalid value: "
            '["127.64.0.0/24","somewhere"]: may specify no more than one CIDR for each IP family, spec.podCIDRs: '
            'Forbidden: node updates may not change podCIDR except from "" to valid]',
        ),
        ("spec", {"externalID": "x"}, False, "spec.externalID: Forbidden: may not be updated"),
        (
            "spec",
            {"taints": [{"key": "a b", "value": "c d", "effect": "NoExecute"}]},
            False,
            "[metadata.taints[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
            "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), "
            'metadata.taints[0].value: Invalid value: "c d": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]",
        ),
        (
            "status",
            {"addresses": [{"type": "Hostname", "address": "n"}] * 2},
            True,
            'status.addresses[1]: Duplicate value: {"Type":"Hostname","Address":"n"}',
        ),
        (
            "spec",
            {"podCIDR": "10.0.0.0/24"},
            False,
            'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        ),
        (
            "status",
            {"capacity": {"nvidia.com/gpu": "1.5"}},
            True,
            'status.capacity.nvidia.com/gpu: Invalid value: "1500m": must be an integer',
        ),
        (
            "status",
            {"allocatable": {"cpu": "-1"}},
            True,
            'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ),
    ],
)
def test_node_is_refused_with_the_api_servers_text(
    registry: Registry, store: Store, part: str, fields: JSON, is_status: bool, why: str
) -> None:
    store.register_node("n", NodeStatus())
    with pytest.raises(StatusError) as refused:
        update(registry, part, subresource="status" if is_status else "", **fields)
    assert refused.value.message == f'Node "n" is invalid: {why}'


def test_quantity_that_is_none_is_a_bad_request(registry: Registry, store: Store) -> None:
    store.register_node("n", NodeStatus())
    with pytest.raises(StatusError, match='Node in version "v1" cannot be handled as a Node: quantities must match'):
        update(registry, "status", subresource="status", capacity={"cpu": "much"})


def test_many_addresses_cost_no_comparison_of_each_with_each(registry: Registry) -> None:
    registry.create(NODES, "", {"metadata": {"name": "n"}})
    addresses = [{"type": "Hostname", "address": f"a{number}"} for number in range(20_000)]

    began = time.process_time()
    with pytest.raises(StatusError, match=r"status\.addresses\[20000\]: Duplicate value"):
        update(registry, "status", subresource="status", addresses=[*addresses, addresses[0]])

    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    ("release", "ranges", "expected"),
    [
        ("1.29", ["x"], ["must be valid CIDR"]),
        ("1.30", ["x"], ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ("1.32", ["10.1.0.0/24"] * 2, ["may specify no more than one CIDR for each IP family", ""]),
        ("1.33", ["10.1.0.0/24"] * 2, ["may specify no more than one CIDR for each IP family"]),
    ],
)
def test_ranges_are_refused_in_the_words_of_the_minor(release: str, ranges: list[str], expected: list[str]) -> None:
    strategy = all_strategies(Objects(WallTime(ManualClock())), version(release))["nodes"]
    new: JSON = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ranges}, "status": {}}

    strategy.default(new)

    assert [error.detail for error in strategy.validate(new)] == expected
