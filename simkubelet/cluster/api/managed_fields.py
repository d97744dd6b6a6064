"""Who manages which field: the ``managedFields`` of an object.

Source: staging/src/k8s.io/apimachinery/pkg/util/managedfields (kubernetes v1.34.4),
sigs.k8s.io/structured-merge-diff v6.3.0, merge/update.go, ``Updater.Update``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..objects import JSON
from .field_paths import FieldSet, compare, from_fields_v1, to_fields_v1
from .kinds import Kind
from .schema import schema_of

__all__ = ["APPLY_OPERATION", "UPDATE_OPERATION", "Manager", "entries", "managed_part", "managers_of", "track_update"]

APPLY_OPERATION: Final = "Apply"
UPDATE_OPERATION: Final = "Update"
_LONGEST_NAME: Final = 128
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


def managers_of(obj: JSON) -> dict[Manager, tuple[FieldSet, str]]:
    """The managers of an object, each with its fields and when they last changed."""
    return {
        Manager(entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", "")): (
            from_fields_v1(entry.get("fieldsV1") or {}),
            entry.get("time", ""),
        )
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
    }


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
            "time": time,
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


def track_update(new: JSON, old: JSON | None, kind: Kind, name: str, subresource: str, now: str) -> None:
    """Note in a new state who changed it from the old one; None where there was none."""
    before = managers_of(old) if old is not None else {}
    schema = schema_of(kind.group, kind.version, kind.kind)
    had = managed_part(old, kind, subresource) if old is not None else {}
    changed, removed = compare(had, managed_part(new, kind, subresource), schema)
    changed -= {(), ("f:metadata",), ("f:spec",), ("f:status",)}
    writer = Manager(name[:_LONGEST_NAME], UPDATE_OPERATION, kind.api_version, subresource)
    managers = {manager: (fields - changed - removed, time) for manager, (fields, time) in before.items()}
    own, since = before.get(writer, (frozenset(), now))
    fields = (own - removed) | changed
    managers[writer] = (fields, since if fields == own else now)
    new.setdefault("metadata", {}).pop("managedFields", None)
    if found := entries(managers):
        new["metadata"]["managedFields"] = found
