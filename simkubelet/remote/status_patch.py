"""The strategic merge patch between two states of a status, as the kubelet sends it.

A patch has only what differs, so what others write into the same status meanwhile stays.

Source: apimachinery, pkg/util/strategicpatch/patch.go, ``CreateTwoWayMergePatch`` (v0.34.4), of which the directives
for the order of lists are left out: a server appends new conditions without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .client import JSON

__all__ = ["status_patch"]

_MERGE_KEYS: Final = {"addresses": "type", "conditions": "type", "hostIPs": "ip", "podIPs": "ip"}
"""Lists of a pod's or a node's status whose items are merged, by what tells these apart; others are replaced.

Source: api/core/v1/types.go, ``PodStatus``, ``NodeStatus`` (v0.34.4).
"""


def status_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> JSON:
    """Return what makes `new` of `old`; empty where nothing differs. A field without a value counts as absent."""
    patch: JSON = {}
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            if inner := status_patch(before, after):
                patch[name] = inner
        elif name in _MERGE_KEYS and isinstance(before, list) and isinstance(after, list):
            if items := _items_patch(before, after, _MERGE_KEYS[name]):
                patch[name] = items
        elif not _is_same(before, after):
            patch[name] = after
    return patch


def _items_patch(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], key: str) -> list[JSON]:
    before = {item[key]: item for item in old}
    after = {item[key]: item for item in new}
    patch = []
    for value, item in after.items():
        if value not in before:
            patch.append(dict(item))
        elif inner := status_patch(before[value], item):
            patch.append({**inner, key: value})
    return patch + [{"$patch": "delete", key: value} for value in before if value not in after]


def _is_same(before: object, after: object) -> bool:
    return _without_none(before) == _without_none(after)


def _without_none(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value] if isinstance(value, list) else value
