"""The rules of pods.

Source: pkg/registry/core/pod/strategy.go; pkg/apis/core/validation/validation.go, ``ValidatePodUpdate``,
``ValidatePodStatusUpdate`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...model.errors import InputError
from ...model.pod import MIRROR_ANNOTATION, RestartPolicy, pod_from_manifest
from ..api.errors import FieldError, GroupName, StatusError
from ..api.registry.registry import Strategy, keep_status
from ..objects.objects import JSON, Key, Objects
from .container_validation import choose
from .pod_creation import admit_pod, default_pod, default_tolerations, drop_claims, prepare_pod
from .pod_validation import not_simulated, validate_pod_create, validate_pod_spec, validate_tolerations
from .priority_classes import PriorityError

__all__ = ["PodStrategy"]

_PODS: Final = GroupName("", "pods")
_UPDATABLE: Final = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_SETTLED: Final = ("activeDeadlineSeconds", "schedulingGates", "tolerations")
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_IMMUTABLE: Final = "field is immutable"
_MAX_INT32: Final = 2**31 - 1


class PodStrategy(Strategy):
    """What is filled into pods, and what of them is refused.

    Args:
        objects: of the cluster.
        has_claims: whether pods may use ResourceClaims; else these fields are dropped.
    """

    def __init__(self, objects: Objects, *, has_claims: bool = True) -> None:
        self._objects = objects
        self._has_claims = has_claims

    def default(self, new: JSON) -> None:
        default_pod(new)

    def prepare_for_create(self, new: JSON) -> None:
        if not self._has_claims:
            drop_claims(new["spec"])
        self._prepare(new)
        if MIRROR_ANNOTATION in (new["metadata"].get("annotations") or {}):
            return
        namespace, account = new["metadata"]["namespace"], new["spec"]["serviceAccountName"]
        if self._objects.get(Key("serviceaccounts", namespace, account)) is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise StatusError.forbidden(_PODS, new["metadata"]["name"], why)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = validate_pod_create(new)
        if not errors and new["metadata"]["name"]:
            _check_readable(new)
        return errors

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        # What admission set stays where the author has never known of it.
        for name in ("priority", "preemptionPolicy"):
            if new["spec"].get(name) is None and name in old["spec"]:
                new["spec"][name] = old["spec"][name]
        default_tolerations(new)
        changed = new["spec"] != old["spec"]
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + (1 if changed else 0)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        errors = [
            *validate_pod_spec(new["spec"]),
            *_validate_mirror_annotation(new, old),
            *_validate_spec_update(new["spec"], old["spec"]),
        ]
        if not errors and new["metadata"]["name"]:
            _check_readable(new)
        return errors

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back changes of the spec and the owners; labels and annotations may be written along with the status.

        Source: pkg/registry/core/pod/strategy.go, ``podStatusStrategy.PrepareForUpdate`` (kubernetes v1.34.4).
        """
        new["spec"] = copy.deepcopy(old["spec"])
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = copy.deepcopy(old["metadata"]["ownerReferences"])
        status = new.setdefault("status", {})
        if not status.get("qosClass") and "qosClass" in old.get("status", {}):
            status["qosClass"] = old["status"]["qosClass"]

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        status, before = new["status"], old.get("status") or {}
        errors = []
        if status.get("qosClass") != before.get("qosClass"):
            errors.append(FieldError.invalid("status.qosClass", status.get("qosClass"), _IMMUTABLE))
        for name, kind in (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")):
            now, then, path = status.get(name) or (), before.get(name) or (), f"status.{name}"
            if kind == "containers":
                errors += _validate_transitions(now, then, old["spec"], path)
            errors += _validate_health(now, new["spec"].get(kind) or (), path)
        return errors

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        return not_simulated(new["spec"]) if old is None else []

    def grace_s(self, obj: JSON, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        grace = obj["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return 1 if grace < 0 else int(grace)

    def _prepare(self, new: JSON) -> None:
        try:
            prepare_pod(new, self._objects)
            admit_pod(new, self._objects)
        except PriorityError as error:
            raise StatusError.forbidden(_PODS, new["metadata"]["name"], str(error)) from None


def _check_readable(pod: JSON) -> None:
    """Refuse what the API server would take and no simulated node can work with."""
    try:
        pod_from_manifest(pod)
    except InputError as error:
        raise StatusError.bad_request(str(error)) from None


def _validate_mirror_annotation(new: JSON, old: JSON) -> list[FieldError]:
    before = (old["metadata"].get("annotations") or {}).get(MIRROR_ANNOTATION)
    now = (new["metadata"].get("annotations") or {}).get(MIRROR_ANNOTATION)
    if before == now:
        return []
    text = "may not add mirror pod annotation" if before is None else "may not remove or update mirror pod annotation"
    return [FieldError.forbidden(f"metadata.annotations[{MIRROR_ANNOTATION}]", text)]


def _validate_spec_update(new: JSON, old: JSON) -> list[FieldError]:
    for kind in ("containers", "initContainers"):
        if len(new.get(kind) or ()) != len(old.get(kind) or ()):
            return [FieldError.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")]
    errors = [*_validate_deadline(new, old), *_validate_added_tolerations(new, old), *_validate_gates(new, old)]
    munged = copy.deepcopy(new)
    for kind in ("containers", "initContainers"):
        for container, before in zip(munged.get(kind) or (), old.get(kind) or (), strict=True):
            container["image"] = before.get("image")
    for name in _SETTLED:
        munged.pop(name, None)
        if name in old:
            munged[name] = old[name]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and munged.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if munged != old:
        fields = ",".join(_UPDATABLE)
        text = f"pod updates may not change fields other than {fields}\n{_diff(old, munged)}"
        errors.append(FieldError.forbidden("spec", text))
    return errors


def _diff(old: JSON, new: JSON) -> str:
    before, after = (json.dumps(each, indent=1, sort_keys=True).splitlines(keepends=True) for each in (old, new))
    _, _, *lines = difflib.unified_diff(before, after)
    return "".join(lines)


def _validate_deadline(new: JSON, old: JSON) -> list[FieldError]:
    path, now, before = "spec.activeDeadlineSeconds", new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if now is None:
        text = "must not update from a positive integer to nil value"
        return [] if before is None else [FieldError.invalid(path, None, text)]
    if not 0 <= now <= _MAX_INT32:
        return [FieldError.invalid(path, now, f"must be between 0 and {_MAX_INT32}, inclusive")]
    if before is not None and before < now:
        return [FieldError.invalid(path, now, "must be less than or equal to previous value")]
    return []


def _validate_added_tolerations(new: JSON, old: JSON) -> list[FieldError]:
    def without_seconds(toleration: Mapping[str, Any]) -> JSON:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    kept = [without_seconds(each) for each in new.get("tolerations") or ()]
    if any(without_seconds(each) not in kept for each in old.get("tolerations") or ()):
        text = "existing toleration can not be modified except its tolerationSeconds"
        return [FieldError.forbidden("spec.tolerations", text)]
    return validate_tolerations(new.get("tolerations") or (), "spec.tolerations")


def _validate_gates(new: JSON, old: JSON) -> list[FieldError]:
    known = [gate.get("name") for gate in old.get("schedulingGates") or ()]
    return [
        FieldError.forbidden(
            f"spec.schedulingGates[{place}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for place, gate in enumerate(new.get("schedulingGates") or ())
        if gate.get("name") not in known
    ]


def _validate_transitions(
    new: Sequence[Mapping[str, Any]], old: Sequence[Mapping[str, Any]], spec: Mapping[str, Any], path: str
) -> list[FieldError]:
    """A container that has ended and is not to be started again stays ended."""
    policies = {each["name"]: each.get("restartPolicy") or spec["restartPolicy"] for each in spec["containers"]}
    states = {status["name"]: status.get("state") or {} for status in new}
    errors = []
    for place, status in enumerate(old):
        ended = (status.get("state") or {}).get("terminated")
        state, policy = states.get(status["name"]), policies.get(status["name"], "Never")
        if ended is None or state is None or "terminated" in state:
            continue
        if not RestartPolicy(policy).restarts_after(ended.get("exitCode", 0)):
            text = "may not be transitioned to non-terminated state"
            errors.append(FieldError.forbidden(f"{path}[{place}].state", text))
    return errors


def _validate_health(
    statuses: Sequence[Mapping[str, Any]], containers: Sequence[Mapping[str, Any]], path: str
) -> list[FieldError]:
    requests = {each["name"]: (each.get("resources") or {}).get("requests") or {} for each in containers}
    errors = []
    for place, status in enumerate(statuses):
        for number, resource in enumerate(status.get("allocatedResourcesStatus") or ()):
            where, name = f"{path}[{place}].allocatedResourcesStatus[{number}]", resource.get("name") or ""
            if status["name"] in requests and name not in requests[status["name"]] and not name.startswith("claim:"):
                text = "must match one of the container's resource requests"
                errors.append(FieldError.invalid(f"{where}.name", name, text))
            seen: set[str] = set()
            for index, device in enumerate(resource.get("resources") or ()):
                errors += choose(device.get("health"), _HEALTHS, f"{where}.resources[{index}].health")
                if device["resourceID"] in seen:
                    errors.append(FieldError.duplicate(f"{where}.resources[{index}].resourceID", device["resourceID"]))
                seen.add(device["resourceID"])
    return errors
