"""The rules of DeviceClasses, ResourceClaims, ResourceClaimTemplates and ResourceSlices.

Source: pkg/registry/resource/{deviceclass,resourceclaim,resourceclaimtemplate,resourceslice}/strategy.go,
pkg/registry/resource/utils.go; pkg/apis/resource/v1/defaults.go; pkg/apis/resource/validation/validation.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ....model.resources import is_extended_resource
from ....model.version import Version
from ...api.errors import FieldError
from ...api.registry.registry import Strategy, keep_all_but_status, keep_status
from ...objects.objects import JSON, Key, Objects
from .claim_status import allocated_devices, device_key, validate_claim_status
from .fields import CONFIGS_AT_MOST, validate_configuration, validate_list, validate_selectors
from .gates import (
    DEVICE_STATUS,
    drop_claim_fields,
    drop_class_fields,
    drop_slice_fields,
    drop_template_fields,
    is_in_use,
)
from .internal_form import METADATA_FIELDS, internal
from .requests import validate_claim_spec, validate_template_spec
from .slices import validate_slice_spec

__all__ = ["device_strategies"]

_IMMUTABLE: Final = "field is immutable"
_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_NO_ADMIN: Final = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
_EXACT_COUNT: Final = "ExactCount"
_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"


def _default_requests(spec: JSON, *, needs_class: bool = False) -> None:
    """Fill in how many devices a claim's requests are for."""
    devices = spec.setdefault("devices", {})
    for request in devices.setdefault("requests", None) or ():
        exactly = request.get("exactly")
        for one in () if exactly is None else (exactly,):
            _default_choice(one, is_complete=needs_class and not one.get("deviceClassName"))
        for one in request.get("firstAvailable") or ():
            _default_choice(one, is_complete=False)


def _default_flat_requests(spec: JSON) -> None:
    """The same for requests of v1beta1: those without a class get nothing.

    Source: pkg/apis/resource/v1beta1/defaults.go (kubernetes v1.34.4).
    """
    _default_requests(spec, needs_class=True)


def _default_choice(one: JSON, *, is_complete: bool) -> None:
    if not is_complete:
        one["allocationMode"] = one.get("allocationMode") or _EXACT_COUNT
        one["count"] = one.get("count") or (1 if one["allocationMode"] == _EXACT_COUNT else 0)
    _drop_empty(one, "count")
    _default_tolerations(one)


def _default_tolerations(fields: JSON) -> None:
    for toleration in fields.get("tolerations") or ():
        toleration["operator"] = toleration.get("operator") or "Equal"
        _drop_empty(toleration, "key", "value", "effect")


def _drop_empty(fields: JSON, *names: str) -> None:
    for name in names:
        if not fields.get(name):
            fields.pop(name, None)


def device_strategies(objects: Objects, gates: Collection[str], release: Version) -> Mapping[str, Strategy]:
    """The rules of the group's kinds, as `Registry` takes them.

    Args:
        objects: where namespaces are, and the date.
        gates: those that are on; see `gates_of`.
        release: whose rules they are.
    """
    return {
        "deviceclasses.resource.k8s.io": _DeviceClassStrategy(gates),
        _CLAIMS: _ResourceClaimStrategy(objects, gates),
        f"{_CLAIMS}/v1beta1": _ResourceClaimStrategy(objects, gates, _default_flat_requests),
        _TEMPLATES: _ResourceClaimTemplateStrategy(objects, gates),
        f"{_TEMPLATES}/v1beta1": _ResourceClaimTemplateStrategy(objects, gates, _default_flat_requests),
        "resourceslices.resource.k8s.io": _ResourceSliceStrategy(objects, gates, release),
    }


class _DeviceClassStrategy(Strategy):
    """A class has selectors and configurations, which may change."""

    empty: Mapping[str, Any] = {"spec": {}}

    def __init__(self, gates: Collection[str]) -> None:
        self._gates = gates

    def default(self, new: JSON) -> None:
        new.setdefault("spec", {})

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        drop_class_fields(new, None, self._gates)

    def validate(self, new: JSON) -> list[FieldError]:
        return _class_errors(new["spec"], stored=False)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        drop_class_fields(new, old, self._gates)
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (new["spec"] != old["spec"])

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        is_same = new["spec"].get("config") == old["spec"].get("config")
        return [*self.validate(new), *_class_errors(new["spec"], stored=is_same)]


