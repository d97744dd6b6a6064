"""Random searches of the allocator: slices of a node, what is allocated of them, and the claims of a pod.

There are few values of each kind, so that requests compete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from simkubelet.cluster.objects.objects import JSON
from simkubelet.model.version import Version
from tests.support.device_claims import DRIVER, alternative, claim_for, device, request, slice_of

__all__ = ["DRIVERS", "searches"]

DRIVERS = (DRIVER, "nic.example.com")
_CLASSES: dict[str, JSON] = {
    "gpu": {
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
            "config": [{"opaque": {"driver": DRIVER, "parameters": {"of": "class"}}}],
        },
    },
    "any": {"metadata": {"name": "any"}, "spec": {}},
}
_NODE = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}}
_TAINT = {"key": "example.com/xid", "value": "79"}
_SELECTORS = (
    f'device.attributes["{DRIVER}"].?index.orValue(0) > 0',
    'device.capacity["x"].?memory.hasValue()',
    "true",
)
_SETS = ("set-0", "set-1")
_ATTRIBUTE = "example.com/numa"

numbers = st.integers(0, 2)
units = st.sampled_from(["1", "1", "2"])
rarely = st.sampled_from([True] + [False] * 11)


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([usual] * 3 + [*others])


@st.composite
def searches(draw: st.DrawFn, release: Version) -> JSON:
    """The arguments of a search; before 1.36 there is one pool, as the order of several is that of a Go map."""
    is_new = release >= Version(36, 0)
    slices: list[JSON] = []
    for driver in DRIVERS[: 2 if is_new and draw(st.booleans()) else 1]:
        slices += draw(pools(driver, has_counters=is_new))
    named = [
        {"driver": each["spec"]["driver"], "pool": each["spec"]["pool"]["name"], "device": one["name"]}
        for each in slices
        for one in each["spec"].get("devices", ())
    ]
    of_many = [bool(one.get("allowMultipleAllocations")) for each in slices for one in each["spec"].get("devices", ())]
    is_in_use = draw(st.sampled_from([mostly(False, True), st.booleans()]))
    chosen = [(one, is_shared) for one, is_shared in zip(named, of_many, strict=True) if draw(is_in_use)]
    names = [f"c{number}" for number in range(draw(st.integers(1, 2)))]
    is_modest = draw(st.booleans())
    return {
        "claims": [draw(modest_claims(name) if is_modest else claims(name, has_capacity=is_new)) for name in names],
        "classes": _CLASSES,
        "slices": slices,
        "node": _NODE,
        "allocated": [one for one, is_shared in chosen if not is_shared],
        "shares": [
            {**one, "consumed": {"memory": draw(st.sampled_from(["1Gi", "2Gi"]))}}
            for one, is_shared in chosen
            if is_shared
        ],
    }


@st.composite
def pools(draw: st.DrawFn, driver: str, *, has_counters: bool) -> list[JSON]:
    """The slices of one pool: one or two with devices, some of another node, and one with counters.

    With counters also come devices that choose their nodes themselves: both are from 1.36 on.
    """
    devices = [draw(devices_of(f"d{number}", has_counters=has_counters)) for number in range(draw(st.integers(1, 6)))]
    if draw(rarely):
        devices.append(devices[0])
    middle = draw(st.integers(0, len(devices)))
    parts = [part for part in (devices[:middle], devices[middle:]) if part]
    count = len(parts) + has_counters + draw(rarely)
    common: JSON = {"driver": driver, "pool": "node-1", "count": count}
    first = slice_of(parts[0], f"{driver}-0", **common)
    if has_counters and draw(mostly(True, False)):
        first = draw(slices_of(parts[0], f"{driver}-0", common, may_be_split=True))
    others = [
        draw(slices_of(part, f"{driver}-{place}", common, may_be_split=has_counters))
        for place, part in enumerate(parts[1:], 1)
    ]
    found = [first, *others]
    if draw(rarely):
        found[-1]["spec"]["pool"]["generation"] = 2
    if has_counters:
        counters = draw(slices_of([], f"{driver}-counters", common, may_be_split=True))
        del counters["spec"]["devices"]
        counters["spec"]["sharedCounters"] = [counter_set(name, draw(st.integers(2, 4))) for name in _SETS]
        if draw(rarely):
            counters["spec"]["sharedCounters"].pop()
        found.insert(0, counters)
    return found


@st.composite
def slices_of(draw: st.DrawFn, devices: list[JSON], name: str, common: JSON, *, may_be_split: bool) -> JSON:
    """A slice for some nodes, or one whose devices are each for some."""
    if may_be_split and draw(st.booleans()):
        own = [{**one, **draw(selections)} for one in devices]
        return slice_of(own, name, None, **common, perDeviceNodeSelection=True)
    return slice_of(devices, name, None, **common, **draw(selections))


def selector(part: str, key: str, operator: str, *values: str) -> JSON:
    requirement = {"key": key, "operator": operator, **({"values": [*values]} if values else {})}
    return {"nodeSelector": {"nodeSelectorTerms": [{part: [requirement]}]}}


_ELSEWHERE = ({"nodeName": "node-2"}, selector("matchExpressions", "zone", "In", "b"))
_HERE = (
    {"nodeName": "node-1"},
    {"allNodes": True},
    selector("matchExpressions", "zone", "Exists"),
    selector("matchExpressions", "zone", "In", "b", "a"),
    selector("matchFields", "metadata.name", "In", "node-1"),
)
selections: st.SearchStrategy[JSON] = st.sampled_from([*_HERE, *_ELSEWHERE, *_ELSEWHERE])


def counter_set(name: str, units: int) -> JSON:
    return {"name": name, "counters": {"units": {"value": str(units)}, "lanes": {"value": "3"}}}


@st.composite
def devices_of(draw: st.DrawFn, name: str, *, has_counters: bool) -> JSON:
    attributes: JSON = {"index": draw(numbers)}
    if not draw(rarely):
        attributes[_ATTRIBUTE] = draw(st.sampled_from([0, 1, 2, "0", True, {"version": "1.0.0"}]))
    body = device(name, **attributes)
    if has_counters:
        if draw(mostly(False, True)):
            body["taints"] = [{**_TAINT, "effect": draw(st.sampled_from(["NoSchedule", "NoExecute", "None"]))}]
        if draw(mostly(True, False)):
            names = draw(st.lists(st.sampled_from(_SETS), min_size=1, unique=True))
            body["consumesCounters"] = [
                {"counterSet": name, "counters": {draw(st.sampled_from(["units", "lanes"])): {"value": draw(units)}}}
                for name in names
            ]
        body |= draw(capacities)
        body |= draw(mostly({}, {"bindingConditions": ["example.com/ready"], "bindsToNode": draw(st.booleans())}))
        if "bindingConditions" in body and draw(st.booleans()):
            body["bindingFailureConditions"] = ["example.com/failed"]
    return body


POLICIES: tuple[JSON, ...] = (
    {},
    {"default": "1Gi", "validValues": ["1Gi", "2Gi", "3Gi"]},
    {"default": "1Gi", "validRange": {"min": "1Gi"}},
    {"default": "1Gi", "validRange": {"min": "1Gi", "max": "2Gi"}},
    {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}},
)
capacities: st.SearchStrategy[JSON] = st.builds(
    lambda value, policy, is_shared, others: {
        "capacity": {
            "memory": {"value": value, **({"requestPolicy": policy} if policy and is_shared else {})},
            **others,
        },
        **({"allowMultipleAllocations": True} if is_shared else {}),
    },
    st.sampled_from(["4Gi", "2Gi"]),
    st.sampled_from(POLICIES),
    st.booleans(),
    st.sampled_from([{}, {}, {"lanes": {"value": "10"}}]),
)


@st.composite
def modest_claims(draw: st.DrawFn, name: str) -> JSON:
    """A claim that most pools can serve: most of `claims` end without devices."""
    wanted: JSON = {"deviceClassName": "any", "tolerations": [{"operator": "Exists"}]}
    wanted |= draw(st.sampled_from([{"count": 1}, {"count": 2}, {"allocationMode": "All", "count": 0}]))
    return claim_for(request("r0", **wanted), name=name)


@st.composite
def claims(draw: st.DrawFn, name: str, *, has_capacity: bool) -> JSON:
    requests = [draw(requests_of(f"r{place}", has_capacity=has_capacity)) for place in range(draw(st.integers(1, 3)))]
    kinds = draw(st.lists(st.sampled_from(["matchAttribute", "distinctAttribute"]), max_size=2))
    constraints = [{kind: _ATTRIBUTE, **draw(concerned(requests))} for kind in kinds]
    opaque = {"driver": DRIVER, "parameters": {"of": name}}
    config = [{"opaque": opaque, **draw(concerned(requests))} for _ in range(draw(st.integers(0, 2)))]
    parts = {"constraints": constraints, "config": config}
    return claim_for(*requests, name=name, **{key: value for key, value in parts.items() if value})


def concerned(requests: Sequence[JSON]) -> st.SearchStrategy[JSON]:
    """The part ``requests`` of a constraint or a configuration; none where it is for all."""
    names = [each["name"] for each in requests]
    names += [f"{each['name']}/{one['name']}" for each in requests for one in each.get("firstAvailable", ())]
    some = st.lists(st.sampled_from(names), min_size=1, unique=True).map(lambda names: {"requests": names})
    return st.one_of(st.just({}), some)


@st.composite
def requests_of(draw: st.DrawFn, name: str, *, has_capacity: bool) -> JSON:
    if draw(mostly(False, True)):
        options = [alternative(each, **draw(wanted(is_part=True, has_capacity=has_capacity))) for each in ("x", "y")]
        return {"name": name, "firstAvailable": options}
    return request(name, **draw(wanted(is_part=False, has_capacity=has_capacity)))


@st.composite
def wanted(draw: st.DrawFn, *, is_part: bool, has_capacity: bool) -> JSON:
    found: JSON = {"deviceClassName": draw(mostly("any", "gpu")), "count": draw(st.sampled_from([1, 1, 2, 3, 20]))}
    if draw(rarely):
        found["count"] = 40
    if draw(mostly(False, True)):
        del found["count"]
        found = {"allocationMode": "All", "count": 0, **found}
    if draw(mostly(False, True)):
        expression = (
            f'device.attributes["{DRIVER}"].serial == "x"' if draw(rarely) else draw(st.sampled_from(_SELECTORS))
        )
        found["selectors"] = [{"cel": {"expression": expression}}]
    if has_capacity and draw(mostly(False, True)):
        asked = {"memory": draw(st.sampled_from(["1Gi", "1500Mi", "2Gi", "3Gi", "8Gi", "512Mi"]))}
        found["capacity"] = {"requests": {**asked, **({"lanes": "4"} if draw(rarely) else {})}}
    if not is_part and draw(rarely):
        found["adminAccess"] = True
    if draw(mostly(False, True)):
        found["tolerations"] = [draw(st.sampled_from([{"operator": "Exists"}, {**_TAINT, "effect": "NoSchedule"}]))]
    return found
