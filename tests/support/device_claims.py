"""ResourceClaims, ResourceSlices and DeviceClasses in short, as the API has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simkubelet.cluster.objects.objects import JSON

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
