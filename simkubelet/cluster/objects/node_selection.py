"""Which nodes a pod's spec allows: node selector, required node affinity, taints and tolerations; label selectors.

Pods and nodes are the objects of the API; a field that is left out counts as empty.

Source: component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go, ``RequiredNodeAffinity.Match``; api/core/v1,
``Toleration.ToleratesTaint`` (v0.34.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any, Final

from ...apis.integers import parse_int

__all__ = [
    "HARD_TAINTS",
    "Tolerations",
    "as_integer",
    "is_undecidable",
    "matches_required_affinity",
    "matches_term",
    "meets",
    "selects",
    "tolerates",
    "untolerated_taint",
]

HARD_TAINTS: Final = ("NoSchedule", "NoExecute")
"""The effects of taints that keep new pods away."""


def matches_required_affinity(pod_spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether a node has the labels that a pod insists on."""
    if not _matches_node_selector(pod_spec, node):
        return False
    terms = _required_terms(pod_spec)
    labels, name = node["metadata"].get("labels") or {}, node["metadata"]["name"]
    return terms is None or any(matches_term(term, labels, name) for term in terms)


def is_undecidable(pod_spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether one of the terms that a pod insists on, but not its selector, compares with a number that is none.

    The API server lets it pass. Such a term is met by no node, yet counts as an error.
    """
    expressions = (one for term in _required_terms(pod_spec) or () for one in term.get("matchExpressions") or ())
    compared = (one.get("values") or () for one in expressions if one.get("operator") in ("Gt", "Lt"))
    has_error = any(as_integer(value) is None for values in compared for value in values)
    return has_error and _matches_node_selector(pod_spec, node)


def untolerated_taint(
    taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]], effects: Container[str]
) -> Mapping[str, Any] | None:
    """The first taint with one of these effects that nothing tolerates; None where there is none."""
    by_taint = Tolerations(tolerations)
    return next((one for one in taints if one.get("effect") in effects and by_taint.first_for(one) is None), None)


class Tolerations:
    """Tolerations by the taints that they may be for: a node has thousands of taints where a client says so."""

    def __init__(self, tolerations: Iterable[Mapping[str, Any]]) -> None:
        self._by_taint: defaultdict[tuple[str, str], list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
        for number, one in enumerate(tolerations):
            self._by_taint[one.get("key") or "", one.get("effect") or ""].append((number, one))

    def first_for(self, taint: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The first toleration for a taint; None where there is none."""
        places = product({taint.get("key") or "", ""}, {taint.get("effect") or "", ""})
        alike = (self._by_taint.get(place, ()) for place in places)
        found = [next((one for one in some if tolerates(one[1], taint)), None) for some in alike]
        return min((one for one in found if one is not None), key=itemgetter(0), default=(0, None))[1]


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration is one for a taint."""
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
    return False


def matches_term(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    """Whether a node of these labels and this name is one of a node selector term."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_label = all(meets(requirement, labels.get(requirement.get("key", ""))) for requirement in expressions)
    return by_label and all(meets(one, name if one.get("key") == "metadata.name" else "") for one in fields)


def meets(requirement: Mapping[str, Any], value: str | None) -> bool:
    """Whether a label's value, or None where it is missing, is what one requirement of a selector asks for."""
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and any(_is_less(limit, value) for limit in values)
        case "Lt":
            return value is not None and any(_is_less(value, limit) for limit in values)
    return False


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels are what a selector with ``matchLabels`` and ``matchExpressions`` asks for."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(meets(one, labels.get(one.get("key", ""))) for one in selector.get("matchExpressions") or ())


def as_integer(text: str) -> int | None:
    """The number that a label's value stands for; None where it is none.

    Source: Go's ``strconv.ParseInt`` with base 10 and 64 bits.
    """
    try:
        return parse_int(text)
    except ValueError:
        return None


def _matches_node_selector(pod_spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (pod_spec.get("nodeSelector") or {}).items())


def _required_terms(pod_spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]] | None:
    """The terms of which a node must meet one; None where there is no such wish."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or ()


def _is_less(left: str, right: str) -> bool:
    less, more = as_integer(left), as_integer(right)
    return less is not None and more is not None and less < more
