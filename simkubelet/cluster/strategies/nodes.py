"""The rules of nodes.

Source: pkg/registry/core/node/strategy.go; pkg/apis/core/validation/validation.go, ``ValidateNode``,
``ValidateNodeUpdate``; plugin/pkg/admission/nodetaint/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Final

from ..api.errors import FieldError
from ..api.registry.names import is_label_value, is_qualified_name
from ..api.registry.registry import Strategy, keep_status
from ..objects.objects import JSON
from .container_validation import canonical_amounts, validate_amounts
from .pod_validation import validate_taint_effect

__all__ = ["NodeStrategy"]

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_AMOUNTS: Final = ("capacity", "allocatable")
_CIDR_RULE: Final = 'node updates may not change podCIDR except from "" to valid'
_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_PROVIDER_RULE: Final = 'node updates may not change providerID except from "" to valid'


class NodeStrategy(Strategy):
    """What is filled into nodes, and what of them is refused."""

    def default(self, new: JSON) -> None:
        status = new.setdefault("status", {})
        spec = new.setdefault("spec", {})
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        for name in _AMOUNTS:
            if status.get(name):
                status[name] = canonical_amounts(status[name], "Node")
        if "allocatable" not in status and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_for_create(self, new: JSON) -> None:
        taints = new["spec"].get("taints") or []
        if not any(each.get("key") == _NOT_READY["key"] and each.get("effect") == "NoSchedule" for each in taints):
            new["spec"]["taints"] = [*taints, dict(_NOT_READY)]

    def validate(self, new: JSON) -> list[FieldError]:
        return [
            *_validate_taints(new["spec"].get("taints") or ()),
            *_validate_resources(new),
            *_validate_ranges(new["spec"].get("podCIDRs") or ()),
        ]

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return [*self.validate(new), *_validate_settled(new, old)]

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes of the spec; labels and annotations may be written along with the status."""
        new["spec"] = copy.deepcopy(old["spec"])

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = [*_validate_resources(new), *_validate_settled(new, old)]
        addresses = new["status"].get("addresses") or []
        for place, address in enumerate(addresses):
            if address in addresses[:place]:
                shown = {"Type": address.get("type") or "", "Address": address.get("address") or ""}
                errors.append(FieldError.duplicate(f"status.addresses[{place}]", shown))
        return errors


def _validate_resources(node: JSON) -> list[FieldError]:
    status = node["status"]
    return [error for name in _AMOUNTS for error in validate_amounts(status.get(name) or {}, f"status.{name}")]


def _validate_taints(taints: Sequence[JSON]) -> list[FieldError]:
    errors, known = [], set()
    for place, taint in enumerate(taints):
        # The path is the real one's: it starts from the metadata. So is the duplicate, with the names of Go's fields.
        where = f"metadata.taints[{place}]"
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += [FieldError.invalid(f"{where}.key", key, fault) for fault in is_qualified_name(key)]
        if faults := is_label_value(value):
            errors.append(FieldError.invalid(f"{where}.value", value, ";".join(faults)))
        errors += validate_taint_effect(effect, f"{where}.effect")
        if (key, effect) in known:
            text = "taints must be unique by key and effect pair"
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(FieldError("FieldValueDuplicate", where, shown, text))
        known.add((key, effect))
    return errors


def _validate_ranges(ranges: Sequence[str]) -> list[FieldError]:
    errors = []
    for place, each in enumerate(ranges):
        try:
            ip_network(each, strict=False)
        except ValueError:
            errors.append(FieldError.invalid(f"spec.podCIDRs[{place}]", each, _NO_RANGE))
    return errors


def _validate_settled(new: JSON, old: JSON) -> list[FieldError]:
    errors = []
    before = old["spec"].get("podCIDRs")
    if before and new["spec"].get("podCIDRs") != before:
        errors.append(FieldError.forbidden("spec.podCIDRs", _CIDR_RULE))
    provider = old["spec"].get("providerID")
    if provider and new["spec"].get("providerID") != provider:
        errors.append(FieldError.forbidden("spec.providerID", _PROVIDER_RULE))
    return errors
