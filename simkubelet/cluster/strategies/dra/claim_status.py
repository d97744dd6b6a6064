"""What an API server refuses in the status of a ResourceClaim: its users, its allocation, the state of its devices.

Source: pkg/apis/resource/validation/validation.go, ``validateResourceClaimStatusUpdate``, ``validateDeviceStatus``,
``validateAllocationResult`` (kubernetes v1.34.4); apimachinery/pkg/apis/meta/v1/validation/validation.go,
``ValidateConditions``; pkg/util/validation/ip.go, ``IsValidInterfaceAddress`` (v0.34.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from ipaddress import IPv6Address, ip_interface
from typing import Final, TypeAlias

from ....golang.text import quoted
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.names import is_qualified_name
from ..internal_form import internal
from ..pod.scheduling import validate_node_selector
from ..rules import Rules
from .device_names import validate_driver_name, validate_label, validate_pool_name, validate_uid
from .fields import (
    CONFIGS_AT_MOST,
    Fields,
    validate_binding_conditions,
    validate_configuration,
    validate_list,
    validate_raw,
    validate_set,
    validate_skipped,
    validate_toleration,
)
from .requests import RequestNames, request_names, validate_request_name, validate_requests_of

__all__ = ["CONDITIONS_AT_MOST", "allocated_devices", "device_key", "validate_claim_status", "validate_conditions"]

_DeviceKey: TypeAlias = tuple[str, str, str, str]

_USERS_AT_MOST: Final = 256
_RESULTS_AT_MOST: Final = 32
CONDITIONS_AT_MOST: Final = 8
_DATA_AT_MOST: Final = 10 * 1024
_ADDRESSES_AT_MOST: Final = 16
_INTERFACE_AT_MOST: Final = 256
_HARDWARE_ADDRESS_AT_MOST: Final = 128
_REASON_AT_MOST: Final = 1024
_MESSAGE_AT_MOST: Final = 32 * 1024
_SOURCES: Final = ("FromClaim", "FromClass")
_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_RULE: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_NO_ADDRESS: Final = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_HIDDEN: Final[dict[str, object]] = {"Driver": {}, "Pool": {}, "Device": {}, "ShareID": {}}
"""How Go's JSON shows the key of a device where it does not reach the texts."""
_TOLERATIONS_COUNT: Final = Difference(
    "the tolerations of an allocated device are checked",
    {"1.26": False, "1.37": True},
    "pkg/apis/resource/validation/validation.go, ``validateDeviceRequestAllocationResult`` (v1.36.3, v1.37.2)",
)
_MISSING_IN_CONDITIONS: Final = Difference(
    "an empty type or status of a condition of a device is a missing value, and a repeated type is named by its place",
    {"1.26": False, "1.37": True},
    "apimachinery/pkg/apis/meta/v1/validation/validation.go, ``ValidateConditions`` (v0.36.3, v0.37.2)",
)
_KEYS_ARE_HIDDEN: Final = Difference(
    "a message about a device of a claim's status shows its driver, pool, name and share as `{}`",
    {"1.26": True, "1.35": False},
    "dynamic-resource-allocation/structured/internal/allocatedstate.go (v0.34.4); structured/schedulerapi (v0.35.4)",
)


