"""The rules of DeviceClasses, ResourceClaims, ResourceClaimTemplates and ResourceSlices.

Source: pkg/registry/resource/{deviceclass,resourceclaim,resourceclaimtemplate,resourceslice}/strategy.go,
pkg/registry/resource/utils.go; pkg/apis/resource/v1/defaults.go; pkg/apis/resource/validation/validation.go
(kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ....golang.text import quoted
from ....model.resources import is_extended_resource
from ....model.version import Difference
from ...api.errors import FieldError
from ...api.registry.strategy import Strategy, keep_all_but_status, keep_status
from ...objects.objects import JSON, Key, Objects
from ..internal_form import METADATA_FIELDS, internal
from ..rules import Rules
from .claim_status import allocated_devices, device_key, validate_claim_status
from .declared_fields import with_declared
from .fields import CONFIGS_AT_MOST, validate_configuration, validate_list, validate_selectors
from .gates import (
    DEVICE_STATUS,
    drop_class_fields,
    drop_slice_fields,
    drop_spec_fields,
    drop_status_fields,
    is_in_use,
)
from .requests import validate_claim_spec, validate_template_spec
from .slices import validate_slice_spec
from .taint_rules import DeviceTaintRuleStrategy

__all__ = ["device_strategies"]

_IMMUTABLE: Final = "field is immutable"
_AS_NEW: Final = Difference(
    "an update of a ResourceClaim is checked as a new one is, too, not only whether the spec is the same; a wrong "
    "update of a DeviceClass or of a template is reported twice",
    {"1.26": True, "1.35": False},
    "pkg/registry/resource/{resourceclaim,deviceclass}/strategy.go, ``ValidateUpdate``; "
    "pkg/apis/resource/validation/validation.go (kubernetes v1.34.4, v1.35.4)",
)
_WARNS_OF_CAPITALS: Final = Difference(
    "the writer of a ResourceSlice is warned of capital letters in its driver's name",
    {"1.26": False, "1.35": True},
    "pkg/registry/resource/resourceslice/strategy.go, ``WarningsOnCreate`` (kubernetes v1.34.4, v1.35.4)",
)
_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_NO_ADMIN: Final = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
_EXACT_COUNT: Final = "ExactCount"
_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_TEMPLATES: Final = "resourceclaimtemplates.resource.k8s.io"
_SLICES: Final = "resourceslices.resource.k8s.io"
_V1BETA1: Final = "v1beta1"


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


def device_strategies(objects: Objects, rules: Rules) -> Mapping[str, Strategy]:
    """The rules of the group's kinds, as `Registry` takes them.

    Args:
        objects: where namespaces are, and the date.
        rules: of the server.
    """
    return {
        "deviceclasses.resource.k8s.io": _DeviceClassStrategy(objects, rules),
        "devicetaintrules.resource.k8s.io": DeviceTaintRuleStrategy(rules, objects.wall_time),
        _CLAIMS: _ResourceClaimStrategy(objects, rules),
        f"{_CLAIMS}/{_V1BETA1}": _ResourceClaimStrategy(objects, rules, _V1BETA1),
        _TEMPLATES: _ResourceClaimTemplateStrategy(objects, rules),
        f"{_TEMPLATES}/{_V1BETA1}": _ResourceClaimTemplateStrategy(objects, rules, _V1BETA1),
        _SLICES: _ResourceSliceStrategy(objects, rules),
        f"{_SLICES}/{_V1BETA1}": _ResourceSliceStrategy(objects, rules, _V1BETA1),
    }


class _DeviceStrategy(Strategy):
    """What the rules of the kinds have in common: they are those of one version of the group."""

    validates_alone = True
    """But for the label of its namespace, of a claim for administrators: it may be the one of a moment before."""

    kind: str = ""

    def __init__(self, objects: Objects, rules: Rules, version: str = "v1") -> None:
        self._objects = objects
        self._rules = rules
        self._version = version

    def _default_requests(self, spec: JSON) -> None:
        (_default_flat_requests if self._version == _V1BETA1 else _default_requests)(spec)

    def _with_declared(self, errors: Sequence[FieldError], new: JSON, old: JSON | None) -> list[FieldError]:
        return with_declared(self._rules, self._version, self.kind, errors, new, old)


class _DeviceClassStrategy(_DeviceStrategy):
    """A class has selectors and configurations, which may change."""

    kind = "DeviceClass"
    empty: Mapping[str, Any] = {"spec": {}}

    def default(self, new: JSON) -> None:
        new.setdefault("spec", {})

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        drop_class_fields(self._rules, new, None)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = _class_errors(self._rules, new["spec"], stored=False)
        return self._with_declared(errors, new, None)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        drop_class_fields(self._rules, new, old)
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (new["spec"] != old["spec"])

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        is_same = new["spec"].get("config") == old["spec"].get("config")
        errors = self.validate(new) if self._rules.of(_AS_NEW) else []
        errors += _class_errors(self._rules, new["spec"], stored=is_same)
        return self._with_declared(errors, new, old)


def _class_errors(rules: Rules, spec: JSON, *, stored: bool) -> list[FieldError]:
    errors = [
        *validate_selectors(rules, spec.get("selectors"), "spec.selectors"),
        *validate_list(
            rules,
            spec.get("config"),
            CONFIGS_AT_MOST,
            lambda config, at: validate_configuration(rules, config, at, stored=stored),
            "spec.config",
        ),
    ]
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        errors.append(FieldError.invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


class _ResourceClaimStrategy(_DeviceStrategy):
    """A claim keeps its spec; what is allocated, and for whom, is its status, which does not change once it is set."""

    kind = "ResourceClaim"
    empty: Mapping[str, Any] = {"spec": {"devices": {"requests": None}}, "status": {}}

    def default(self, new: JSON) -> None:
        self._default_requests(new.setdefault("spec", {}))
        status = new.setdefault("status", {})
        for user in status.get("reservedFor") or ():
            _drop_empty(user, "apiGroup")
        for device in status.get("devices") or ():
            _drop_empty(device.get("networkData") or {}, "interfaceName", "hardwareAddress")
            for condition in device.setdefault("conditions", None) or ():
                _drop_empty(condition, "observedGeneration")
        allocation = status.get("allocation")
        if allocation is not None:
            for result in allocation.setdefault("devices", {}).get("results") or ():
                _default_tolerations(result)

    def prepare_for_create(self, new: JSON) -> None:
        new["status"] = {}
        drop_spec_fields(self._rules, new, None)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = [
            *_admin_errors(new["spec"], new, self._objects),
            *validate_claim_spec(self._rules, new["spec"], "spec", stored=False),
        ]
        return self._with_declared(errors, new, None)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        drop_spec_fields(self._rules, new, old)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        changed = []
        if new["spec"] != old["spec"]:
            shown = internal("ResourceClaimSpec", new["spec"], self._rules.release)
            changed.append(FieldError.invalid("spec", shown, _IMMUTABLE))
        if not self._rules.of(_AS_NEW):
            return self._with_declared(changed, new, old)
        return [
            *validate_claim_spec(self._rules, new["spec"], "spec", stored=False),
            *changed,
            *validate_claim_spec(self._rules, new["spec"], "spec", stored=True),
        ]

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        keep_all_but_status(new, old)
        drop_status_fields(self._rules, new, old)
        if DEVICE_STATUS in self._rules.gates or is_in_use(self._rules, DEVICE_STATUS, old):
            _drop_deallocated(new["status"], old)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        path = "status.allocation.devices.results"
        asks = [] if any(result.get("adminAccess") for result in _results(old)) else _results(new)
        errors = [*_admin_access(asks, path, new, self._objects), *validate_claim_status(self._rules, new, old)]
        return self._with_declared(errors, new, old)


class _ResourceClaimTemplateStrategy(_DeviceStrategy):
    """A template keeps its spec, which has a claim's."""

    kind = "ResourceClaimTemplate"
    empty: Mapping[str, Any] = {"spec": {"metadata": {}, "spec": {"devices": {"requests": None}}}}

    def default(self, new: JSON) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("metadata", {})
        self._default_requests(spec.setdefault("spec", {}))

    def prepare_for_create(self, new: JSON) -> None:
        drop_spec_fields(self._rules, new["spec"], None)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = [
            *_admin_errors(new["spec"]["spec"], new, self._objects),
            *validate_template_spec(self._rules, new["spec"], "spec", stored=False),
        ]
        return self._with_declared(errors, new, None)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        drop_spec_fields(self._rules, new["spec"], old["spec"])

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        changed = []
        if new["spec"] != old["spec"]:
            metadata = new["spec"]["metadata"]
            shown = {name: _sorted(metadata[name]) for name in METADATA_FIELDS if metadata.get(name)}
            shown["Spec"] = internal("ResourceClaimSpec", new["spec"]["spec"], self._rules.release)
            changed.append(FieldError.invalid("spec", shown, _IMMUTABLE))
        errors = [*validate_template_spec(self._rules, new["spec"], "spec", stored=False), *changed]
        if self._rules.of(_AS_NEW):
            errors += validate_template_spec(self._rules, new["spec"], "spec", stored=True)
        return self._with_declared(errors, new, old)


