"""Which devices claims get where Kubernetes versions differ: taints, shared counters, distinct attributes, texts."""

from __future__ import annotations

import json

import pytest

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import InvalidPoolsError, SchedulerPanicError
from simkubelet.cluster.scheduler.dynamic_resources.requests import AllocatorError
from tests.support.device_claims import (
    CLASS,
    DRIVER,
    allocate,
    alternative,
    claim_for,
    device,
    gpus,
    names,
    request,
    slice_of,
)


def taint(effect: str, value: str = "79") -> JSON:
    return {"key": "gpu.example.com/xid", "value": value, "effect": effect}


@pytest.mark.parametrize(
    ("effect", "tolerations", "chosen"),
    [
        pytest.param("NoSchedule", [], "gpu-1", id="no schedule"),
        pytest.param("NoExecute", [], "gpu-1", id="no execute"),
        pytest.param("None", [], "gpu-0", id="only for people"),
        pytest.param("NoSchedule", [{"operator": "Exists"}], "gpu-0", id="any is tolerated"),
        pytest.param("NoSchedule", [taint("", value="79")], "gpu-0", id="this one is tolerated"),
        pytest.param("NoSchedule", [taint("", value="48")], "gpu-1", id="another value is tolerated"),
        pytest.param("NoSchedule", [taint("NoExecute")], "gpu-1", id="another effect is tolerated"),
    ],
)
def test_tainted_device_is_for_requests_that_tolerate_it(effect: str, tolerations: list[JSON], chosen: str) -> None:
    first, second = gpus(2)
    claim = claim_for(request("a", tolerations=tolerations))

    found = allocate([claim], [slice_of([{**first, "taints": [taint(effect)]}, second])], release="1.36")

    assert found is not None
    (result,) = found[0]["devices"]["results"]
    assert result["device"] == chosen
    assert result.get("tolerations", []) == tolerations


def partitions() -> list[JSON]:
    """A slice with the counters of a GPU, and one with the GPU as a whole and in two halves."""

    def part(name: str, units: int) -> JSON:
        return {
            **device(name),
            "consumesCounters": [{"counterSet": "gpu", "counters": {"units": {"value": str(units)}}}],
        }

    counters = slice_of([], "counters", count=2)
    del counters["spec"]["devices"]
    counters["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"units": {"value": "4"}}}]
    return [counters, slice_of([part("whole", 4), part("half-0", 2), part("half-1", 2)], "devices", count=2)]


@pytest.mark.parametrize(
    ("allocated", "wanted", "chosen"),
    [
        pytest.param([], 1, ["whole"], id="all is free"),
        pytest.param([], 2, ["half-0", "half-1"], id="both halves"),
        pytest.param([], 3, None, id="more than there is"),
        pytest.param(["half-0"], 1, ["half-1"], id="a half is left"),
        pytest.param(["whole"], 1, None, id="nothing is left"),
    ],
)
def test_devices_share_the_counters_of_their_pool(allocated: list[str], wanted: int, chosen: list[str] | None) -> None:
    found = allocate([claim_for(request("a", count=wanted))], partitions(), allocated)

    assert (found and [name for _, name in names(found[0])]) == chosen


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"name": "other"}, "counter set gpu not found", id="set"),
        pytest.param({"counters": {"x": {"value": "1"}}}, "counter units not found in counter set gpu", id="counter"),
    ],
)
def test_pool_without_the_counters_of_its_devices_is_invalid(change: JSON, why: str) -> None:
    slices = partitions()
    slices[0]["spec"]["sharedCounters"][0].update(change)

    with pytest.raises(AllocatorError, match=why):
        allocate([claim_for(request("a"))], slices)


