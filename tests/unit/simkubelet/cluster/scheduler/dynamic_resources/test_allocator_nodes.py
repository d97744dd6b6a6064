"""Which devices a node reaches where these choose their nodes themselves, and on which nodes a claim can be used then.

`tests/oracle` compares random searches of such devices with the real allocators.
"""

from __future__ import annotations

from typing import Any

import pytest

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import InvalidPoolsError
from simkubelet.cluster.scheduler.dynamic_resources.pools import Slices, gather_pools
from simkubelet.cluster.scheduler.dynamic_resources.requests import AllocatorError
from simkubelet.model.version import version
from tests.support.device_claims import DRIVER, allocate, claim_for, device, names, request, slice_of

HERE: JSON = {"nodeName": "node-1"}
ELSEWHERE: JSON = {"nodeName": "node-2"}
EVERYWHERE: JSON = {"allNodes": True}
HAS_ZONE: JSON = {"key": "zone", "operator": "Exists"}
IN_A: JSON = {"key": "zone", "operator": "In", "values": ["a"]}


def where(*requirements: JSON) -> JSON:
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [*requirements]}]}}


def split(*places: JSON, name: str = "slice", **parts: Any) -> JSON:
    """A slice whose devices d0, d1, … are for these nodes."""
    devices = [{**device(f"d{number}"), **place} for number, place in enumerate(places)]
    return slice_of(devices, name, None, **{"pool": "node-1", "perDeviceNodeSelection": True, **parts})


def counters(**parts: Any) -> JSON:
    """A slice with counters of which two devices can be used."""
    body = slice_of([], "counters", None, pool="node-1", count=2, **parts)
    del body["spec"]["devices"]
    body["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"units": {"value": "2"}}}]
    return body


def consuming(place: JSON) -> JSON:
    return {**place, "consumesCounters": [{"counterSet": "gpu", "counters": {"units": {"value": "1"}}}]}


def count(number: int) -> JSON:
    return claim_for(request("r", count=number))


@pytest.mark.parametrize("release", ["1.36", "1.37"])
@pytest.mark.parametrize(
    ("place", "is_reached"),
    [
        pytest.param(HERE, True, id="this node"),
        pytest.param(ELSEWHERE, False, id="another node"),
        pytest.param(EVERYWHERE, True, id="all nodes"),
        pytest.param(where(IN_A), True, id="labels of this node"),
        pytest.param(where({**IN_A, "values": ["b"]}), False, id="labels of others"),
        pytest.param({}, False, id="nothing that is known"),
    ],
)
def test_node_gets_the_devices_that_name_it(release: str, place: JSON, is_reached: bool) -> None:
    found = allocate([claim_for(request("r"))], [split(ELSEWHERE, place)], release=release, zone="a")

    assert (found and names(found[0])) == ([("r", "d1")] if is_reached else None)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        pytest.param([EVERYWHERE, EVERYWHERE], None, id="all nodes"),
        pytest.param([where(HAS_ZONE), EVERYWHERE], [HAS_ZONE], id="those of a selector"),
        pytest.param([where(HAS_ZONE, IN_A), where(IN_A)], [HAS_ZONE, IN_A], id="those of both selectors"),
    ],
)
def test_claim_is_for_the_nodes_that_reach_all_its_devices(places: list[JSON], expected: list[JSON] | None) -> None:
    found = allocate([count(2)], [split(*places)], release="1.36", zone="a")

    assert found is not None
    selector = None if expected is None else {"nodeSelectorTerms": [{"matchExpressions": expected}]}
    assert found[0].get("nodeSelector") == selector


def test_device_of_one_node_ties_a_claim_to_it() -> None:
    found = allocate([count(2)], [split(where(HAS_ZONE), HERE)], release="1.36", zone="a")

    assert found is not None
    (term,) = found[0]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}


def test_selectors_of_devices_and_slices_are_merged() -> None:
    whole = slice_of([device("e0")], "other", None, pool="node-1", count=2, **where(HAS_ZONE))

    found = allocate([count(2)], [split(where(IN_A), count=2), whole], release="1.36", zone="a")

    assert found is not None
    assert found[0]["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": [HAS_ZONE, IN_A]}]}


def test_all_devices_are_those_of_the_node() -> None:
    claim = claim_for(request("r", allocationMode="All"))

    found = allocate([claim], [split(ELSEWHERE, HERE, EVERYWHERE)], release="1.36")

    assert found is not None
    assert names(found[0]) == [("r", "d1"), ("r", "d2")]


def test_selector_may_fail_for_a_device_of_another_node() -> None:
    slices = [split(ELSEWHERE, HERE)]
    slices[0]["spec"]["devices"][1] |= device("d1", index=1)

    with pytest.raises(AllocatorError, match="no such key: index"):
        allocate([claim_for(request("r", f'device.attributes["{DRIVER}"].index == 1'))], slices, release="1.36")


@pytest.mark.parametrize(("allocated", "is_left"), [(["d0"], True), (["d0", "d1"], False)])
def test_devices_of_other_nodes_use_counters(allocated: list[str], is_left: bool) -> None:
    devices = split(consuming(ELSEWHERE), consuming(ELSEWHERE), consuming(HERE), count=2)

    found = allocate([claim_for(request("r"))], [counters(**EVERYWHERE), devices], allocated, release="1.36")

    assert (found is not None) == is_left


def test_name_of_a_device_of_another_node_makes_a_pool_invalid() -> None:
    slices = [split(ELSEWHERE, HERE)]
    slices[0]["spec"]["devices"][0]["name"] = "d1"

    with pytest.raises(InvalidPoolsError):
        allocate([claim_for(request("r"))], slices, release="1.36")


@pytest.mark.parametrize("release", ["1.36", "1.37"])
@pytest.mark.parametrize("place", [EVERYWHERE, HERE, ELSEWHERE, {"perDeviceNodeSelection": True}])
def test_counters_serve_devices_of_any_node(release: str, place: JSON) -> None:
    devices = split(consuming(HERE), name="devices", count=2)

    assert allocate([claim_for(request("r"))], [counters(**place), devices], release=release) is not None


@pytest.mark.parametrize(("release", "pools"), [("1.36", ["node-1"]), ("1.37", [])])
@pytest.mark.parametrize("place", [ELSEWHERE, {"perDeviceNodeSelection": True}])
def test_node_has_the_pools_of_all_counters_until_1_36(release: str, pools: list[str], place: JSON) -> None:
    slices = Slices([counters(**place), split(ELSEWHERE, name="devices", count=2)])

    assert [pool.name for pool in gather_pools(slices, "node-1", {}, version(release))] == pools


def test_slices_go_when_they_are_removed() -> None:
    bodies = [split(HERE), counters(**HERE)]
    slices = Slices(bodies)

    for body in bodies:
        slices.remove(body)

    assert slices.for_node("node-1") == []
