"""Deletes what the owners of have gone, and lets owners go in the order that their deletion asked for.

Source: pkg/controller/garbagecollector/garbagecollector.go, ``attemptToDeleteItem``, ``processDeletingDependentsItem``,
``attemptToOrphanWorker``; graph_builder.go, ``DefaultIgnoredResources``: Events are nobody's (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from ..._internal.change import Change
from ..api.errors import StatusError
from ..api.registry.kinds import KINDS, Kind
from ..api.registry.registry import DeleteOptions, Registry
from ..objects.objects import JSON, Verb, Written

__all__ = ["GarbageCollector"]

_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_OWNED_BY: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_STORED: Final = tuple(kind for kind in KINDS if "list" in kind.verbs and kind.plural != "events")


class GarbageCollector:
    """Looks after the owners and dependents of a cluster for as long as `run` runs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._objects = registry.objects
        self._concerning = Change()
        for kind in _STORED:
            self._objects.subscribe(kind.key_kind, self._note)

    async def run(self) -> None:
        """Look after each change that may leave garbage, until cancelled."""
        while True:
            seen = self._concerning.count
            self._collect()
            await self._concerning.wait(seen)

    def _note(self, written: Written) -> None:
        metadata = written.object["metadata"]
        is_dependent = written.verb is Verb.ADDED and metadata.get("ownerReferences")
        if is_dependent or written.verb is Verb.DELETED or metadata.get("deletionTimestamp"):
            self._concerning.notify()

    def _collect(self) -> None:
        for kind in _STORED:
            for owner in self._objects.all_of(kind.key_kind):
                finalizers = owner["metadata"].get("finalizers") or ()
                if not owner["metadata"].get("deletionTimestamp"):
                    continue
                own = [(of, one) for of, one in self._dependents() if _reference(one, owner) is not None]
                if _ORPHAN in finalizers:
                    self._let_go(own, owner)
                    self._finish(kind, owner, _ORPHAN)
                elif _FOREGROUND in finalizers:
                    self._delete(own, _FOREGROUND)
                    if not any((_reference(one, owner) or {}).get("blockOwnerDeletion") for _, one in own):
                        self._finish(kind, owner, _FOREGROUND)
        self._delete([(kind, one) for kind, one in self._dependents() if self._has_lost_all_owners(one)], None)

    def _dependents(self) -> list[tuple[Kind, JSON]]:
        found = ((kind, one) for kind in _STORED for one in self._objects.all_of(kind.key_kind))
        return [(kind, one) for kind, one in found if one["metadata"].get("ownerReferences")]

    def _has_lost_all_owners(self, dependent: JSON) -> bool:
        return not any(self._may_be_there(dependent, one) for one in dependent["metadata"]["ownerReferences"])

    def _may_be_there(self, dependent: JSON, reference: JSON) -> bool:
        kind = _OWNED_BY.get((reference["apiVersion"], reference["kind"]))
        if kind is None:
            return True
        owner = self._objects.get(kind.key(dependent["metadata"].get("namespace", ""), reference["name"]))
        return owner is not None and owner["metadata"]["uid"] == reference["uid"]

    def _delete(self, found: Iterable[tuple[Kind, JSON]], finalizer: str | None) -> None:
        for kind, one in found:
            metadata = one["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            options = DeleteOptions(uid=metadata["uid"], finalizer=finalizer)
            with suppress(StatusError):
                self._registry.delete(kind, metadata.get("namespace", ""), metadata["name"], options)

    def _let_go(self, found: Iterable[tuple[Kind, JSON]], owner: JSON) -> None:
        uid = owner["metadata"]["uid"]

        def without_owner(dependent: JSON) -> JSON:
            left = [one for one in dependent["metadata"]["ownerReferences"] if one["uid"] != uid]
            return _with(dependent, "ownerReferences", left)

        for kind, one in found:
            self._registry.update(kind, one["metadata"].get("namespace", ""), one["metadata"]["name"], without_owner)

    def _finish(self, kind: Kind, owner: JSON, finalizer: str) -> None:
        def without_finalizer(found: JSON) -> JSON:
            return _with(found, "finalizers", [one for one in found["metadata"]["finalizers"] if one != finalizer])

        metadata = owner["metadata"]
        self._registry.update(kind, metadata.get("namespace", ""), metadata["name"], without_finalizer)


def _with(found: JSON, field: str, values: list[Any]) -> JSON:
    """An object with another list in its metadata; an empty one is left out."""
    metadata = {name: value for name, value in found["metadata"].items() if name != field}
    return {**found, "metadata": {**metadata, **({field: values} if values else {})}}


def _reference(dependent: JSON, owner: JSON) -> JSON | None:
    references = dependent["metadata"].get("ownerReferences") or ()
    return next((one for one in references if one["uid"] == owner["metadata"]["uid"]), None)