@pytest.mark.parametrize(("release", "chosen"), [("1.36.2", None), ("1.36.3", ["half-0"])])
@pytest.mark.parametrize("refused_by", ["taint", "constraint"])
def test_refused_device_keeps_its_counters_until_1_36_3(
    refused_by: str, release: str, chosen: list[str] | None
) -> None:
    slices = partitions()
    whole, *halves = slices[1]["spec"]["devices"]
    for half in halves:
        half["attributes"] = {"size": {"int": 2}}
    constraints = [{"matchAttribute": f"{DRIVER}/size"}] if refused_by == "constraint" else []
    if refused_by == "taint":
        whole["taints"] = [taint("NoSchedule")]

    found = allocate([claim_for(request("a"), constraints=constraints)], slices, release=release)

    assert (found and [name for _, name in names(found[0])]) == chosen


def all_halves() -> tuple[JSON, list[JSON]]:
    """A claim for all devices, which are the halves of a GPU."""
    slices = partitions()
    del slices[1]["spec"]["devices"][0]
    return claim_for(request("a", allocationMode="All")), slices


@pytest.mark.parametrize("release", ["1.36.0", "1.36.1"])
def test_counters_of_all_devices_crash_the_scheduler_up_to_1_36_1(release: str) -> None:
    claim, slices = all_halves()

    with pytest.raises(SchedulerPanicError, match="nil pointer dereference"):
        allocate([claim], slices, release=release)
    assert allocate([claim], [slice_of(gpus(2))], release=release)
    assert allocate([claim], slices, ["half-0"], release=release) is None


@pytest.mark.parametrize("release", ["1.34", "1.36.2"])
def test_all_devices_may_share_counters(release: str) -> None:
    claim, slices = all_halves()

    found = allocate([claim], slices, release=release)

    assert found is not None
    assert names(found[0]) == [("a", "half-0"), ("a", "half-1")]


@pytest.mark.parametrize(("release", "chosen"), [("1.36.3", "half-0"), ("1.36.4", "whole")])
def test_pools_of_one_name_share_counters_before_1_36_4(release: str, chosen: str) -> None:
    other = json.loads(json.dumps(partitions()))
    for each in other:
        each["metadata"]["name"] += "-of-other"
        each["spec"]["driver"] = "nic.example.com"
    of_other = {**CLASS, "metadata": {"name": "nic"}, "spec": {}}
    nic = request("nic", 'device.driver == "nic.example.com"', deviceClassName="nic")
    claim = claim_for(request("gpu"), nic)
    slices = [*partitions(), *other]
    slices[1]["spec"]["devices"] = slices[1]["spec"]["devices"][1:]

    found = allocate([claim], slices, classes=[CLASS, of_other], release=release)

    assert found is not None
    assert names(found[0]) == [("gpu", "half-0"), ("nic", chosen)]


@pytest.mark.parametrize(
    ("release", "count", "chosen"),
    [
        pytest.param("1.34", 2, ["d0", "d1"], id="nothing is compared"),
        pytest.param("1.36", 2, ["d0", "d2"], id="two differ"),
        pytest.param("1.36", 3, ["d0", "d2", "d3"], id="only the last is remembered"),
        pytest.param("1.37", 2, ["d0", "d2"], id="two differ as well"),
        pytest.param("1.37", 3, None, id="all are remembered"),
    ],
)
def test_distinct_attribute(release: str, count: int, chosen: list[str] | None) -> None:
    devices = [device(f"d{index}", numa=numa) for index, numa in enumerate([0, 0, 1, 0])]
    claim = claim_for(request("a", count=count), constraints=[{"distinctAttribute": f"{DRIVER}/numa"}])

    found = allocate([claim], [slice_of(devices)], release=release)

    assert (found and [name for _, name in names(found[0])]) == chosen


def test_distinct_attribute_is_unknown_to_1_35() -> None:
    claim = claim_for(request("a"), constraints=[{"distinctAttribute": f"{DRIVER}/index"}])

    with pytest.raises(AllocatorError, match="constraint #0: empty constraint"):
        allocate([claim], [slice_of(gpus(1))], release="1.35")


@pytest.mark.parametrize(("count", "chosen"), [(1, [("req", "gpu-0")]), (2, None)], ids=["complete", "incomplete"])
def test_pool_is_complete_with_its_slices_for_other_nodes(count: int, chosen: object) -> None:
    slices = [slice_of(gpus(1), count=count), slice_of(gpus(1), "other", "node-2", pool="node-2")]

    found = allocate([claim_for(request())], slices, release="1.35")

    assert (found and names(found[0])) == chosen