class _ResourceSliceStrategy(_DeviceStrategy):
    """A slice's driver, pool and node stay; its devices change."""

    kind = "ResourceSlice"
    empty: Mapping[str, Any] = {
        "spec": {"driver": "", "pool": {"name": "", "generation": 0, "resourceSliceCount": 0}, "devices": None}
    }

    def default(self, new: JSON) -> None:
        spec = new.setdefault("spec", {})
        pool = spec.setdefault("pool", {})
        spec.setdefault("driver", "")
        for name, zero in (("name", ""), ("generation", 0), ("resourceSliceCount", 0)):
            pool.setdefault(name, zero)
        for device in spec.setdefault("devices", None) or ():
            for amount in (*(device.get("capacity") or {}).values(), *_counters(device.get("consumesCounters"))):
                amount.setdefault("value", "0")
            for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
                mapping.setdefault("allocationMultiplier", "1")
            for taint in device.get("taints") or ():
                taint.setdefault("timeAdded", self._objects.wall_time.now())
                _drop_empty(taint, "value")
        for amount in _counters(spec.get("sharedCounters")):
            amount.setdefault("value", "0")

    def prepare_for_create(self, new: JSON) -> None:
        new["metadata"]["generation"] = 1
        drop_slice_fields(self._rules, new, None)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = validate_slice_spec(self._rules, new["spec"], None, "spec")
        return self._with_declared(errors, new, None)

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        # Compared before fields are dropped, so each update that has some of them counts.
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (new["spec"] != old["spec"])
        drop_slice_fields(self._rules, new, old)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = validate_slice_spec(self._rules, new["spec"], old["spec"], "spec")
        return self._with_declared(errors, new, old)

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        driver: str = new["spec"]["driver"]
        if driver == driver.lower() or not self._rules.of(_WARNS_OF_CAPITALS):
            return []
        why = f"driver names should be lowercase; {quoted(driver)} contains uppercase characters"
        return [f"spec.driver: {why}"]


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
