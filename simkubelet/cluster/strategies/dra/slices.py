"""What an API server refuses in a ResourceSlice.

Source: pkg/apis/resource/validation/validation.go, ``validateResourceSliceSpec`` (kubernetes v1.34.4, v1.36.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from ....model.version import Difference
from ...api.errors import FieldError
from ..internal_form import internal
from ..pod.scheduling import validate_node_selector
from ..rules import Rules
from .capacity import validate_capacity
from .device_names import validate_driver_name, validate_label, validate_name, validate_pool_name, validate_subdomain
from .fields import (
    Check,
    Fields,
    validate_binding_conditions,
    validate_list,
    validate_map,
    validate_set,
    validate_skipped,
    validate_taint,
)
from .node_resources import validate_node_resources
from .partition_types import validate_partition_type

__all__ = ["validate_slice_spec"]

_DEVICES_AT_MOST: Final = 128
_ATTRIBUTES_AT_MOST: Final = 32
_TAINTS_AT_MOST: Final = 4
_LATER_TAINTS_AT_MOST: Final = 16
_DEVICE_COUNTERS_AT_MOST: Final = 32
_SLICE_COUNTERS_AT_MOST: Final = 1024
_SHARED_COUNTERS_AT_MOST: Final = 32
_ADVANCED_DEVICES_AT_MOST: Final = 64
_COUNTER_SETS_AT_MOST: Final = 8
_COUNTERS_OF_SET_AT_MOST: Final = 32
_COUNTER_SETS_OF_DEVICE_AT_MOST: Final = 2
_VALUE_AT_MOST: Final = 64
_VALUES_AT_MOST: Final = 48
_SCALARS: Final = ("int", "bool", "string", "version")
_LISTS: Final = ("bools", "ints", "strings", "versions")
_LONGEST_NAME: Final = 63 + 1 + 32
_LONGEST_LABEL: Final = 63
_COUNTERS_OF_POOL: Final = Difference(
    "shared counters are in slices of their own, for the devices of the whole pool; before, in that of the devices",
    {"1.26": False, "1.35": True},
    "pkg/apis/resource/validation/validation.go, ``validateResourceSliceSpec`` (kubernetes v1.34.4, v1.35.4)",
)
_OLD_CAPACITY_STAYS: Final = Difference(
    "an update may leave a device's capacity as it is, whatever is wrong with it",
    {"1.26": False, "1.37": True},
    "pkg/apis/resource/validation/validation.go, ``validateDevice`` (kubernetes v1.36.3, v1.37.2)",
)
_NO_VALUE_IS_MISSING: Final = Difference(
    "an attribute of a device without a value has a missing one, else a wrong one",
    {"1.26": True, "1.35": False},
    "pkg/apis/resource/validation/validation.go, ``validateDeviceAttribute`` (kubernetes v1.34.4, v1.35.4)",
)
_IMMUTABLE: Final = "field is immutable"
_NODES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_NODES_OF_DEVICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_NODES_OF_DEVICE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_NOT_FALSE: Final = "must be either unset or set to true"
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_PRE_RELEASE: Final = r"(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD: Final = "[0-9a-zA-Z-]+"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII
)


def validate_slice_spec(rules: Rules, spec: Fields, old: Fields | None, path: str) -> list[FieldError]:
    """What is wrong with a slice's spec; `old` is None where the slice is new."""
    errors = validate_driver_name(rules, spec.get("driver") or "", f"{path}.driver")
    errors += _validate_pool(spec.get("pool") or {}, f"{path}.pool")
    if old is not None:
        errors += _validate_settled(spec, old, path)
    errors += _validate_nodes(rules, spec, path)
    if rules.of(_COUNTERS_OF_POOL):
        return errors + _validate_parts_of_pool(rules, spec, old, path)
    errors += _validate_devices(rules, spec, f"{path}.devices")
    shared, where = spec.get("sharedCounters") or (), f"{path}.sharedCounters"
    if (count := _counters(shared)) > _SHARED_COUNTERS_AT_MOST:
        why = f"the total number of shared counters must not exceed {_SHARED_COUNTERS_AT_MOST}"
        errors.append(FieldError.invalid(where, count, why))
    return errors + _validate_named(rules, shared, -1, partial(_validate_counter_set, rules), where)


