"""The nodes that a pod would rather go to, by the preferred terms of its node affinity.

Source: component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go, ``PreferredSchedulingTerms`` (v0.34.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..api.errors import FieldError
from ..api.registry.names import is_label_value
from ..objects.node_selection import as_integer, matches_term
from .node_info import NodeInfo
from .pod_info import PodInfo

__all__ = ["PreferredNodes"]


class PreferredNodes:
    """The preferred terms of one pod; there may be none."""

    def __init__(self, pod: PodInfo) -> None:
        affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
        self._terms: Sequence[Mapping[str, Any]] = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()

    def __bool__(self) -> bool:
        return bool(self._terms)

    def fault(self) -> str:
        """What makes the scheduler fail that the API server lets pass; empty where there is nothing."""
        texts = list(dict.fromkeys(map(str, self._faults())))
        return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)

    def weight(self, node: NodeInfo) -> int:
        """The weights of the terms that a node meets."""
        met = (one for one in self._terms if matches_term(one.get("preference") or {}, node.labels, node.name))
        return sum(one.get("weight", 0) for one in met)

    def _faults(self) -> Iterator[FieldError]:
        """Source: apimachinery/pkg/labels/selector.go, ``NewRequirement`` (v0.34.4)."""
        for place, term in enumerate(self._terms):
            for number, one in enumerate((term.get("preference") or {}).get("matchExpressions") or ()):
                path = f"[{place}].matchExpressions[{number}].values"
                values: Sequence[str] = one.get("values") or ()
                if one.get("operator") in ("Gt", "Lt"):
                    text = "for 'Gt', 'Lt' operators, the value must be an integer"
                    wrong = [index for index, value in enumerate(values) if as_integer(value) is None]
                    yield from (FieldError.invalid(f"{path}[{index}]", values[index], text) for index in wrong)
                for index, value in enumerate(values):
                    if faults := is_label_value(value):
                        where = f"{path}[{index}][{one.get('key', '')}]"
                        yield FieldError.invalid(where, value, "; ".join(faults))
