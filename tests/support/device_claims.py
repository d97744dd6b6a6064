"""ResourceClaims, ResourceSlices and DeviceClasses in short, as the API has them, and what claims get of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.scheduler.dynamic_resources.allocator import Allocator
from simkubelet.cluster.scheduler.dynamic_resources.pools import DeviceID, Slices
from simkubelet.model.version import DEFAULT, version

DRIVER = "gpu.example.com"
CLASS: JSON = {
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}


def device(name: str, capacity: Mapping[str, str] | None = None, **attributes: Any) -> JSON:
    """A device; an attribute's value that is a mapping is taken as it is, such as ``{"version": "1.0.0"}``."""
    body: JSON = {"name": name}
    if attributes:
        body["attributes"] = {key: _value(value) for key, value in attributes.items()}
    if capacity:
        body["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return body


def slice_of(devices: Iterable[JSON], name: str = "slice", node: str | None = "node-1", **parts: Any) -> JSON:
    """A ResourceSlice.

    Args:
        devices: its devices.
        name: its name.
        node: ``spec.nodeName``; None where `parts` say which nodes it is for.
        parts: other fields of the spec; of the pool ``pool``, ``generation`` and ``count``.
    """
    pool = {
        "name": parts.pop("pool", node or "shared"),
        "generation": parts.pop("generation", 1),
        "resourceSliceCount": parts.pop("count", 1),
    }
    spec = {"driver": DRIVER, "pool": pool, "devices": list(devices), **parts}
    return {"metadata": {"name": name}, "spec": spec if node is None else {**spec, "nodeName": node}}


def request(name: str = "req", *selectors: str, **exactly: Any) -> JSON:
    """A request of `CLASS`; `exactly` are its other fields."""
    return {"name": name, "exactly": {**_wanted(selectors), **exactly}}


def alternative(name: str, *selectors: str, **parts: Any) -> JSON:
    """One entry of ``firstAvailable``."""
    return {"name": name, **_wanted(selectors), **parts}


def claim_for(*requests: JSON, name: str = "claim", **devices: Any) -> JSON:
    """A ResourceClaim; `devices` are constraints and config."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}"}
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests), **devices}}}


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


def _wanted(selectors: Iterable[str]) -> JSON:
    body: JSON = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    expressions = [{"cel": {"expression": each}} for each in selectors]
    return {**body, "selectors": expressions} if expressions else body


def _value(value: Any) -> JSON:
    match value:
        case dict():
            return value
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
    return {"string": value}
