"""The rules of nodes.

Source: pkg/registry/core/node/strategy.go; pkg/apis/core/validation/validation.go, ``ValidateNode``,
``ValidateNodeUpdate``; pkg/apis/core/v1/conversion.go, ``Convert_v1_NodeSpec_To_core_NodeSpec``;
plugin/pkg/admission/nodetaint/admission.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Final

from ...golang.text import quoted
from ...model.version import Difference, Version
from ..api.errors import FieldError
from ..api.registry.names import is_label_value, is_qualified_name
from ..api.registry.strategy import Strategy, keep_status
from ..objects.objects import JSON
from .pod.checks import PodRules, cidr_errors, cidr_version, duplicate_errors
from .pod.defaults import canonical_amounts
from .pod.network import EXPLAINS_IPS, NAMES_PLACE
from .pod.resources import validate_amounts
from .pod.scheduling import validate_taint_effect
from .rules import Rules

__all__ = ["NodeStrategy"]

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_AMOUNTS: Final = ("capacity", "allocatable")
_HAS_HANDLERS: Final = Difference(
    "the API server keeps the runtime handlers of a node",
    {"1.26": False, "1.31": True},
    "pkg/registry/core/node/strategy.go, ``dropDisabledFields``; pkg/features/kube_features.go, "
    "``RecursiveReadOnlyMounts`` (kubernetes v1.30.14, v1.31.14)",
)
_HAS_FEATURES: Final = Difference(
    "the API server keeps the features of a node's container runtime",
    {"1.26": False, "1.33": True},
    "pkg/registry/core/node/strategy.go, ``dropDisabledFields``; pkg/features/kube_features.go, "
    "``SupplementalGroupsPolicy`` (kubernetes v1.32.13, v1.33.13)",
)
_HAS_DECLARED: Final = Difference(
    "the API server keeps the features that a new node declares",
    {"1.26": False, "1.36": True},
    "pkg/registry/core/node/strategy.go, ``dropDisabledFields``; pkg/features/kube_features.go, "
    "``NodeDeclaredFeatures`` (kubernetes v1.35.8, v1.36.5)",
)
_PROVIDER_IS_DECLARED: Final = Difference(
    "a node's provider id is immutable by its declaration, with other words for who changes it",
    {"1.26": False, "1.37": True},
    "pkg/apis/core/validation/validation.go, ``ValidateNodeUpdate`` (kubernetes v1.36.5, v1.37.2)",
)
_FEATURE: Final = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_FEATURE_RULE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_LONGEST_FEATURE: Final = 253
_CIDR_RULE: Final = 'node updates may not change podCIDR except from "" to valid'
_FAMILIES_RULE: Final = "may specify no more than one CIDR for each IP family"
_PROVIDER_RULE: Final = 'node updates may not change providerID except from "" to valid'


class NodeStrategy(Strategy):
    """What is filled into nodes, and what of them an API server refuses."""

    validates_alone = True

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def default(self, new: JSON) -> None:
        status = new.setdefault("status", {})
        spec = new.setdefault("spec", {})
        ranges = spec.get("podCIDRs") or []
        # The older field decides where both are there, and follows the newer one where it is missing.
        if (first := spec.get("podCIDR")) and first not in ranges[:1]:
            spec["podCIDRs"] = [first]
        elif ranges:
            spec["podCIDR"] = ranges[0]
        for name in _AMOUNTS:
            if status.get(name):
                status[name] = canonical_amounts(status[name], "Node")
        if "allocatable" not in status and status.get("capacity"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_for_create(self, new: JSON) -> None:
        self._drop(new)
        self.admit(new)

    def _drop(self, new: JSON) -> None:
        """Drop what no node has had since its configuration could be in a ConfigMap, and fields of later releases."""
        new["spec"].pop("configSource", None)
        new["status"].pop("config", None)
        if not self._rules.of(_HAS_HANDLERS):
            new["status"].pop("runtimeHandlers", None)
        if not self._rules.of(_HAS_FEATURES):
            new["status"].pop("features", None)
        if not self._rules.of(_HAS_DECLARED):
            new["status"].pop("declaredFeatures", None)
        # Its gate is off by default in all releases that have it.
        new["spec"].pop("podPreemptionPolicy", None)

    def admit(self, new: JSON) -> None:
        """Taint a new node as one that is not ready, as an admission plugin does."""
        taints = new["spec"].get("taints") or []
        if not any(each.get("key") == _NOT_READY["key"] and each.get("effect") == "NoSchedule" for each in taints):
            new["spec"]["taints"] = [*taints, dict(_NOT_READY)]

    def validate(self, new: JSON) -> list[FieldError]:
        return [
            *_validate_taints(new["spec"].get("taints") or (), self._rules.release),
            *_validate_resources(new),
            *_validate_swap(new),
            *_validate_declared(new),
            *_validate_ranges(PodRules(self._rules), new["spec"].get("podCIDRs") or []),
        ]

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        self._drop(new)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return [
            *self.validate(new),
            *_validate_declared(new),
            *_validate_addresses(new),
            *self._validate_settled(new, old),
        ]

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back the changes of the spec; labels and annotations may be written along with the status."""
        new["spec"] = copy.deepcopy(old["spec"])
        new["status"].pop("config", None)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return [
            *_validate_resources(new),
            *_validate_declared(new),
            *_validate_addresses(new),
            *self._validate_settled(new, old),
            *_validate_taints(new["spec"].get("taints") or (), self._rules.release),
        ]

    def _validate_settled(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = []
        now, before = new["spec"], old["spec"]
        if (ranges := before.get("podCIDRs")) and now.get("podCIDRs") != ranges:
            errors.append(FieldError.forbidden("spec.podCIDRs", _CIDR_RULE))
        provider = now.get("providerID") or ""
        if before.get("providerID") and provider != before["providerID"]:
            path = "spec.providerID"
            if not self._rules.of(_PROVIDER_IS_DECLARED):
                errors.append(FieldError.forbidden(path, _PROVIDER_RULE))
            else:
                done = "modified" if provider else "cleared"
                errors.append(FieldError.invalid(path, None, f"field cannot be {done} once set"))
        if (now.get("externalID") or "") != (before.get("externalID") or ""):
            errors.append(FieldError.forbidden("spec.externalID", "may not be updated"))
        return errors


def _validate_resources(node: JSON) -> list[FieldError]:
    status = node["status"]
    return [error for name in _AMOUNTS for error in validate_amounts(status.get(name) or {}, f"status.{name}")]


def _validate_swap(node: JSON) -> list[FieldError]:
    capacity = ((node["status"].get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is None or capacity > 0:
        return []
    # The path is the real one's.
    return [FieldError.invalid("metadata.nodeSwapStatus.capacity", capacity, "must be greater than zero")]


def _validate_declared(node: JSON) -> list[FieldError]:
    """What is wrong with the features that a node declares; those of releases that do not know any are dropped."""
    errors, before = [], None
    for place, name in enumerate(node["status"].get("declaredFeatures") or ()):
        where = f"status.declaredFeatures[{place}]"
        if name == before:
            errors.append(FieldError.duplicate(where, name))
        elif before is not None and name < before:
            errors.append(FieldError.invalid(where, name, "list must be sorted alphabetically"))
        if fault := _fault_of_feature(name):
            errors.append(FieldError.invalid(where, name, f"invalid feature name {quoted(name)}: {fault}"))
        before = name
    return errors


def _fault_of_feature(name: str) -> str:
    if len(name.encode()) > _LONGEST_FEATURE:
        return f"must be no more than {_LONGEST_FEATURE} characters"
    return "" if _FEATURE.fullmatch(name) else _FEATURE_RULE


def _validate_addresses(node: JSON) -> list[FieldError]:
    errors = []
    known: set[tuple[str, str]] = set()
    for place, one in enumerate(node["status"].get("addresses") or ()):
        kind, address = one.get("type") or "", one.get("address") or ""
        if (kind, address) in known:
            errors.append(FieldError.duplicate(f"status.addresses[{place}]", {"Type": kind, "Address": address}))
        known.add((kind, address))
    return errors


def _validate_taints(taints: Sequence[JSON], release: Version) -> list[FieldError]:
    errors, known = [], set()
    for place, taint in enumerate(taints):
        # The path is the real one's: it starts from the metadata. So is the duplicate, with the names of Go's fields.
        where = f"metadata.taints[{place}]"
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += [FieldError.invalid(f"{where}.key", key, fault) for fault in is_qualified_name(key, release)]
        if faults := is_label_value(value, release):
            errors.append(FieldError.invalid(f"{where}.value", value, ";".join(faults)))
        errors += validate_taint_effect(effect, f"{where}.effect")
        if (key, effect) in known:
            text = "taints must be unique by key and effect pair"
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            errors.append(FieldError("FieldValueDuplicate", where, shown, text))
        known.add((key, effect))
    return errors


def _validate_ranges(rules: PodRules, ranges: Sequence[str]) -> list[FieldError]:
    path = "spec.podCIDRs"
    errors = [error for i, each in enumerate(ranges) for error in cidr_errors(rules, each, f"{path}[{i}]")]
    if not rules.of(EXPLAINS_IPS):
        errors = [FieldError.invalid(error.path, list(ranges), "must be valid CIDR") for error in errors]
    if len(ranges) < 2:
        return errors
    versions = [cidr_version(each) for each in ranges]
    if None in versions:
        place = versions.index(None)
        found = f"invalid CIDR address: {ranges[place]}"
        if rules.of(NAMES_PLACE):
            found = f"invalid CIDR[{place}]: <nil> ({found})"
        else:
            found = f"failed to parse cidr value:{quoted(ranges[place])} with error:{found}"
        why = f"invalid PodCIDRs. failed to check with dual stack with error:{found}"
        errors.append(FieldError("InternalError", path, None, why))
    if len(ranges) > 2 or None in versions or len({*versions}) < 2:
        errors.append(FieldError.invalid(path, list(ranges), _FAMILIES_RULE))
    return errors + duplicate_errors(rules, ranges, path)
