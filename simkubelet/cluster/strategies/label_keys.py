"""What a pod's label keys stand for: requirements about the pod's own labels, in the selectors beside them.

Source: pkg/registry/core/pod/strategy.go, ``mutatePodAffinity``, ``mutateTopologySpreadConstraints`` (kubernetes
v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..objects.objects import JSON

__all__ = ["merge_label_keys"]

_OPERATORS: Final = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


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
