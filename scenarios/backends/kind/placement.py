"""Where a pod's manifest names nodes: the story's names become the cluster's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

_NAMING: Final = ("nodeName", "nodeSelector", "affinity")
"""The parts of a pod's specification in which a node, or the label that every node has of its name, may stand."""

_Value = TypeVar("_Value", str, str | None)


def placed(pod: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A manifest for a cluster whose nodes have other names.

    Args:
        pod: With the story's names.
        names: A node's name in the story -> the cluster's.
    """
    named = {part: _renamed(pod["spec"][part], names) for part in _NAMING if part in pod["spec"]}
    placed = {**pod, "spec": {**pod["spec"], **named}}
    if annotations := pod["metadata"].get("annotations"):
        placed["metadata"] = {**pod["metadata"], "annotations": annotated(annotations, names)}
    return placed


def annotated(annotations: Mapping[str, _Value], names: Mapping[str, str]) -> dict[str, _Value | str]:
    """Annotations or labels for such a cluster: a value may be a node's name, as schedulers write it."""
    return {key: value if value is None else names.get(value, value) for key, value in annotations.items()}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            return names.get(value, value)
        case Mapping():
            return {key: _renamed(part, names) for key, part in value.items()}
        case list() | tuple():
            return [_renamed(part, names) for part in value]
        case _:
            return value
