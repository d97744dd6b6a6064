"""The creation of a pod: what admission and the pod's strategy set.

Every function changes the object that it is given, which is the caller's own copy. Label keys become requirements about
the pod's own labels, in the selectors beside them. The volume with a service account's token is left out: pods get no
token here.

Source: pkg/registry/core/pod/strategy.go, ``PrepareForCreate``, ``mutatePodAffinity``,
``mutateTopologySpreadConstraints``; plugin/pkg/admission/defaulttolerationseconds, serviceaccount;
pkg/kubeapiserver/options/plugins.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....model.pod import MIRROR_ANNOTATION
from ....model.quality_of_service import quality_of_service
from ....model.version import Difference
from ...objects.objects import JSON, Objects
from ..priority_classes import set_priority
from ..rules import Rules
from .annotations import apply_app_armor
from .defaults import default_pod_resources
from .gates import COMPLETES_AT_CREATION, drop_pod_fields
from .scheduling import SPREAD_KEYS_MERGE

__all__ = ["HAS_GENERATION", "admit_pod", "complete_pod_spec", "default_tolerations", "prepare_pod"]

HAS_GENERATION: Final = Difference(
    "a pod has a generation, which rises with each change of its spec",
    {"1.26": False, "1.33": True},
    "pkg/registry/core/pod/strategy.go, ``PrepareForCreate``, ``updatePodGeneration`` (kubernetes v1.32.13, v1.33.13)",
)
_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}
_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
_TOLERATION_S: Final = 300


def prepare_pod(pod: JSON, objects: Objects, rules: Rules) -> None:
    """Set what the server decides: the first generation, a status, which fields it knows, what label keys stand for."""
    pod["metadata"].pop("generation", None)
    if rules.of(HAS_GENERATION):
        pod["metadata"]["generation"] = 1
    complete_pod_spec(pod["spec"], rules)
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
    _merge_label_keys(pod, rules)
    apply_app_armor(pod, rules)


def complete_pod_spec(spec: JSON, rules: Rules) -> None:
    """Drop the fields of a new pod that the server does not know, and fill in what it does not fill in before that."""
    drop_pod_fields(rules, spec)
    if COMPLETES_AT_CREATION in rules.gates:
        default_pod_resources(spec, rules)


def admit_pod(pod: JSON, objects: Objects) -> None:
    """Set what the admission plugins decide that are on by default.

    Raises:
        PriorityError: see `priority_classes.set_priority`.
    """
    _default_service_account(pod)
    default_tolerations(pod)
    set_priority(pod["spec"], objects)


def default_tolerations(pod: JSON) -> None:
    """Let a pod stay five minutes on a node that is lost, unless it says otherwise."""
    tolerations = pod["spec"].get("tolerations") or []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(
            each.get("key", "") in (key, "") and each.get("effect", "") in ("NoExecute", "") for each in tolerations
        ):
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_S}
            tolerations = [*tolerations, added]
    pod["spec"]["tolerations"] = tolerations


def _default_service_account(pod: JSON) -> None:
    """Run a pod as its namespace's default account; the mirror of a static pod as none."""
    if MIRROR_ANNOTATION not in (pod["metadata"].get("annotations") or {}):
        name = pod["spec"].get("serviceAccountName") or "default"
        pod["spec"].update(serviceAccountName=name, serviceAccount=name)


def _merge_label_keys(pod: JSON, rules: Rules) -> None:
    """Write the requirements into the selectors of a new pod, which is the caller's own."""
    labels = pod["metadata"].get("labels") or {}
    for term, names in _terms(pod["spec"], rules):
        selector = term.get("labelSelector")
        added = [
            {"key": key, "operator": _OPERATORS[name], "values": [labels[key]]}
            for name in names
            for key in term.get(name) or ()
            if key in labels
        ]
        if selector is not None and added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _terms(spec: JSON, rules: Rules) -> Iterator[tuple[JSON, tuple[str, ...]]]:
    """What has a selector with keys beside it, and the fields with the keys."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for each in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield each.get("podAffinityTerm") or {}, tuple(_OPERATORS)
        for each in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            yield each, tuple(_OPERATORS)
    if SPREAD_KEYS_MERGE in rules.gates:
        for each in spec.get("topologySpreadConstraints") or ():
            yield each, ("matchLabelKeys",)
