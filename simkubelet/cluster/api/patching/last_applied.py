"""The annotation of kubectl's client-side apply, which its server-side apply takes over without conflicts.

Source: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal (lastappliedmanager.go, lastappliedupdater.go;
kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from typing import Final

from ...objects.objects import JSON
from ..decoding.schema import schema_of
from ..registry.kinds import Kind
from .field_paths import FieldSet, compare, fields_of
from .managed_fields import managed_part

__all__ = ["TAKES_OVER", "fields_last_applied", "note_last_applied"]

TAKES_OVER: Final = "kubectl"
"""The manager that may take over what client-side apply set."""
_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def fields_last_applied(live: JSON, kind: Kind) -> FieldSet:
    """The fields that client-side apply set and nobody has changed since."""
    text = _annotations(live).get(_ANNOTATION)
    try:
        last = json.loads(text) if text else {}
    except ValueError:
        return frozenset()
    if last.get("apiVersion") != kind.api_version:
        return frozenset()
    schema = schema_of(kind.group, kind.version, kind.kind)
    set_then, stands = managed_part(last, kind, ""), managed_part(live, kind, "")
    changed, removed = compare(set_then, stands, schema)
    return fields_of(set_then, schema) - changed - removed


def note_last_applied(new: JSON, config: JSON) -> None:
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