@pytest.mark.parametrize(("generation", "is_there"), [(1, True), (2, False)])
def test_slice_for_another_node_counts_unless_it_is_newer(generation: int, is_there: bool) -> None:
    other = slice_of(gpus(1), "other", "node-2", pool="node-1", count=2, generation=generation)

    found = allocate([claim_for(request())], [slice_of(gpus(1), count=2), other], release="1.35")

    assert (found is not None) == is_there


def test_invalid_pool_is_told_where_nothing_else_is_left() -> None:
    twice = slice_of([device("d0"), device("d0")])

    with pytest.raises(InvalidPoolsError, match="invalid resource pools were encountered"):
        allocate([claim_for(request())], [twice], release="1.35")
    assert allocate([claim_for(request())], [twice, slice_of(gpus(1), "good", pool="z")], release="1.35")


@pytest.mark.parametrize(("release", "chosen"), [("1.35", 1), ("1.36", 3)])
def test_alternative_for_all_devices_is_lost_before_1_36(release: str, chosen: int) -> None:
    wanted = [alternative("none", "false"), alternative("all", allocationMode="All")]

    found = allocate([claim_for({"name": "gpu", "firstAvailable": wanted})], [slice_of(gpus(3))], release=release)

    assert found is not None
    assert names(found[0]) == [("gpu/all", f"gpu-{index}") for index in range(chosen)]


def test_error_of_a_selector_names_the_device_from_1_37() -> None:
    claim = claim_for(request("r", f'device.attributes["{DRIVER}"].x == 1'))

    with pytest.raises(AllocatorError) as raised:
        allocate([claim], [slice_of(gpus(1))], release="1.37")

    assert str(raised.value) == (
        "claim default/claim: selector #0 on device gpu.example.com/node-1/gpu-0: CEL runtime error: no such key: x. "
        "consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
        "fields"
    )


def test_configuration_for_all_requests_names_none_from_1_37() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    config = [{**opaque, "requests": ["a", "b"]}, {**opaque, "requests": ["b"]}]

    found = allocate([claim_for(request("a"), request("b"), config=config)], [slice_of(gpus(2))], release="1.37")

    assert found is not None
    assert found[0]["devices"]["config"] == [
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", "requests": ["b"], **opaque},
    ]


def test_error_of_too_many_devices_names_the_request_from_1_37_1() -> None:
    with pytest.raises(AllocatorError) as raised:
        allocate([claim_for(request("a"), request("b", count=32))], [slice_of(gpus(1))], release="1.37.1")

    assert str(raised.value) == (
        "claim default/claim, request b: adding 32 devices exceeds the claim limit of 32, with 1 already accounted for"
    )


ATTACHED = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/failed"]}


def test_devices_with_binding_conditions_come_after_other_pools() -> None:
    slices = [
        slice_of([device("gpu-0"), {**device("gpu-1"), **ATTACHED}], "a", pool="a"),
        slice_of([device("gpu-2")], "b", pool="b"),
    ]
    claim = claim_for(request(count=3))

    found = allocate([claim], slices, release="1.36")

    assert found is not None
    results = found[0]["devices"]["results"]
    assert [result["device"] for result in results] == ["gpu-2", "gpu-0", "gpu-1"]
    assert [ATTACHED.items() <= result.items() for result in results] == [False, False, True]
    assert allocate([claim], slices, release="1.35") is None


@pytest.mark.parametrize("binds", [True, False])
def test_device_that_binds_to_its_node_is_for_that_node(binds: bool) -> None:
    found = allocate(
        [claim_for(request())],
        [slice_of([{**device("gpu-0"), "bindsToNode": binds}], node=None, allNodes=True)],
        release="1.36",
    )

    assert found is not None
    only = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert found[0].get("nodeSelector") == ({"nodeSelectorTerms": [{"matchFields": [only]}]} if binds else None)
