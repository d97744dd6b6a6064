"""The history of a DaemonSet's template: a ControllerRevision for each, the current one with the highest number.

The hash in a revision's name is made of the template's JSON, so it has the form of the real one and another value.

Source: pkg/controller/daemon/update.go, ``constructHistory``, ``snapshot``, ``cleanupHistory`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Final

from ...api.registry.kinds import Kind, kind_named
from ...api.registry.registry import Registry
from ...objects.objects import JSON
from .placement import HASH_LABEL, owner_reference

__all__ = ["REVISIONS", "current_revision", "drop_old_revisions"]

REVISIONS: Final[Kind] = kind_named("controllerrevisions.apps")

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def current_revision(registry: Registry, daemon_set: JSON) -> str:
    """Make sure that the current template is the newest revision; its hash."""
    history = _history(registry, daemon_set)
    data = {"spec": {"template": {**daemon_set["spec"]["template"], "$patch": "replace"}}}
    current = next((one for one in reversed(history) if one["data"] == data), None)
    newest = max((one["revision"] for one in history if one is not current), default=0) + 1
    if current is None:
        return _create(registry, daemon_set, data, newest)
    metadata = current["metadata"]
    if current["revision"] < newest:
        registry.update(
            REVISIONS, metadata["namespace"], metadata["name"], lambda revision: {**revision, "revision": newest}
        )
    return str(metadata["labels"][HASH_LABEL])


def drop_old_revisions(registry: Registry, daemon_set: JSON, current: str, used: Container[str]) -> None:
    """Remove the oldest revisions beyond the set's limit, but those of which there are pods."""
    old = [one for one in _history(registry, daemon_set) if one["metadata"]["labels"][HASH_LABEL] != current]
    too_many = len(old) - int(daemon_set["spec"].get("revisionHistoryLimit", 10))
    for revision in old:
        if too_many > 0 and revision["metadata"]["labels"][HASH_LABEL] not in used:
            registry.delete(REVISIONS, revision["metadata"]["namespace"], revision["metadata"]["name"])
            too_many -= 1


def _history(registry: Registry, daemon_set: JSON) -> Sequence[JSON]:
    """The set's revisions, oldest first."""
    uid = daemon_set["metadata"]["uid"]
    every = registry.objects.all_of(REVISIONS.key_kind, daemon_set["metadata"]["namespace"])
    own = [one for one in every if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", ()))]
    return sorted(own, key=lambda revision: int(revision["revision"]))


def _create(registry: Registry, daemon_set: JSON, data: JSON, number: int) -> str:
    metadata = daemon_set["metadata"]
    digest = _hash(daemon_set["spec"]["template"])
    labels = (daemon_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    body = {
        "apiVersion": REVISIONS.api_version,
        "kind": REVISIONS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "labels": {**labels, HASH_LABEL: digest},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(daemon_set)],
        },
        "data": data,
        "revision": number,
    }
    registry.create(REVISIONS, metadata["namespace"], body)
    return digest


def _hash(template: JSON) -> str:
    value = _FNV_OFFSET
    for byte in json.dumps(template, sort_keys=True).encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))
