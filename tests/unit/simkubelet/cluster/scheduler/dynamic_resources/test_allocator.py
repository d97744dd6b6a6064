"""Which devices claims get.

The recorded cases are answers of the real structured allocator (k8s.io/dynamic-resource-allocation v0.34.4).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import (
    AllocationTimeoutError,
    Allocator,
    InvalidPoolsError,
    SchedulerPanicError,
)
from simkubelet.cluster.scheduler.dynamic_resources.pools import DeviceID, Slices
from simkubelet.cluster.scheduler.dynamic_resources.requests import AllocatorError
from simkubelet.model.version import DEFAULT, version
from tests.support.device_claims import CLASS, DRIVER, alternative, claim_for, device, request, slice_of

RECORDED = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]
ON_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}
INDEX = f'device.attributes["{DRIVER}"].index'


def allocate(
    claims: Sequence[JSON],
    slices: Sequence[JSON],
    allocated: Sequence[str] = (),
    classes: Sequence[JSON] = (CLASS,),
    release: str = DEFAULT,
    **labels: str,
) -> list[JSON] | None:
    """What the claims get on node-1; `allocated` are names of devices of its own pool."""
    by_name = {each["metadata"]["name"]: each for each in classes}
    taken = {DeviceID(DRIVER, "node-1", name) for name in allocated}
    return Allocator(by_name, Slices(slices), taken, version(release)).allocate(claims, "node-1", labels)


def names(allocation: JSON) -> list[tuple[str, str]]:
    return [(result["request"], result["device"]) for result in allocation["devices"]["results"]]


def gpus(count: int, **attributes: Any) -> list[JSON]:
    return [device(f"gpu-{index}", {"memory": "40Gi"}, index=index, **attributes) for index in range(count)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in RECORDED])
def test_same_as_the_real_allocator(case: JSON) -> None:
    classes = {each["metadata"]["name"]: each for each in case["classes"]}
    allocator = Allocator(classes, Slices(case["slices"]), set(), version("1.34"))
    node = case["node"]["metadata"]

    answer: JSON
    try:
        found = allocator.allocate(case["claims"], node["name"], node["labels"])
        answer = {"results": found}
    except AllocatorError as error:
        answer = {"error": str(error)}

    assert answer in case["expect"]["answers"]


def test_admin_access_ignores_use_but_not_twice_in_a_claim() -> None:
    claim = claim_for(request("a", adminAccess=True), request("b", adminAccess=True))

    found = allocate([claim], [slice_of(gpus(2))], allocated=["gpu-0", "gpu-1"])

    assert found is not None
    assert names(found[0]) == [("a", "gpu-0"), ("b", "gpu-1")]
    assert all(result["adminAccess"] for result in found[0]["devices"]["results"])


def test_all_takes_every_matching_device() -> None:
    found = allocate([claim_for(request("all", f"{INDEX} > 0", allocationMode="All"))], [slice_of(gpus(3))])

    assert found is not None
    assert names(found[0]) == [("all", "gpu-1"), ("all", "gpu-2")]


@pytest.mark.parametrize("allocated", [["gpu-1"], []], ids=["one in use", "none there"])
def test_all_without_all_devices_gets_none(allocated: list[str]) -> None:
    slices = [slice_of(gpus(2 if allocated else 0))]

    assert allocate([claim_for(request(allocationMode="All"))], slices, allocated) is None


@pytest.mark.parametrize(
    ("claim", "slices", "message"),
    [
        pytest.param(
            claim_for(request(allocationMode="All")),
            [slice_of(gpus(1), count=2)],
            "claim default/claim, request req: asks for all devices, but resource pool gpu.example.com/node-1 is "
            "currently being updated",
            id="incomplete pool",
        ),
        pytest.param(
            claim_for(request()),
            [slice_of([device("d0"), device("d0")])],
            "pool node-1 is invalid: duplicate device name d0",
            id="duplicate name",
        ),
        pytest.param(
            claim_for(request(allocationMode="All"), constraints=[{"matchAttribute": f"{DRIVER}/index"}]),
            [slice_of(gpus(2))],
            "claim default/claim, request req: cannot add device gpu.example.com/node-1/gpu-1 because a claim "
            "constraint would not be satisfied",
            id="constraint on all",
        ),
        pytest.param(
            claim_for(request(count=33)),
            [slice_of(gpus(1))],
            "claim default/claim: number of requested devices 33 exceeds the claim limit of 32",
            id="too many",
        ),
        pytest.param(
            claim_for(request("r", f'device.attributes["{DRIVER}"].x == 1')),
            [slice_of(gpus(1))],
            "claim default/claim: selector #0: CEL runtime error: no such key: x",
            id="selector",
        ),
    ],
)
def test_wrong_claim_or_pool_is_an_error(claim: JSON, slices: list[JSON], message: str) -> None:
    with pytest.raises(AllocatorError) as raised:
        allocate([claim], slices)

    assert str(raised.value) == message


def test_incomplete_pool_serves_counted_requests() -> None:
    found = allocate([claim_for(request())], [slice_of(gpus(1), count=2)])

    assert found is not None
    assert names(found[0]) == [("req", "gpu-0")]


def test_first_available_alternative_is_named() -> None:
    wanted = [alternative("big", f"{INDEX} > 9"), alternative("small", f"{INDEX} > 0")]

    found = allocate([claim_for({"name": "gpu", "firstAvailable": wanted})], [slice_of(gpus(2))])

    assert found is not None
    assert names(found[0]) == [("gpu/small", "gpu-1")]


def test_alternative_gives_way_to_later_claim() -> None:
    either = claim_for({"name": "r", "firstAvailable": [alternative("two", count=2), alternative("one")]}, name="first")

    found = allocate([either, claim_for(request(), name="second")], [slice_of(gpus(2))])

    assert found is not None
    assert [names(each) for each in found] == [[("r/one", "gpu-0")], [("req", "gpu-1")]]


@pytest.mark.parametrize("named", ["numa", f"{DRIVER}/numa"])
def test_match_attribute_keeps_devices_together(named: str) -> None:
    devices = [device(f"d{index}", **{named: numa}) for index, numa in enumerate([0, 1, 1])]
    claim = claim_for(request("a"), request("b"), constraints=[{"matchAttribute": f"{DRIVER}/numa"}])

    found = allocate([claim], [slice_of(devices)])

    assert found is not None
    assert names(found[0]) == [("a", "d1"), ("b", "d2")]


def test_constraint_concerns_only_its_requests() -> None:
    constraint = {"matchAttribute": f"{DRIVER}/index", "requests": ["a"]}

    found = allocate([claim_for(request("a"), request("b"), constraints=[constraint])], [slice_of(gpus(2))])

    assert found is not None
    assert names(found[0]) == [("a", "gpu-0"), ("b", "gpu-1")]


@pytest.mark.parametrize(
    ("parts", "selector"),
    [
        pytest.param({"allNodes": True}, None, id="all nodes"),
        pytest.param(
            {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}},
            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]},
            id="selector",
        ),
    ],
)
def test_devices_of_several_nodes_select_these(parts: JSON, selector: JSON | None) -> None:
    slices = [slice_of(gpus(1), node=None, **parts)]

    found = allocate([claim_for(request())], slices, zone="a")

    assert found is not None
    assert found[0].get("nodeSelector") == selector


@pytest.mark.parametrize(
    "parts",
    [
        {"nodeName": "node-2"},
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}},
        {"perDeviceNodeSelection": True},
    ],
    ids=["other node", "other labels", "not simulated"],
)
def test_devices_of_other_nodes_are_not_reached(parts: JSON) -> None:
    assert allocate([claim_for(request())], [slice_of(gpus(1), node=None, **parts)]) is None


def test_config_of_class_and_claim_comes_with_its_source() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    device_class = {**CLASS, "spec": {**CLASS["spec"], "config": [opaque]}}
    claim = claim_for(request("a"), request("b"), config=[{**opaque, "requests": ["b"]}, opaque])

    found = allocate([claim], [slice_of(gpus(2))], classes=[device_class])

    assert found is not None
    assert found[0]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["a", "b"], **opaque},
        {"source": "FromClaim", "requests": ["b"], **opaque},
        {"source": "FromClaim", **opaque},
    ]
    assert found[0]["nodeSelector"] == ON_NODE


def test_search_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simkubelet.cluster.scheduler.dynamic_resources.allocator._MOST_STEPS", 100)
    claim = claim_for(request("a", count=5), request("b", f"{INDEX} > 99"))

    with pytest.raises(AllocationTimeoutError):
        allocate([claim], [slice_of(gpus(20))])


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[JSON], list[JSON], list[str]]:
    """Claims, slices and names of devices in use: few kinds of devices, so that requests compete."""
    numas = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    devices = [device(f"d{index}", index=index, numa=numa) for index, numa in enumerate(numas)]
    middle = draw(st.integers(0, len(devices)))
    slices = [slice_of(devices[:middle], "s0", count=2), slice_of(devices[middle:], "s1", count=2)]
    claims = []
    for number in range(draw(st.integers(1, 2))):
        requests: list[JSON] = []
        for place in range(draw(st.integers(1, 3))):
            limits = [f"{INDEX} >= {draw(st.integers(0, 3))}"]
            if draw(st.booleans()):
                wanted = [alternative(name, *limits, count=draw(st.integers(1, 3))) for name in ("x", "y")]
                requests.append({"name": f"r{place}", "firstAvailable": wanted})
            else:
                requests.append(request(f"r{place}", *limits, count=draw(st.integers(1, 3))))
        parts = {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]} if draw(st.booleans()) else {}
        claims.append(claim_for(*requests, name=f"c{number}", **parts))
    in_use = draw(st.sets(st.sampled_from([each["name"] for each in devices]), max_size=2))
    return claims, slices, sorted(in_use)


@given(searches())
@settings(max_examples=200, deadline=None)
def test_result_keeps_every_rule(case: tuple[list[JSON], list[JSON], list[str]]) -> None:
    claims, slices, in_use = case
    devices = {each["name"]: each for part in slices for each in part["spec"]["devices"]}

    found = allocate(claims, slices, in_use)

    best = _first_solution(claims, list(devices.values()), in_use)
    assert (None if found is None else [names(each) for each in found]) == best
    if found is None:
        return
    given_devices = [name for each in found for _, name in names(each)]
    assert len(given_devices) == len(set(given_devices))
    assert not set(given_devices) & set(in_use)
    for claim, allocation in zip(claims, found, strict=True):
        if claim["spec"]["devices"].get("constraints"):
            assert len({json.dumps(devices[name]["attributes"]["numa"]) for _, name in names(allocation)}) == 1


def _first_solution(claims: list[JSON], devices: list[JSON], in_use: list[str]) -> list[list[tuple[str, str]]] | None:
    """The first full solution in the order of the real search, which tries each device for each place."""
    flat = [(index, each) for index, claim in enumerate(claims) for each in claim["spec"]["devices"]["requests"]]

    def search(place: int, chosen: list[tuple[int, str, JSON]]) -> list[tuple[int, str, JSON]] | None:
        if place == len(flat):
            return chosen
        index, wanted = flat[place]
        options = [(f"{wanted['name']}/{each['name']}", each) for each in wanted.get("firstAvailable", ())]
        for name, option in options or [(wanted["name"], wanted["exactly"])]:
            least = int(option["selectors"][0]["cel"]["expression"].rpartition(" ")[2])
            if (found := fill(place, chosen, index, name, option["count"], least)) is not None:
                return found
        return None

    def fill(
        place: int, chosen: list[tuple[int, str, JSON]], claim: int, name: str, left: int, least: int
    ) -> list[tuple[int, str, JSON]] | None:
        if left == 0:
            return search(place + 1, chosen)
        for each in devices:
            taken = [other for _, _, other in chosen]
            if each in taken or each["name"] in in_use or each["attributes"]["index"]["int"] < least:
                continue
            others = [other for index, _, other in chosen if index == claim]
            is_bound = bool(claims[claim]["spec"]["devices"].get("constraints"))
            if is_bound and any(other["attributes"]["numa"] != each["attributes"]["numa"] for other in others):
                continue
            found = fill(place, [*chosen, (claim, name, each)], claim, name, left - 1, least)
            if found is not None:
                return found
        return None

    solution = search(0, [])
    if solution is None:
        return None
    return [[(name, each["name"]) for of, name, each in solution if of == index] for index in range(len(claims))]


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
