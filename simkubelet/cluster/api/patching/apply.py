"""Server-side apply: a configuration is merged into an object, and fields that its manager no longer names are removed.

The fields of kubectl's client-side apply, which an annotation holds, are taken over without conflicts.

Source: sigs.k8s.io/structured-merge-diff v6.3.0, merge/update.go, ``Updater.Apply``;
staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal (conflict.go, lastappliedmanager.go,
lastappliedupdater.go; kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from ....golang.text import quoted
from ....model.version import Version
from ...objects.objects import JSON
from ..decoding.definitions import Schema, child, element, schema_of
from ..decoding.documents import json_document
from ..decoding.schema import read_value
from ..errors import StatusError
from ..registry.kinds import Kind, kind_of_version
from .managed_fields import (
    APPLY_OPERATION,
    UPDATE_OPERATION,
    FieldSet,
    Manager,
    Path,
    changes_in,
    compare,
    elements_by_key,
    entries,
    fields_of,
    is_atomic,
    managed_part,
    managers_of,
    printed,
)

__all__ = ["applied"]

_TAKES_OVER: Final = "kubectl"
"""The manager that may take over what client-side apply set."""
_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def _fields_last_applied(live: JSON, kind: Kind, release: Version) -> FieldSet:
    """The fields that client-side apply set and that have not changed since."""
    text = _annotations(live).get(_ANNOTATION, "")
    schema, unknown = schema_of(kind.group, kind.version, kind.kind, release), list[str]()
    try:
        last = read_value(json_document(text.encode()), schema, kind.kind, unknown)
    except (TypeError, ValueError):
        return frozenset()
    if unknown or last.get("apiVersion") != kind.api_version:
        return frozenset()
    set_then, stands = managed_part(last, kind, ""), managed_part(live, kind, "")
    changed, removed = compare(set_then, stands, schema)
    return fields_of(set_then, schema) - changed - removed


def _note_last_applied(new: JSON, config: JSON) -> None:
    """Keep the annotation of an object in step with the configuration that was applied; one without stays without."""
    annotations = _annotations(new)
    if not annotations.get(_ANNOTATION):
        return
    metadata = dict(config["metadata"])
    own = {key: value for key, value in _annotations(config).items() if key != _ANNOTATION}
    metadata = {**metadata, "annotations": own} if own else {k: v for k, v in metadata.items() if k != "annotations"}
    shown = json.dumps({**config, "metadata": metadata}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    annotations[_ANNOTATION] = f"{shown}\n"


def _annotations(obj: JSON) -> dict[str, str]:
    found: dict[str, str] = (obj.get("metadata") or {}).get("annotations") or {}
    return found


def applied(
    live: JSON, config: JSON, kind: Kind, name: str, subresource: str, now: str, release: Version, *, force: bool
) -> JSON:
    """What applying a configuration makes of an object; of nothing where `live` is empty.

    Raises:
        StatusError: others manage fields that it would change, and it is not forced.
    """
    schema = schema_of(kind.group, kind.version, kind.kind, release)
    managers = managers_of(live)
    writer = Manager(name, APPLY_OPERATION, kind.api_version, subresource)
    wanted = managed_part(config, kind, subresource)
    fields = fields_of(wanted, schema)
    before = next((one for one in managers if replace(one, api_version=writer.api_version) == writer), writer)
    last, since = managers.pop(before, (frozenset(), ""))
    new: JSON = _merged(copy.deepcopy(live), wanted, schema)
    new = _pruned(new, config, last, managers, kind, kind_of_version(kind, before.api_version), subresource, release)
    versions = {kind.api_version, *(manager.api_version for manager in managers)}
    changes = changes_in(versions, kind, kind.to_stored(live), kind.to_stored(new), subresource, release)
    changed, removed = changes[kind.api_version]
    changes[kind.api_version] = changed & fields, removed
    conflicts = {manager: owned & changes[manager.api_version][0] for manager, (owned, _) in managers.items()}
    if any(conflicts.values()) and not force:
        taken_over = _fields_last_applied(live, kind, release) if name == _TAKES_OVER else frozenset()
        left = {manager: paths - taken_over for manager, paths in conflicts.items() if paths - taken_over}
        if left:
            raise _conflict_error(left, managers)
    kept = {
        manager: (owned - conflicts[manager] - changes[manager.api_version][1], time)
        for manager, (owned, time) in managers.items()
    }
    kept[writer] = (fields, now if changed or removed else since)
    metadata = new.setdefault("metadata", {})
    for key in ("name", "namespace", "uid", "resourceVersion"):
        if config.get("metadata", {}).get(key):
            metadata[key] = config["metadata"][key]
    metadata["managedFields"] = entries(kept)
    if name == _TAKES_OVER:
        _note_last_applied(new, config)
    return new


def _pruned(
    new: JSON,
    config: JSON,
    last: FieldSet,
    managers: Mapping[Manager, tuple[FieldSet, str]],
    kind: Kind,
    form: Kind,
    subresource: str,
    release: Version,
) -> JSON:
    """An object without the fields that its manager applied before, in the version of `form`, and names no longer."""
    if form is kind:
        found, wanted = new, config
    else:
        found, wanted = form.from_stored(kind.to_stored(new)), form.from_stored(kind.to_stored(config))
    schema = schema_of(form.group, form.version, form.kind, release)
    fields = fields_of(managed_part(wanted, form, subresource), schema)
    owned = fields.union(
        *(fields for one, (fields, _) in managers.items() if kind_of_version(kind, one.api_version) is form)
    )
    above_owned = {path[:length] for path in owned for length in range(1, len(path) + 1)}
    _remove(found, last - fields - above_owned, schema)
    return found if form is kind else kind.from_stored(form.to_stored(found))


def _merged(live: Any, config: Any, schema: Schema | None) -> Any:
    if isinstance(live, dict) and isinstance(config, dict) and not is_atomic(schema):
        for name, value in config.items():
            live[name] = _merged(live[name], value, child(schema, name)) if name in live else copy.deepcopy(value)
        return live
    if isinstance(live, list) and isinstance(config, list):
        theirs, ours = elements_by_key(live, schema), elements_by_key(config, schema)
        if theirs is not None and ours is not None:
            merged = {
                name: _merged(theirs[name], item, element(schema)) for name, item in ours.items() if name in theirs
            }
            return list({**theirs, **ours, **merged}.values())
    return copy.deepcopy(config)


def _remove(obj: Any, paths: Collection[Path], schema: Schema | None) -> None:
    """Remove the fields and items at paths, where there are some."""
    here = {path[0] for path in paths if len(path) == 1}
    below: dict[str, list[Path]] = {}
    for first, *rest in paths:
        if rest and first not in here:
            below.setdefault(first, []).append(tuple(rest))
    if isinstance(obj, dict):
        for name in here:
            obj.pop(name.removeprefix("f:"), None)
        for name, inner in below.items():
            field = name.removeprefix("f:")
            _remove(obj.get(field), inner, child(schema, field))
    elif isinstance(obj, list):
        items = elements_by_key(obj, schema) or {}
        gone = {id(item) for name, item in items.items() if name in here}
        obj[:] = [item for item in obj if id(item) not in gone]
        for name, inner in below.items():
            _remove(items.get(name), inner, element(schema))


def _conflict_error(conflicts: dict[Manager, FieldSet], managers: dict[Manager, tuple[FieldSet, str]]) -> StatusError:
    named = {
        _printed(manager, managers[manager][1]): sorted(map(printed, paths)) for manager, paths in conflicts.items()
    }
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, paths in named.items()
        for path in paths
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [line for who in sorted(named) for line in (f"conflicts with {who}:", *(f"- {p}" for p in named[who]))]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, {"causes": causes})


def _printed(manager: Manager, time: str) -> str:
    text = quoted(manager.name)
    if manager.subresource:
        text += f" with subresource {quoted(manager.subresource)}"
    if manager.operation == UPDATE_OPERATION:
        text += f" using {manager.api_version}" + (f" at {time}" if time else "")
    return text