def _class_errors(spec: JSON, *, stored: bool) -> list[FieldError]:
    errors = [
        *validate_selectors(spec.get("selectors"), "spec.selectors"),
        *validate_list(
            spec.get("config"),
            CONFIGS_AT_MOST,
            lambda config, at: validate_configuration(config, at, stored=stored),
            "spec.config",
        ),
    ]
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        errors.append(FieldError.invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


class _ResourceClaimStrategy(Strategy):
    """A claim keeps its spec; what is allocated, and for whom, is its status, which does not change once it is set."""

    empty: Mapping[str, Any] = {"spec": {"devices": {"requests": None}}, "status": {}}

    def __init__(
        self, objects: Objects, gates: Collection[str], default: Callable[[JSON], None] = _default_requests
    ) -> None:
        self._objects = objects
        self._gates = gates
        self._default_requests = default

    def default(self, new: JSON) -> None:
        self._default_requests(new.setdefault("spec", {}))
        status = new.setdefault("status", {})
        for device in status.get("devices") or ():
            for condition in device.setdefault("conditions", None) or ():
                _drop_empty(condition, "observedGeneration")
        allocation = status.get("allocation")
        if allocation is not None:
            for result in allocation.setdefault("devices", {}).get("results") or ():
                _default_tolerations(result)

    def prepare_for_create(self, new: JSON) -> None:
        new["status"] = {}
        drop_claim_fields(new, None, self._gates)

    def validate(self, new: JSON) -> list[FieldError]:
        return [
            *_admin_errors(new["spec"], new, self._objects),
            *validate_claim_spec(new["spec"], "spec", self._gates, stored=False),
        ]

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        drop_claim_fields(new, old, self._gates)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = validate_claim_spec(new["spec"], "spec", self._gates, stored=False)
        if new["spec"] != old["spec"]:
            errors.append(FieldError.invalid("spec", internal("ResourceClaimSpec", new["spec"]), _IMMUTABLE))
        return errors + validate_claim_spec(new["spec"], "spec", self._gates, stored=True)

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        keep_all_but_status(new, old)
        if DEVICE_STATUS in self._gates or is_in_use(DEVICE_STATUS, old):
            _drop_deallocated(new["status"], old)
        drop_claim_fields(new, old, self._gates)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        path = "status.allocation.devices.results"
        asks = [] if any(result.get("adminAccess") for result in _results(old)) else _results(new)
        return [*_admin_access(asks, path, new, self._objects), *validate_claim_status(new, old)]


class _ResourceClaimTemplateStrategy(Strategy):
    """A template keeps its spec, which has a claim's."""

    empty: Mapping[str, Any] = {"spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}}

    def __init__(
        self, objects: Objects, gates: Collection[str], default: Callable[[JSON], None] = _default_requests
    ) -> None:
        self._objects = objects
        self._gates = gates
        self._default_requests = default

    def default(self, new: JSON) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("metadata", {})
        self._default_requests(spec.setdefault("spec", {}))

    def prepare_for_create(self, new: JSON) -> None:
        drop_template_fields(new, None, self._gates)

    def validate(self, new: JSON) -> list[FieldError]:
        return [
            *_admin_errors(new["spec"]["spec"], new, self._objects),
            *validate_template_spec(new["spec"], "spec", self._gates, stored=False),
        ]

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        drop_template_fields(new, old, self._gates)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = validate_template_spec(new["spec"], "spec", self._gates, stored=False)
        if new["spec"] != old["spec"]:
            metadata = new["spec"]["metadata"]
            shown = {name: _sorted(metadata[name]) for name in METADATA_FIELDS if metadata.get(name)}
            shown["Spec"] = internal("ResourceClaimSpec", new["spec"]["spec"])
            errors.append(FieldError.invalid("spec", shown, _IMMUTABLE))
        return errors + validate_template_spec(new["spec"], "spec", self._gates, stored=True)


class _ResourceSliceStrategy(Strategy):
    """A slice's driver, pool and node stay; its devices change."""

    empty: Mapping[str, Any] = {
        "spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}, "devices": None}
    }

    def __init__(self, objects: Objects, gates: Collection[str], release: Version) -> None:
        self._objects = objects
        self._gates = gates
        self._release = release

    def default(self, new: JSON) -> None:
        spec = new.setdefault("spec", {})
        pool = spec.setdefault("pool", {})
        spec.setdefault("driver", "")
        for name, zero in (("name", ""), ("generation", 0), ("resourceSliceCount", 0)):
            pool.setdefault(name, zero)
        for device in spec.setdefault("devices", None) or ():
            for amount in (*(device.get("capacity") or {}).values(), *_counters(device.get("consumesCounters"))):
                amount.setdefault("value", "0")
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", self._objects.wall_time.now())
                _drop_empty(taint, "value")
        for amount in _counters(spec.get("sharedCounters")):
            amount.setdefault("value", "0")

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        drop_slice_fields(new, None, self._gates)

    def validate(self, new: JSON) -> list[FieldError]:
        return validate_slice_spec(new["spec"], None, "spec", self._release)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        # Compared before fields are dropped, so each update that has some of them counts.
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (new["spec"] != old["spec"])
        drop_slice_fields(new, old, self._gates)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return validate_slice_spec(new["spec"], old["spec"], "spec", self._release)


def _counters(sets: Sequence[JSON] | None) -> Iterator[JSON]:
    for one in sets or ():
        yield from (one.get("counters") or {}).values()


def _sorted(value: Any) -> Any:
    return dict(sorted(value.items())) if isinstance(value, dict) else value


def _results(claim: JSON) -> Sequence[JSON]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def _drop_deallocated(status: JSON, old: JSON) -> None:
    """Drop the states of devices that the claim had and has no longer."""
    gone = allocated_devices(old.get("status") or {}) - allocated_devices(status)
    status["devices"] = [device for device in status.get("devices") or () if device_key(device) not in gone]
    _drop_empty(status, "devices")


def _admin_errors(spec: JSON, new: JSON, objects: Objects) -> list[FieldError]:
    requests = (spec.get("devices") or {}).get("requests") or ()
    # The path is the claim's for templates as well.
    return _admin_access([request.get("exactly") or {} for request in requests], "spec.devices.requests", new, objects)


def _admin_access(asks: Iterable[JSON], path: str, new: JSON, objects: Objects) -> list[FieldError]:
    """Refuse the first that asks for admin access, where the namespace is not for it."""
    place = next((place for place, one in enumerate(asks) if one.get("adminAccess")), None)
    if place is None:
        return []
    namespace = objects.get(Key("namespaces", "", new["metadata"]["namespace"])) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(_ADMIN_LABEL) == "true":
        return []
    return [FieldError.forbidden(f"{path}[{place}].adminAccess", _NO_ADMIN)]
