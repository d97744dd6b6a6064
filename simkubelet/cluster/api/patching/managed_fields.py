"""Who manages which field: the ``managedFields`` of an object.

Source: staging/src/k8s.io/apimachinery/pkg/util/managedfields (kubernetes v1.34.4),
sigs.k8s.io/structured-merge-diff v6.3.0, merge/update.go, ``Updater.Update``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...objects.objects import JSON
from ..decoding.schema import schema_of
from ..errors import FieldError
from ..registry.kinds import Kind
from .field_paths import FieldSet, compare, from_fields_v1, to_fields_v1

__all__ = [
    "APPLY_OPERATION",
    "UPDATE_OPERATION",
    "Manager",
    "entries",
    "managed_part",
    "manager_faults",
    "manager_of_agent",
    "managers_of",
    "track_update",
]

APPLY_OPERATION: Final = "Apply"
UPDATE_OPERATION: Final = "Update"
_LONGEST_NAME: Final = 128
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


def track_update(new: JSON, old: JSON, kind: Kind, name: str, subresource: str, now: str) -> None:
    """Note in a new state who changed it from the old one, which is empty where there was none."""
    before = _managers_before(new, old, subresource)
    schema = schema_of(kind.group, kind.version, kind.kind)
    had = managed_part(old, kind, subresource)
    changed, removed = compare(had, managed_part(new, kind, subresource), schema)
    changed -= _ALWAYS_THERE
    writer = Manager(name[:_LONGEST_NAME], UPDATE_OPERATION, kind.api_version, subresource)
    managers = {manager: (fields - changed - removed, time) for manager, (fields, time) in before.items()}
    own, since = before.get(writer, (frozenset(), now))
    fields = (own - removed) | changed
    managers[writer] = (fields, since if fields == own else now)
    new.setdefault("metadata", {}).pop("managedFields", None)
    if found := entries(managers):
        new["metadata"]["managedFields"] = found
