"""What DeviceTaintRules say about devices: a rule adds its taint to those that its selector names.

Source: k8s.io/dynamic-resource-allocation v0.37.2, resourceslice/tracker/tracker.go, ``applyPatches``;
pkg/controller/devicetainteviction/device_taint_eviction.go, ``ruleMatchesDevice`` (kubernetes v1.37.2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from .objects import JSON

__all__ = ["TAINT_RULES", "is_selected", "tainted"]

TAINT_RULES: Final = "devicetaintrules.resource.k8s.io"


def is_selected(rule: Mapping[str, Any], device: Mapping[str, str]) -> bool:
    """Whether a rule is about a device, given by ``driver``, ``pool`` and ``device``; without a selector about none."""
    selector = rule["spec"].get("deviceSelector")
    return selector is not None and all(selector.get(part, name) == name for part, name in device.items())


def tainted(body: JSON, rules: Collection[Mapping[str, Any]]) -> JSON:
    """A ResourceSlice whose devices have the taints of rules, too; itself where they have none.

    The real order of the rules is that of a Go map.
    """
    spec = body["spec"]
    added = [list(_added(spec, device, rules)) for device in spec.get("devices") or ()]
    if not any(added):
        return body
    devices = [
        {**device, "taints": [*(device.get("taints") or ()), *taints]} if taints else device
        for device, taints in zip(spec["devices"], added, strict=True)
    ]
    return {**body, "spec": {**spec, "devices": devices}}


def _added(spec: JSON, device: JSON, rules: Iterable[Mapping[str, Any]]) -> Iterable[JSON]:
    named = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
    return (rule["spec"]["taint"] for rule in rules if is_selected(rule, named))
