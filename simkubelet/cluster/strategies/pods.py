"""The rules of pods: what is done with them at each write, and in which order.

Source: pkg/registry/core/pod/strategy.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ...model.errors import InputError
from ...model.pod import MIRROR_ANNOTATION, pod_from_manifest
from ...model.version import Difference
from ..api.decoding.definitions import schema_of
from ..api.decoding.schema import read_value
from ..api.errors import FieldError, GroupName, StatusError
from ..api.registry.strategy import Strategy, keep_status
from ..objects.objects import JSON, Key, Objects
from ..objects.pod_json import KEEPS_CLASS_OF_REJECTED, has_ended
from .pod.annotations import validate_annotation_updates, validate_pod_annotations
from .pod.checks import PodRules
from .pod.creation import HAS_GENERATION, admit_pod, complete_pod_spec, default_tolerations, prepare_pod
from .pod.defaults import default_pod
from .pod.equality import same
from .pod.gates import COMPLETES_AT_CREATION, drop_pod_fields, drop_status_fields
from .pod.not_simulated import not_simulated
from .pod.security import ANY_SELINUX_POLICY
from .pod.spec import validate_pod, validate_pod_create
from .pod.status import keep_generations, validate_status
from .pod.update import validate_spec_update
from .priority_classes import PriorityError
from .rules import Rules

__all__ = ["PodStrategy", "created_pod", "decoded_pod", "pod_refusals"]

_KEEPS_CLAIMS: Final = Difference(
    "an update of a pod's status that leaves out its claims keeps them",
    {"1.26": False, "1.37": True},
    "pkg/registry/core/pod/strategy.go, ``podStatusStrategy.PrepareForUpdate`` (kubernetes v1.36.5, v1.37.2)",
)
_DROPS_OF_STATUS: Final = Difference(
    "an update of a pod's status drops the fields whose gates are off, as one of the pod does",
    {"1.26": False, "1.33": True},
    "pkg/registry/core/pod/strategy.go, ``podStatusStrategy.PrepareForUpdate`` (kubernetes v1.32.13, v1.33.13)",
)
_OF_CLAIMS: Final = ("resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses")
_PODS: Final = GroupName("", "pods")
_ANNOTATIONS: Final = "metadata.annotations"


class PodStrategy(Strategy):
    """What is filled into pods, and what of them is refused.

    Args:
        objects: of the cluster.
        rules: of its API server.
    """

    validates_alone = True

    def __init__(self, objects: Objects, rules: Rules) -> None:
        self._objects = objects
        self._rules = rules

    def default(self, new: JSON) -> None:
        default_pod(new, self._rules)

    def prepare_for_create(self, new: JSON) -> None:
        prepare_pod(new, self._objects, self._rules)
        self.admit(new)

    def admit(self, new: JSON) -> None:
        """Set what admission plugins set of a new pod.

        Raises:
            StatusError: one of them refuses it.
        """
        try:
            admit_pod(new, self._objects)
        except PriorityError as error:
            raise StatusError.forbidden(_PODS, new["metadata"]["name"], str(error)) from None
        if MIRROR_ANNOTATION in (new["metadata"].get("annotations") or {}):
            return
        namespace, account = new["metadata"]["namespace"], new["spec"]["serviceAccountName"]
        if self._objects.get(Key("serviceaccounts", namespace, account)) is None:
            why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
            raise StatusError.forbidden(_PODS, new["metadata"]["name"], why)

    def validate(self, new: JSON) -> list[FieldError]:
        errors = validate_pod_create(PodRules(self._rules), new)
        if not errors and new["metadata"]["name"]:
            _check_readable(new)
        return errors

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        if COMPLETES_AT_CREATION in self._rules.gates and new["spec"].get("resources") is None:
            # Who writes it may not know of them.
            _keep_fields(new["spec"], old["spec"], ("resources",))
        self.admit_update(new, old)
        drop_pod_fields(self._rules, new["spec"])
        drop_status_fields(self._rules, new.get("status") or {})
        new["metadata"].pop("generation", None)
        if self._rules.of(HAS_GENERATION):
            changed = not same(new["spec"], old["spec"])
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + changed

    def admit_update(self, new: JSON, old: JSON) -> None:
        """Set what admission plugins set at an update."""
        # What admission set stays where the author has never known of it.
        for name in ("priority", "preemptionPolicy"):
            if new["spec"].get(name) is None and name in old["spec"]:
                new["spec"][name] = old["spec"][name]
        default_tolerations(new)

    def validate_update(self, new: JSON, old: JSON) -> list[FieldError]:
        rules = PodRules(self._of_update(old))
        errors = [
            *validate_pod(rules, new),
            *_validate_annotations(new, old),
            *validate_spec_update(rules, new["spec"], old["spec"]),
        ]
        if not errors and new["metadata"]["name"]:
            _check_readable(new)
        return errors

    def _of_update(self, old: JSON) -> Rules:
        """The rules for an update: a pod that says how SELinux labels its volumes may say so as it likes."""
        says_so = (old["spec"].get("securityContext") or {}).get("seLinuxChangePolicy") is not None
        return self._rules._replace(gates={*self._rules.gates, *([ANY_SELINUX_POLICY] if says_so else [])})

    def prepare_for_status_update(self, new: JSON, old: JSON) -> None:
        """Take back changes of the spec and the owners; labels and annotations may be written along with the status.

        Source: pkg/registry/core/pod/strategy.go, ``podStatusStrategy.PrepareForUpdate`` (kubernetes v1.34.4).
        """
        new["spec"] = copy.deepcopy(old["spec"])
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = copy.deepcopy(old["metadata"]["ownerReferences"])
        status, before = new.setdefault("status", {}), old.get("status") or {}
        if self._rules.of(KEEPS_CLASS_OF_REJECTED) and not status.get("qosClass") and "qosClass" in before:
            status["qosClass"] = before["qosClass"]
        keep_generations(status, before)
        if self._rules.of(_KEEPS_CLAIMS):
            _keep_fields(status, before, _OF_CLAIMS)
        for name in _OF_CLAIMS:
            if status.get(name) == []:
                # A client that knows of them removes them so.
                del status[name]
        if self._rules.of(_DROPS_OF_STATUS):
            drop_status_fields(self._rules, status)

    def validate_status_update(self, new: JSON, old: JSON) -> list[FieldError]:
        return [*_validate_annotations(new, old), *validate_status(PodRules(self._rules), new, old)]

    def warnings(self, new: JSON, old: JSON | None) -> list[str]:
        return not_simulated(new["spec"]) if old is None else []

    def grace_s(self, obj: JSON, requested: int | None) -> int | None:
        if not obj["spec"].get("nodeName") or has_ended(obj):
            return 0
        grace = obj["spec"].get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return 1 if grace < 0 else int(grace)


def _keep_fields(new: JSON, old: JSON, names: Iterable[str]) -> None:
    """Let a part of an object have the fields of its old state that the new one does not have."""
    for name in names:
        if new.get(name) is None and old.get(name) is not None:
            new[name] = copy.deepcopy(old[name])


def _check_readable(pod: JSON) -> None:
    """Refuse what the API server would take and no simulated node can work with."""
    try:
        pod_from_manifest(pod)
    except InputError as error:
        raise StatusError.bad_request(str(error)) from None


def _validate_annotations(new: JSON, old: JSON) -> list[FieldError]:
    now, before = (each["metadata"].get("annotations") or {} for each in (new, old))
    errors = validate_annotation_updates(now, before, _ANNOTATIONS)
    return errors + validate_pod_annotations(now, new["spec"], _ANNOTATIONS)


def decoded_pod(manifest: Mapping[str, Any]) -> JSON:
    """A copy of a manifest as the API server decodes it: without fields that no pod has, and without nulls.

    Raises:
        InputError: a field is not of its type.
    """
    faults: list[str] = []
    try:
        pod: JSON = read_value(dict(manifest), schema_of("", "v1", "Pod"), "Pod", faults)
    except TypeError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: cannot unmarshal {error}") from None
    except ValueError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: {error}") from None
    return pod


def created_pod(pod: JSON, objects: Objects, rules: Rules) -> JSON:
    """A pod as it is stored first; the object given is the caller's own and is changed.

    Raises:
        InputError: the API server would refuse it.
        PriorityError: see `priority_classes.set_priority`.
    """
    default_pod(pod, rules)
    prepare_pod(pod, objects, rules)
    admit_pod(pod, objects)
    if errors := validate_pod_create(PodRules(rules), pod):
        raise InputError(str(StatusError.invalid(GroupName("", "Pod"), pod["metadata"]["name"], errors)))
    return pod


def pod_refusals(manifest: Mapping[str, Any], rules: Rules) -> list[FieldError]:
    """What an API server refuses in the manifest of a new pod, which can be decoded; its objects are not looked at."""
    pod = {"metadata": {}, **decoded_pod(manifest)}
    default_pod(pod, rules)
    complete_pod_spec(pod["spec"], rules)
    # Admission gives each pod an account.
    pod["spec"].setdefault("serviceAccountName", "default")
    return validate_pod_create(PodRules(rules), pod)
