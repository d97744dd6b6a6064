"""Garbage collection: of objects whose owners are gone, and of pods whose nodes are gone.

Owners are removed in the order that their deletion asks for. A pod is removed when its node has been gone for a while,
or when it is deleted and has no node; the number of ended pods has no limit.

Source: pkg/controller/garbagecollector/garbagecollector.go, ``attemptToDeleteItem``, ``processDeletingDependentsItem``,
``attemptToOrphanWorker``; graph_builder.go, ``DefaultIgnoredResources``: Events have no owners;
pkg/controller/podgc/gc_controller.go, ``gcOrphaned``, ``gcUnscheduledTerminating`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ..._internal.change import Change
from ..._internal.doors import Door, Passage
from ...model.clock import Clock
from ...model.pod import Pod
from ...model.pod_status import Condition, ConditionType, PodPhase
from ..api.errors import StatusError
from ..api.registry.kinds import KINDS, Kind, kind_named
from ..api.registry.registry import DeleteOptions, Registry
from ..objects.objects import JSON, Key, Verb, Written
from ..store import Store

__all__ = ["GarbageCollector", "PodGarbageCollector"]

_OWNER: Final = Door("garbage collection of an owner's dependents")
_DEPENDENT: Final = Door("garbage collection of an object")
_POD: Final = Door("garbage collection of a pod")
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_OWNED_BY: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_WAITING: Final = frozenset({_ORPHAN, _FOREGROUND})
_STORED: Final = tuple(
    kind for kind in KINDS if "list" in kind.verbs and kind.plural != "events" and not kind.stored_as
)


class GarbageCollector:
    """Looks after the owners and dependents of a cluster for as long as `run` runs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._objects = registry.objects
        self._dependents: defaultdict[str, set[Key]] = defaultdict(set)
        self._leaving: set[Key] = set()
        self._suspects: set[Key] = set()
        self._concerning = Change()
        for kind in _STORED:
            for one in self._objects.all_of(kind.key_kind):
                self._take(kind.key(one["metadata"].get("namespace", ""), one["metadata"]["name"]), [], one)
            self._objects.subscribe(kind.key_kind, self._note)

    async def run(self) -> None:
        """Look after each change that may leave garbage, until cancelled."""
        while True:
            seen = self._concerning.count
            self._collect()
            await self._concerning.wait(seen)

    def _note(self, written: Written) -> None:
        is_gone = written.verb is Verb.DELETED
        before = [] if written.before is None else _references(written.before)
        self._take(written.key, before, None if is_gone else written.object)
        if is_gone:
            self._suspects |= self._dependents.get(written.object["metadata"]["uid"], set())
        is_other_dependent = before != ([] if is_gone else _references(written.object))
        if self._suspects or written.key in self._leaving or (is_other_dependent and self._leaving):
            self._concerning.notify()

    def _take(self, key: Key, before: list[JSON], now: JSON | None) -> None:
        """Update the graph by an object whose owners were others before; None for one that is gone.

        The graph: owner's uid -> its dependents, the owners that wait for their dependents, and the dependents whose
        owners may be gone.
        """
        after = [] if now is None else _references(now)
        if before != after:
            for reference in before:
                self._dependents[reference["uid"]].discard(key)
                if not self._dependents[reference["uid"]]:
                    del self._dependents[reference["uid"]]
            for reference in after:
                self._dependents[reference["uid"]].add(key)
            (self._suspects.add if after else self._suspects.discard)(key)
        metadata = {} if now is None else now["metadata"]
        waits = metadata.get("deletionTimestamp") and _WAITING.intersection(metadata.get("finalizers") or ())
        (self._leaving.add if waits else self._leaving.discard)(key)

    def _collect(self) -> None:
        for kind, owner in self._found(self._leaving):
            with self._passage(_OWNER, kind, owner):
                self._end_owner(kind, owner)
        suspects, self._suspects = self._suspects, set()
        for kind, dependent in self._found(suspects):
            with self._passage(_DEPENDENT, kind, dependent):
                if self._has_lost_all_owners(dependent):
                    self._delete([(kind, dependent)], None)

    def _passage(self, door: Door, kind: Kind, one: JSON) -> Passage:
        key = kind.key(one["metadata"].get("namespace", ""), one["metadata"]["name"])
        return door(key, partial(self._objects.record_failure, key, one))

    def _end_owner(self, kind: Kind, owner: JSON) -> None:
        own = self._found(self._dependents.get(owner["metadata"]["uid"], ()))
        if _ORPHAN in owner["metadata"]["finalizers"]:
            self._let_go(own, owner)
            self._finish(kind, owner, _ORPHAN)
            return
        self._delete(own, _FOREGROUND)
        if not any((_reference(one, owner) or {}).get("blockOwnerDeletion") for _, one in own):
            self._finish(kind, owner, _FOREGROUND)

    def _found(self, keys: Iterable[Key]) -> list[tuple[Kind, JSON]]:
        """The objects that are still there, by kind, namespace and name."""
        objects = [(kind_named(key.kind), self._objects.get(key)) for key in sorted(keys)]
        return [(kind, one) for kind, one in objects if one is not None]

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


def _references(dependent: JSON) -> list[JSON]:
    return dependent["metadata"].get("ownerReferences") or []


def _reference(dependent: JSON, owner: JSON) -> JSON | None:
    return next((one for one in _references(dependent) if one["uid"] == owner["metadata"]["uid"]), None)


_PERIOD_S: Final = 20.0
_QUARANTINE_S: Final = 40.0
_ANNOUNCED: Final = Condition(ConditionType.DISRUPTION_TARGET, True, "DeletionByPodGC", "PodGC: node no longer exists")


class PodGarbageCollector:
    """Looks after the pods of one cluster for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._missing_since: dict[str, float] = {}

    async def run(self) -> None:
        """Look every twenty seconds, until cancelled."""
        while True:
            await self._clock.sleep(_PERIOD_S)
            self._collect()

    def _collect(self) -> None:
        now = self._clock.now()
        missing = {pod.node_name for pod in self._store.pods if pod.node_name} - {
            node.name for node in self._store.all_nodes
        }
        self._missing_since = {node: self._missing_since.get(node, now) for node in missing}
        gone = {node for node, since in self._missing_since.items() if now - since >= _QUARANTINE_S}
        for pod in self._store.pods:
            with _POD(pod.key, partial(self._record_failure, pod)):
                if pod.node_name in gone:
                    self._delete(pod)
                elif pod.node_name is None and pod.is_deleting:
                    self._store.delete_pod(pod.uid, 0)

    def _record_failure(self, pod: Pod, error: str) -> None:
        self._store.record(pod, "Warning", "FailedSync", error, "pod-garbage-collector-controller", host="")

    def _delete(self, pod: Pod) -> None:
        if not pod.status.phase.is_terminal:
            self._store.patch_pod_status(pod.uid, _ANNOUNCED, phase=PodPhase.FAILED)
        self._store.delete_pod(pod.uid, 0)
