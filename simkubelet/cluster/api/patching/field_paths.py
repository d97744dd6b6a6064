"""The fields of an object as paths, and sets of them as ``managedFields`` writes them.

A path is made of the elements of FieldsV1: ``f:name`` is a field, ``k:{"name":"a"}`` an element of a list by its keys,
``v:"a"`` one by its value. Source: sigs.k8s.io/structured-merge-diff v6.3.0, typed/tofieldset.go, typed/compare.go,
fieldpath/serialize.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from ...objects.objects import JSON
from ..decoding.schema import Schema, child, element

__all__ = [
    "FieldSet",
    "Path",
    "compare",
    "elements_by_key",
    "fields_of",
    "from_fields_v1",
    "is_atomic",
    "printed",
    "to_fields_v1",
]

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]


def elements_by_key(items: list[Any], schema: Schema | None) -> dict[str, Any] | None:
    """The elements of a list by their path element; None for a list that is one value."""
    if schema is None or schema.get("x-kubernetes-list-type") not in ("map", "set"):
        return None
    if schema["x-kubernetes-list-type"] == "set":
        return {f"v:{_compact(item)}": item for item in items}
    keys = schema["x-kubernetes-list-map-keys"]
    if not all(isinstance(item, dict) for item in items):
        return None
    defaults = {"protocol": "TCP"}
    return {f"k:{_compact({key: item.get(key, defaults.get(key)) for key in sorted(keys)})}": item for item in items}


def is_atomic(schema: Schema | None) -> bool:
    """Whether a map is one value."""
    return schema is None or schema.get("x-kubernetes-map-type") == "atomic"


def fields_of(value: Any, schema: Schema | None) -> FieldSet:
    """The fields that a configuration names: values, elements of lists, and maps without entries."""
    return frozenset(path for path, _, leaf in _nodes(value, schema, ()) if path and (leaf or path[-1][0] in "kv"))


def compare(old: JSON, new: JSON, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """The paths that were added or changed, and those that were removed."""
    before = {path: inner if leaf else None for path, inner, leaf in _nodes(old, schema, ())}
    after = {path: inner if leaf else None for path, inner, leaf in _nodes(new, schema, ())}
    changed = frozenset(path for path, inner in after.items() if path not in before or before[path] != inner)
    return changed, frozenset(before.keys() - after.keys())


def _nodes(value: Any, schema: Schema | None, path: Path) -> Iterator[tuple[Path, Any, bool]]:
    """All paths, each with its value and whether it has none below it."""
    if isinstance(value, dict) and value and not is_atomic(schema):
        yield path, value, False
        for name, inner in value.items():
            yield from _nodes(inner, child(schema, name), (*path, f"f:{name}"))
        return
    items = elements_by_key(value, schema) if isinstance(value, list) and value else None
    if items is None:
        yield path, value, True
        return
    yield path, value, False
    for name, inner in items.items():
        yield from _nodes(inner, element(schema), (*path, name))


def to_fields_v1(fields: Iterable[Path]) -> JSON:
    """A set as a tree."""
    tree: JSON = {}
    chosen = set(fields)
    inner = {path[:length] for path in chosen for length in range(1, len(path))}
    for path in sorted(chosen):
        node = tree
        for name in path:
            node = node.setdefault(name, {})
        if path in inner:
            node["."] = {}
    return tree


def from_fields_v1(tree: JSON, path: Path = ()) -> FieldSet:
    """The set of a tree."""
    found = set()
    for name, inner in tree.items():
        if name == ".":
            found.add(path)
        elif not inner:
            found.add((*path, name))
        else:
            found |= from_fields_v1(inner, (*path, name))
    return frozenset(found)


def printed(path: Path) -> str:
    """A path in the words of a conflict: ``.spec.containers[name="a"].image``."""
    text = ""
    for name in path:
        kind, _, content = name.partition(":")
        if kind == "f":
            text += f".{content}"
        elif kind == "v":
            text += f"[={content}]"
        else:
            keys = json.loads(content)
            text += f"[{','.join(f'{key}={_compact(value)}' for key, value in keys.items())}]"
    return text


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
