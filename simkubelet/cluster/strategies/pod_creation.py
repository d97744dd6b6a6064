"""The creation of a pod: what defaults, admission and the pod's strategy fill in.

Label keys become requirements about the pod's own labels, in the selectors beside them. The quality of service class
does not consider requests at pod level.

Source: pkg/registry/core/pod/strategy.go, ``PrepareForCreate``, ``mutatePodAffinity``,
``mutateTopologySpreadConstraints``; pkg/apis/core/v1/helper/qos/qos.go, ``ComputePodQOS``;
pkg/kubeapiserver/options/plugins.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from ...model.errors import InputError
from ...model.resources import parse_quantity
from ..api.decoding.schema import read_value, schema_of
from ..api.errors import GroupName, StatusError
from ..objects.objects import JSON, Objects
from .pod_defaults import default_pod, default_service_account, default_tolerations
from .pod_validation import validate_placement
from .priority_classes import set_priority

__all__ = ["admit_pod", "created_pod", "decoded_pod", "merge_label_keys", "prepare_pod", "quality_of_service"]

_NONE: Final = Decimal(0)
_COUNTED: Final = ("cpu", "memory")
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


def quality_of_service(spec: Mapping[str, Any]) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``; only CPU and memory count.

    Raises:
        InputError: a quantity is none.
    """
    is_guaranteed = True
    requests: dict[str, Decimal] = {}
    limits: dict[str, Decimal] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        asked, limit = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
        is_guaranteed = is_guaranteed and set(limit) == set(_COUNTED)
        requests = {name: requests.get(name, _NONE) + asked.get(name, _NONE) for name in {*requests, *asked}}
        limits = {name: limits.get(name, _NONE) + limit.get(name, _NONE) for name in {*limits, *limit}}
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, Decimal]:
    amounts = {name: parse_quantity(text) for name, text in (quantities or {}).items() if name in _COUNTED}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def merge_label_keys(pod: JSON) -> None:
    """Write the requirements into the selectors of a new pod, which is the caller's own."""
    labels = pod["metadata"].get("labels") or {}
    for term, names in _terms(pod["spec"]):
        selector = term.get("labelSelector")
        added = [
            {"key": key, "operator": _OPERATORS[name], "values": [labels[key]]}
            for name in names
            for key in term.get(name) or ()
            if key in labels
        ]
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _terms(spec: JSON) -> Iterator[tuple[JSON, tuple[str, ...]]]:
    """What has a selector with keys beside it, and the fields with the keys."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for each in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each.get("podAffinityTerm") or {}, tuple(_OPERATORS)
        for each in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            yield each, tuple(_OPERATORS)
    for each in spec.get("topologySpreadConstraints") or ():
        yield each, ("matchLabelKeys",)


def decoded_pod(manifest: Mapping[str, Any]) -> JSON:
    """A copy of a manifest as the API server decodes it: without fields that no pod has, and without nulls.

    Raises:
        InputError: a field is not of its type, or what it says about where the pod goes is refused.
    """
    faults: list[str] = []
    try:
        pod: JSON = read_value(dict(manifest), schema_of("", "v1", "Pod"), "Pod", faults)
    except TypeError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: cannot unmarshal {error}") from None
    except ValueError as error:
        raise InputError(f"the manifest is not of the form of a v1 Pod: {error}") from None
    if errors := validate_placement(pod.get("spec") or {}, "spec"):
        raise InputError(str(StatusError.invalid(GroupName("", "Pod"), pod["metadata"]["name"], errors)))
    return pod


def created_pod(pod: JSON, objects: Objects) -> JSON:
    """A pod as it is stored first; the object given is the caller's own and is changed.

    Raises:
        PriorityError: see `priority.set_priority`.
    """
    default_pod(pod)
    prepare_pod(pod, objects)
    admit_pod(pod, objects)
    return pod


def prepare_pod(pod: JSON, objects: Objects) -> None:
    """Set what the server decides: the first generation, a status, and what label keys stand for."""
    pod["metadata"]["generation"] = 1
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": objects.wall_time.now(),
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    merge_label_keys(pod)


def admit_pod(pod: JSON, objects: Objects) -> None:
    """Set what the admission plugins decide that are on by default.

    Raises:
        PriorityError: see `priority.set_priority`.
    """
    default_service_account(pod)
    default_tolerations(pod)
    set_priority(pod["spec"], objects)
