"""Which devices claims get.

The recorded cases are answers of the real structured allocator (k8s.io/dynamic-resource-allocation v0.34.4).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkubelet.cluster.cel.values import ExhaustedError
from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import Allocator
from simkubelet.cluster.scheduler.dynamic_resources.pools import Slices
from simkubelet.cluster.scheduler.dynamic_resources.requests import AllocatorError
from simkubelet.model.version import version
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

RECORDED = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]
ON_NODE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}
INDEX = f'device.attributes["{DRIVER}"].index'


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
    ],
    ids=["other node", "other labels"],
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


def test_config_of_a_class_names_no_request_in_the_first_patches() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}
    device_class = {**CLASS, "spec": {**CLASS["spec"], "config": [opaque]}}

    found = allocate(
        [claim_for(request("a"), request("b"))], [slice_of(gpus(2))], classes=[device_class], release="1.34.1"
    )

    assert found is not None
    assert found[0]["devices"]["config"] == [{"source": "FromClass", **opaque}] * 2


def test_search_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simkubelet.cluster.scheduler.dynamic_resources.allocator._MOST_STEPS", 100)
    claim = claim_for(request("a", count=5), request("b", f"{INDEX} > 99"))

    with pytest.raises(ExhaustedError):
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
