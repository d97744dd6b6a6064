"""The ``managedFields`` of an object: which manager owns which field, as sets of paths.

A path consists of the elements of FieldsV1: ``f:name`` is a field, ``k:{"name":"a"}`` an element of a list by its keys,
``v:"a"`` one by its value.

Source: staging/src/k8s.io/apimachinery/pkg/util/managedfields (kubernetes v1.34.4);
sigs.k8s.io/structured-merge-diff v6.3.0, merge/update.go, ``Updater.Update``, typed/tofieldset.go, typed/compare.go,
fieldpath/serialize.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ....apis.documents import load_json
from ....model.version import Version
from ...objects.objects import JSON
from ..decoding.definitions import Schema, child, element, schema_of
from ..errors import FieldError
from ..registry.kinds import Kind, kind_of_version

__all__ = [
    "APPLY_OPERATION",
    "UPDATE_OPERATION",
    "FieldSet",
    "Manager",
    "Path",
    "changes_in",
    "compare",
    "elements_by_key",
    "entries",
    "fields_of",
    "from_fields_v1",
    "is_atomic",
    "managed_part",
    "manager_faults",
    "manager_of_agent",
    "managers_of",
    "printed",
    "to_fields_v1",
    "track_update",
]

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]
APPLY_OPERATION: Final = "Apply"
UPDATE_OPERATION: Final = "Update"
_LONGEST_NAME: Final = 128
_MOST_UPDATES: Final = 10
_OLD_UPDATES: Final = "ancient-changes"
_INNER: Final = object()
"""What a path has in the place of a value where other paths are below it."""
_ALWAYS_THERE: Final = frozenset(
    tuple(f"f:{name}" for name in path.split(".")) if path else ()
    for path in (
        "", "metadata", "spec", "status", "spec.containers", "spec.template", "spec.template.metadata",
        "spec.template.spec", "spec.template.spec.containers", "spec.updateStrategy", "source", "deprecatedSource",
    )
)  # fmt: skip
"""What is never new: Go's structs have these fields when they are empty."""
_SYSTEM: Final = (
    "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip


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
    nodes: dict[Path, Any] = {}
    _add_nodes(nodes, value, schema, ())
    return frozenset(path for path, leaf in nodes.items() if path and (leaf is not _INNER or path[-1][0] in "kv"))


def compare(old: JSON, new: JSON, schema: Schema) -> tuple[FieldSet, FieldSet]:
    """The paths that were added or changed, and those that were removed."""
    before, after = _leaves(old, schema), _leaves(new, schema)
    changed = frozenset(path for path, inner in after.items() if path not in before or before[path] != inner)
    return changed, frozenset(before.keys() - after.keys())


def _leaves(value: Any, schema: Schema) -> dict[Path, Any]:
    """All paths, each with its value where it has none below it."""
    nodes: dict[Path, Any] = {}
    _add_nodes(nodes, value, schema, ())
    return {path: None if inner is _INNER else inner for path, inner in nodes.items()}


def _add_nodes(nodes: dict[Path, Any], value: Any, schema: Schema | None, path: Path) -> None:
    """Add all paths, each with its value, or with `_INNER` where others are below it.

    A map may have ten thousands of keys: their plain values are added here, and need no schema.
    """
    inner, names = value, "f:"
    if isinstance(value, dict):
        is_inner = bool(value) and not is_atomic(schema)
    else:
        inner = elements_by_key(value, schema) if isinstance(value, list) and value else None
        names, is_inner = "", inner is not None
    nodes[path] = _INNER if is_inner else value
    if not is_inner:
        return
    of_items = None if names else element(schema)
    for name, one in inner.items():
        below = (*path, names + name)
        if isinstance(one, dict | list):
            _add_nodes(nodes, one, child(schema, name) if names else of_items, below)
        else:
            nodes[below] = one


def to_fields_v1(fields: Iterable[Path]) -> JSON:
    """A set as a tree."""
    chosen = set(fields)
    known: dict[Path, JSON] = {(): {}}

    def inner(path: Path) -> JSON:
        node = known.get(path)
        if node is None:
            node = known[path] = inner(path[:-1]).setdefault(path[-1], {})
            if path in chosen:
                node["."] = {}
        return node

    for path in sorted(chosen):
        inner(path[:-1]).setdefault(path[-1], {})
    return known[()]


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
            keys = load_json(content)
            text += f"[{','.join(f'{key}={_compact(value)}' for key, value in keys.items())}]"
    return text


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Manager:
    """Who sets fields: a name, how, in which version of the kind and through which subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str


def manager_of_agent(user_agent: str) -> str:
    """The manager that a client without a name of one is, by its ``User-Agent``.

    Source: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go, ``prefixFromUserAgent`` (kubernetes v1.34.4).
    """
    agent = user_agent.partition("/")[0].encode(errors="surrogateescape").decode(errors="replace")
    printable = "".join(filter(str.isprintable, agent))
    return printable.encode()[:_LONGEST_NAME].decode(errors="ignore")


def managers_of(obj: JSON) -> dict[Manager, tuple[FieldSet, str]]:
    """The managers of an object, each with its fields and when they last changed."""
    return {
        Manager(entry.get("manager", ""), entry["operation"], entry["apiVersion"], entry.get("subresource", "")): (
            from_fields_v1(entry.get("fieldsV1") or {}),
            entry.get("time", ""),
        )
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
    }


def manager_faults(name: str) -> list[FieldError]:
    """What is wrong with the name that a request gives its manager."""
    errors = [] if len(name.encode()) <= _LONGEST_NAME else [FieldError.too_long("fieldManager", _LONGEST_NAME)]
    return errors + [
        FieldError.invalid("fieldManager", name, f"invalid character {_code_point(char)} (at position {at})")
        for at, char in enumerate(name)
        if not char.isprintable()
    ]


def _code_point(char: str) -> str:
    return f"U+{ord(char):04X}"


def entries(managers: dict[Manager, tuple[FieldSet, str]]) -> list[JSON]:
    """The ``managedFields`` of an object: who applied comes first, then the older ones."""
    found = []
    order = sorted(managers.items(), key=lambda item: (item[0].operation, item[1][1], item[0].name))
    for manager, (fields, time) in order:
        if not fields:
            continue
        entry: JSON = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            **({"time": time} if time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_fields_v1(fields),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        found.append(entry)
    return found


def managed_part(obj: JSON, kind: Kind, subresource: str) -> JSON:
    """What of an object is managed by who writes it there: not what the server sets, nor what that write ignores."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _SYSTEM}
    rest = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion", "metadata")}
    if subresource == "status":
        return {"status": rest["status"]} if "status" in rest else {}
    if kind.has_status:
        rest.pop("status", None)
    return {**rest, "metadata": metadata} if metadata else rest


def _managers_before(new: JSON, old: JSON, subresource: str) -> dict[Manager, tuple[FieldSet, str]]:
    """Those that a write names itself, where it does; one empty entry stands for none at all."""
    named = (new.get("metadata") or {}).get("managedFields") or []
    if named == [{}]:
        return {}
    return managers_of(new if named and not subresource and all(map(_is_entry, named)) else old)


def _is_entry(entry: JSON) -> bool:
    is_known = entry.get("operation") in (APPLY_OPERATION, UPDATE_OPERATION) and bool(entry.get("apiVersion"))
    return is_known and _is_tree(entry.get("fieldsV1") or {})


def _is_tree(fields: object) -> bool:
    return isinstance(fields, dict) and all(map(_is_tree, fields.values()))


def changes_in(
    versions: Iterable[str], kind: Kind, old: JSON, new: JSON, subresource: str, release: Version
) -> dict[str, tuple[FieldSet, FieldSet]]:
    """What changed or is new between two stored objects, and what is gone, in the form of each version.

    Managers may name any versions; those in which there is no such kind share one form.
    """
    forms = {version: kind_of_version(kind, version) for version in versions}
    found = {}
    for form in {form.api_version: form for form in forms.values()}.values():
        had, has = (managed_part(form.from_stored(obj), form, subresource) for obj in (old, new))
        found[form.api_version] = compare(had, has, schema_of(form.group, form.version, form.kind, release))
    return {version: found[form.api_version] for version, form in forms.items()}


def _merge_oldest_updates(managers: dict[Manager, tuple[FieldSet, str]]) -> None:
    """Let one manager for each version have the fields of those that updated longest ago, beyond ten of them.

    Source: apimachinery, util/managedfields/internal/capmanagers.go, ``capUpdateManagers`` (v0.34.4).
    """
    updates = [manager for manager, (fields, _) in managers.items() if manager.operation == UPDATE_OPERATION and fields]
    excess = len(updates) - _MOST_UPDATES
    first: dict[str, Manager] = {}
    for manager in sorted(updates, key=lambda one: (managers[one][1], one.name, one.api_version, one.subresource)):
        if excess <= 0:
            return
        bucket = Manager(_OLD_UPDATES, UPDATE_OPERATION, manager.api_version, "")
        if manager.api_version not in first:
            first[manager.api_version] = manager
            continue
        if bucket not in managers:
            managers[bucket] = managers.pop(first[manager.api_version])
        fields, time = managers[manager]
        managers[bucket] = fields | managers[bucket][0], time
        # It may be the bucket itself, where the first one is of the same second: what that had is lost.
        del managers[manager]
        excess -= 1


def track_update(new: JSON, old: JSON, kind: Kind, name: str, subresource: str, now: str, release: Version) -> None:
    """Note in a new state who changed it from the old one, which is empty where there was none; both as stored."""
    before = _managers_before(new, old, subresource)
    writer = Manager(name[:_LONGEST_NAME], UPDATE_OPERATION, kind.api_version, subresource)
    versions = {writer.api_version, *(manager.api_version for manager in before)}
    changes = changes_in(versions, kind, old, new, subresource, release)
    managers = {}
    for manager, (owned, time) in before.items():
        changed, removed = changes[manager.api_version]
        managers[manager] = owned - (changed - _ALWAYS_THERE) - removed, time
    changed, removed = changes[writer.api_version]
    own, since = before.get(writer, (frozenset(), now))
    fields = (own - removed) | (changed - _ALWAYS_THERE)
    managers[writer] = (fields, since if fields == own else now)
    _merge_oldest_updates(managers)
    new.setdefault("metadata", {}).pop("managedFields", None)
    if found := entries(managers):
        new["metadata"]["managedFields"] = found