def validate_claim_status(rules: Rules, new: Fields, old: Fields) -> list[FieldError]:
    """What is wrong with the status of a claim that has the spec of the old one."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocated = allocated_devices(status)
    return [
        *validate_set(
            rules,
            status.get("reservedFor"),
            _USERS_AT_MOST,
            _validate_user,
            lambda user: str(user.get("uid") or ""),
            "status.reservedFor",
            "uid",
        ),
        *validate_set(
            rules,
            status.get("devices"),
            -1,
            lambda device, at: _validate_device(rules, device, at, allocated),
            device_key,
            "status.devices",
            "deviceID",
            lambda device: _shown_key(rules, device),
        ),
        *_validate_reservation(status, before, is_deleted=bool(new["metadata"].get("deletionTimestamp"))),
        *_validate_allocation(
            rules, status.get("allocation"), before.get("allocation"), request_names(new.get("spec") or {})
        ),
    ]


def device_key(device: Fields) -> _DeviceKey:
    """What a result of an allocation and the state of a device have in common."""
    driver, pool, name, share = (str(device.get(field) or "") for field in ("driver", "pool", "device", "shareID"))
    return driver, pool, name, share


def _shown_key(rules: Rules, device: Fields) -> dict[str, object]:
    return _HIDDEN if rules.of(_KEYS_ARE_HIDDEN) else dict(zip(_HIDDEN, device_key(device), strict=True))


def allocated_devices(status: Fields) -> set[_DeviceKey]:
    """The keys of the devices that a claim has."""
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {device_key(result) for result in results}


def _validate_user(user: Fields, path: str) -> list[FieldError]:
    return [FieldError.required(f"{path}.{name}") for name in ("resource", "name", "uid") if not user.get(name)]


def _validate_reservation(status: Fields, before: Fields, *, is_deleted: bool) -> list[FieldError]:
    users, path = status.get("reservedFor") or (), "status.reservedFor"
    if users and status.get("allocation") is None:
        return [FieldError.forbidden(path, "may not be specified when `allocated` is not set")]
    if is_deleted and any(user not in (before.get("reservedFor") or ()) for user in users):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [FieldError.forbidden(path, why)]
    return []


def _validate_allocation(rules: Rules, new: Fields | None, old: Fields | None, names: RequestNames) -> list[FieldError]:
    path = "status.allocation"
    if new is None:
        return []
    if old is not None:
        is_same = new == old
        shown = internal("AllocationResult", dict(new), rules.release)
        return [] if is_same else [FieldError.invalid(path, shown, "field is immutable")]
    devices, selector = new.get("devices") or {}, new.get("nodeSelector")
    return [
        *validate_list(
            rules,
            devices.get("results"),
            _RESULTS_AT_MOST,
            lambda result, at: _validate_result(rules, result, at, names),
            f"{path}.devices.results",
        ),
        *validate_list(
            rules,
            devices.get("config"),
            2 * CONFIGS_AT_MOST,
            lambda config, at: [
                *_validate_source(config.get("source") or "", f"{at}.source"),
                *validate_requests_of(rules, config, at, names),
                *validate_configuration(rules, config, at, stored=False),
            ],
            f"{path}.devices.config",
        ),
        *([] if selector is None else validate_node_selector(selector, f"{path}.nodeSelector", rules.release)),
    ]


def _validate_result(rules: Rules, result: Fields, path: str, names: RequestNames) -> list[FieldError]:
    return [
        *validate_request_name(result.get("request") or "", f"{path}.request", names),
        *_validate_place(rules, result, path),
        *validate_binding_conditions(rules, result, path),
        *_validate_tolerations(rules, result, path),
        *_validate_share(result, path),
        *validate_skipped(result, path),
    ]


def _validate_tolerations(rules: Rules, result: Fields, path: str) -> list[FieldError]:
    if not rules.of(_TOLERATIONS_COUNT):
        return []
    return validate_list(
        rules, result.get("tolerations"), -1, partial(validate_toleration, rules), f"{path}.tolerations"
    )


def _validate_place(rules: Rules, device: Fields, path: str) -> list[FieldError]:
    return [
        *validate_driver_name(rules, device.get("driver") or "", f"{path}.driver"),
        *validate_pool_name(device.get("pool") or "", f"{path}.pool"),
        *validate_label(device.get("device") or "", f"{path}.device"),
    ]


def _validate_share(device: Fields, path: str) -> list[FieldError]:
    share = device.get("shareID")
    return [] if share is None else validate_uid(share, f"{path}.shareID")


def _validate_source(source: str, path: str) -> list[FieldError]:
    if not source:
        return [FieldError.required(path)]
    return [] if source in _SOURCES else [FieldError.not_supported(path, source, _SOURCES)]


def _validate_device(rules: Rules, device: Fields, path: str, allocated: Collection[_DeviceKey]) -> list[FieldError]:
    errors = [*_validate_place(rules, device, path), *_validate_share(device, path)]
    if device_key(device) not in allocated:
        errors.append(FieldError.invalid(path, _shown_key(rules, device), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or ()
    if len(conditions) > CONDITIONS_AT_MOST:
        errors.append(FieldError.too_many(f"{path}.conditions", len(conditions), CONDITIONS_AT_MOST))
    errors += validate_conditions(rules, conditions, f"{path}.conditions")
    if device.get("data") is not None:
        errors += validate_raw(device["data"], f"{path}.data", _DATA_AT_MOST)
    return errors + _validate_network(rules, device.get("networkData") or {}, f"{path}.networkData")


def validate_conditions(rules: Rules, conditions: Sequence[Fields], path: str) -> list[FieldError]:
    """Conditions of an object, as ``metav1.Condition`` has them."""
    errors: list[FieldError] = []
    known: set[str] = set()
    for place, condition in enumerate(conditions):
        where, kind = f"{path}[{place}]", condition.get("type") or ""
        has_place_only = rules.of(_MISSING_IN_CONDITIONS)
        if kind in known:
            errors.append(FieldError.duplicate(where if has_place_only else f"{where}.type", kind))
        known.add(kind)
        if not kind and has_place_only:
            errors.append(FieldError.required(f"{where}.type", "is required"))
        else:
            faults = is_qualified_name(kind, rules.release)
            errors += [FieldError.invalid(f"{where}.type", kind, fault) for fault in faults]
        errors += _validate_condition(rules, condition, where)
    return errors


def _validate_condition(rules: Rules, condition: Fields, path: str) -> list[FieldError]:
    errors = []
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    if not status and rules.of(_MISSING_IN_CONDITIONS):
        errors.append(FieldError.required(f"{path}.status"))
    elif status not in _STATUSES:
        errors.append(FieldError.not_supported(f"{path}.status", status, _STATUSES))
    if condition.get("observedGeneration", 0) < 0:
        seen = condition["observedGeneration"]
        errors.append(FieldError.invalid(f"{path}.observedGeneration", seen, "must be greater than or equal to zero"))
    if condition.get("lastTransitionTime") is None:
        errors.append(FieldError.required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(FieldError.required(f"{path}.reason"))
    elif not re.fullmatch(_REASON, reason):
        errors.append(FieldError.invalid(f"{path}.reason", reason, _REASON_RULE))
    for name, limit in (("reason", _REASON_AT_MOST), ("message", _MESSAGE_AT_MOST)):
        if len((condition.get(name) or "").encode()) > limit:
            errors.append(FieldError.too_long(f"{path}.{name}", limit))
    return errors


def _validate_network(rules: Rules, network: Fields, path: str) -> list[FieldError]:
    errors = [
        FieldError.too_long(f"{path}.{name}", limit)
        for name, limit in (("interfaceName", _INTERFACE_AT_MOST), ("hardwareAddress", _HARDWARE_ADDRESS_AT_MOST))
        if len((network.get(name) or "").encode()) > limit
    ]
    addresses = network.get("ips")
    return errors + validate_set(rules, addresses, _ADDRESSES_AT_MOST, _validate_address, str, f"{path}.ips")


def _validate_address(address: str, path: str) -> list[FieldError]:
    canonical = _canonical_address(address)
    if canonical is None:
        return [FieldError.invalid(path, address, _NO_ADDRESS)]
    if canonical != address:
        return [FieldError.invalid(path, address, f"must be in canonical form ({quoted(canonical)})")]
    return []


def _canonical_address(text: str) -> str | None:
    """An address with its prefix length as Go writes it; None for another text.

    Go reads leading zeros of IPv4's numbers as none, and writes an IPv4 address in IPv6 as IPv4.
    """
    host, slash, bits = text.partition("/")
    if not slash or not re.fullmatch("[0-9]{1,5}", bits) or "%" in host:
        return None
    if ":" not in host:
        host = re.sub(r"\b0+([0-9])", r"\1", host, flags=re.ASCII)
    try:
        interface = ip_interface(f"{host}/{int(bits)}")
    except ValueError:
        return None
    ip, length = interface.ip, int(bits)
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return f"{ip.ipv4_mapped}/{length - 96 if length > 32 else length}"
    return f"{ip.compressed}/{length}"