def _validate_parts_of_pool(rules: Rules, spec: Fields, old: Fields | None, path: str) -> list[FieldError]:
    """Devices, or the counters that they share; whether these are there is seen where devices are allocated."""
    errors = []
    devices: Sequence[Fields] = spec.get("devices") or ()
    if spec.get("devices") is not None and spec.get("sharedCounters") is not None:
        errors.append(FieldError.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    devices_at_most = _ADVANCED_DEVICES_AT_MOST if any(map(_is_advanced, devices)) else _DEVICES_AT_MOST
    errors += _validate_named(rules, devices, devices_at_most, _device_check(rules, spec, None, old), f"{path}.devices")
    shared, check_set = spec.get("sharedCounters"), partial(_validate_counter_set, rules)
    errors += _validate_named(rules, shared, _COUNTER_SETS_AT_MOST, check_set, f"{path}.sharedCounters")
    return [*errors, *validate_partition_type(rules, spec, path), *validate_skipped(spec, path)]


def _is_advanced(device: Fields) -> bool:
    """Whether a slice with such a device may have fewer of them."""
    has_lists = any(
        attribute.get(name) is not None for attribute in (device.get("attributes") or {}).values() for name in _LISTS
    )
    return bool(device.get("taints") or device.get("consumesCounters") or has_lists)


def _validate_named(
    rules: Rules, items: Sequence[Fields] | None, limit: int, check: Check[Fields], path: str
) -> list[FieldError]:
    """Items that each have a name of their own."""
    return validate_set(rules, items, limit, check, lambda one: str(one.get("name") or ""), path, "name")


def _device_check(rules: Rules, spec: Fields, shared: Mapping[str, Fields] | None, old: Fields | None) -> Check[Fields]:
    """What checks a device of a slice; see `_validate_device`."""
    before: dict[str, Fields] = {}
    for device in (old or {}).get("devices") or ():
        before.setdefault(device.get("name") or "", device)
    has_own_nodes = bool(spec.get("perDeviceNodeSelection"))
    return partial(_validate_device, rules, before, shared=shared, has_own_nodes=has_own_nodes)


def _validate_pool(pool: Fields, path: str) -> list[FieldError]:
    errors = validate_pool_name(pool.get("name") or "", f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(FieldError.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        why = "must be greater than or equal to zero"
        errors.append(FieldError.invalid(f"{path}.generation", generation, why))
    return errors


def _validate_settled(spec: Fields, old: Fields, path: str) -> list[FieldError]:
    new_pool, old_pool = spec.get("pool") or {}, old.get("pool") or {}
    values = (
        ("pool.name", new_pool.get("name") or "", old_pool.get("name") or ""),
        ("driver", spec.get("driver") or "", old.get("driver") or ""),
        ("nodeName", spec.get("nodeName"), old.get("nodeName")),
    )
    return [FieldError.invalid(f"{path}.{name}", new, _IMMUTABLE) for name, new, before in values if new != before]


def _validate_nodes(rules: Rules, spec: Fields, path: str) -> list[FieldError]:
    """Where the devices of a slice are: one of four fields says it."""
    node, selector = spec.get("nodeName"), spec.get("nodeSelector")
    errors, chosen = _validate_node_name(node, f"{path}.nodeName", "must be either unset or set to a non-empty string")
    if selector is not None:
        chosen.append("nodeSelector")
        errors += validate_node_selector(selector, f"{path}.nodeSelector", rules.release)
        terms = selector.get("nodeSelectorTerms") or ()
        if len(terms) != 1:
            shown = internal("NodeSelector", dict(selector), rules.release)["NodeSelectorTerms"]
            why = "must have exactly one node selector term"
            errors.append(FieldError.invalid(f"{path}.nodeSelector.nodeSelectorTerms", shown, why))
    for name in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(name):
            chosen.append(name)
        elif spec.get(name) is not None:
            errors.append(FieldError.invalid(f"{path}.{name}", False, _NOT_FALSE))
    return errors + _one_of(chosen, path, _NODES, f"{_NODES}, but multiple fields are set")


def _validate_node_name(name: str | None, path: str, empty: str) -> tuple[list[FieldError], list[str]]:
    """What is wrong with a node's name, and the name of its field where it counts as set."""
    if name is None:
        return [], []
    return (validate_subdomain(name, path), ["nodeName"]) if name else ([FieldError.invalid(path, name, empty)], [])


def _one_of(chosen: Sequence[str], path: str, none: str, several: str) -> list[FieldError]:
    if not chosen:
        return [FieldError.required(path, none)]
    shown = ", ".join(f"`{name}`" for name in chosen)
    return [FieldError.invalid(path, f"{{{shown}}}", several)] if len(chosen) > 1 else []


def _validate_devices(rules: Rules, spec: Fields, path: str) -> list[FieldError]:
    devices: Sequence[Fields] = spec.get("devices") or ()
    shared = {one.get("name") or "": one.get("counters") or {} for one in spec.get("sharedCounters") or ()}
    errors = _validate_named(rules, devices, _DEVICES_AT_MOST, _device_check(rules, spec, shared, None), path)
    count = sum(_counters(device.get("consumesCounters") or ()) for device in devices)
    if count > _SLICE_COUNTERS_AT_MOST:
        why = f"the total number of counters in devices must not exceed {_SLICE_COUNTERS_AT_MOST}"
        errors.append(FieldError.invalid(path, count, why))
    return errors


def _counters(sets: Sequence[Fields]) -> int:
    return sum(len(one.get("counters") or ()) for one in sets)


def _validate_device(
    rules: Rules,
    before: Mapping[str, Fields],
    device: Fields,
    path: str,
    *,
    shared: Mapping[str, Fields] | None,
    has_own_nodes: bool,
) -> list[FieldError]:
    """What is wrong with a device.

    Args:
        rules: of the server.
        before: the devices of the slice that is replaced, by name; parts that stay may be wrong.
        device: to be checked.
        path: of it.
        shared: the counters of the slice by set; None where they are in other slices of the pool.
        has_own_nodes: whether it says itself where it is.
    """
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors = validate_label(device.get("name") or "", f"{path}.name")
    if (count := len(attributes) + len(capacity)) > _ATTRIBUTES_AT_MOST:
        why = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_AT_MOST}"
        errors.append(FieldError.invalid(path, count, why))
    if (count := sum(map(_count_values, attributes.values()))) > _VALUES_AT_MOST:
        why = f"the total number of attribute values must not exceed {_VALUES_AT_MOST}"
        errors.append(FieldError.invalid(path, count, why))
    check_name = partial(validate_name, rules)
    check_attribute = partial(_validate_attribute, rules)
    errors += validate_map(rules, attributes, _LONGEST_NAME, check_name, check_attribute, f"{path}.attributes")
    is_shared = bool(device.get("allowMultipleAllocations"))
    old = before.get(device.get("name") or "")
    if old is None or (old.get("capacity") or {}) != capacity or not rules.of(_OLD_CAPACITY_STAYS):
        errors += validate_map(
            rules,
            capacity,
            _LONGEST_NAME,
            check_name,
            lambda one, at: validate_capacity(rules, one, at, is_shared=is_shared),
            f"{path}.capacity",
        )
    if old is None or (old.get("taints") or ()) != (device.get("taints") or ()):
        taints, limit = device.get("taints"), _TAINTS_AT_MOST if shared is not None else _LATER_TAINTS_AT_MOST
        errors += validate_list(rules, taints, limit, partial(validate_taint, rules), f"{path}.taints")
    errors += _validate_consumption(rules, device.get("consumesCounters") or (), path, shared)
    if has_own_nodes:
        errors += _validate_nodes_of_device(rules, device, path)
    elif any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes")):
        errors.append(FieldError.invalid(path, None, _NO_NODES_OF_DEVICE))
    return [
        *errors,
        *validate_binding_conditions(rules, device, path),
        *validate_node_resources(device, capacity, path),
    ]


def _count_values(attribute: Fields) -> int:
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _validate_attribute(rules: Rules, attribute: Fields, path: str) -> list[FieldError]:
    errors = []
    chosen = [name for name in (*_SCALARS, *_LISTS) if attribute.get(name) is not None]
    for name in ("string", "version"):
        if attribute.get(name) is not None:
            errors += _validate_text(attribute[name], f"{path}.{name}", is_version=name == "version")
    for name in ("strings", "versions"):
        for place, value in enumerate(attribute.get(name) or ()):
            errors += _validate_text(value, f"{path}.{name}[{place}]", is_version=name == "versions")
    why = "exactly one value must be specified"
    if not chosen:
        none = FieldError.required(path, why) if rules.of(_NO_VALUE_IS_MISSING) else FieldError.invalid(path, "", why)
        errors.append(none)
    if len(chosen) > 1:
        errors.append(FieldError.invalid(path, internal("DeviceAttribute", dict(attribute), rules.release), why))
    return errors


def _validate_text(value: str, path: str, *, is_version: bool) -> list[FieldError]:
    errors = []
    if is_version and not _VERSION.fullmatch(value):
        why = "must be a string compatible with semver.org spec 2.0.0"
        errors.append(FieldError.invalid(path, value, why))
    if len(value.encode()) > _VALUE_AT_MOST:
        errors.append(FieldError.too_long(path, _VALUE_AT_MOST))
    return errors


def _validate_consumption(
    rules: Rules, consumed: Sequence[Fields], path: str, shared: Mapping[str, Fields] | None
) -> list[FieldError]:
    """What a device takes of the counters that it shares with others."""
    where = f"{path}.consumesCounters"
    errors = validate_set(
        rules,
        consumed,
        -1 if shared is not None else _COUNTER_SETS_OF_DEVICE_AT_MOST,
        lambda one, at: [
            *_validate_set_name(one.get("counterSet") or "", f"{at}.counterSet", is_checked=shared is None),
            *_validate_counters(rules, one, at),
        ],
        lambda one: str(one.get("counterSet") or ""),
        where,
        "counterSet",
    )
    if shared is None:
        return errors
    if (count := _counters(consumed)) > _DEVICE_COUNTERS_AT_MOST:
        why = f"the total number of counters must not exceed {_DEVICE_COUNTERS_AT_MOST}"
        errors.append(FieldError.invalid(path, count, why))
    for place, one in enumerate(consumed):
        name, known = one.get("counterSet") or "", shared.get(one.get("counterSet") or "")
        if known is None:
            why = "must reference a counterSet defined in the ResourceSlice sharedCounters"
            errors.append(FieldError.invalid(f"{where}[{place}].counterSet", name, why))
            continue
        why = "must reference a counter defined in the ResourceSlice sharedCounters"
        errors += [
            FieldError.invalid(f"{where}[{place}].counters", counter, why)
            for counter in sorted(one.get("counters") or ())
            if counter not in known
        ]
    return errors


def _validate_set_name(name: str, path: str, *, is_checked: bool) -> list[FieldError]:
    if not name:
        return [FieldError.required(path)]
    return validate_label(name, path) if is_checked else []


def _validate_counter_set(rules: Rules, counters: Fields, path: str) -> list[FieldError]:
    errors = _validate_set_name(counters.get("name") or "", f"{path}.name", is_checked=True)
    return errors + _validate_counters(rules, counters, path)


def _validate_counters(rules: Rules, fields: Fields, path: str) -> list[FieldError]:
    counters, where = fields.get("counters") or {}, f"{path}.counters"
    if not counters:
        return [FieldError.required(where)]
    limit = _COUNTERS_OF_SET_AT_MOST if rules.of(_COUNTERS_OF_POOL) else -1
    return validate_map(rules, counters, _LONGEST_LABEL, validate_label, lambda counter, at: [], where, limit)


def _validate_nodes_of_device(rules: Rules, device: Fields, path: str) -> list[FieldError]:
    errors, chosen = _validate_node_name(device.get("nodeName"), f"{path}.nodeName", "must not be empty")
    if device.get("nodeSelector") is not None:
        chosen.append("nodeSelector")
        errors += validate_node_selector(device["nodeSelector"], f"{path}.nodeSelector", rules.release)
    if device.get("allNodes"):
        chosen.append("allNodes")
    elif device.get("allNodes") is not None:
        errors.append(FieldError.invalid(f"{path}.allNodes", False, _NOT_FALSE))
    return errors + _one_of(chosen, path, _NODES_OF_DEVICE, _NODES_OF_DEVICE)
