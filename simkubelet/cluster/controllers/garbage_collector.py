"""Garbage collection: of objects whose owners are gone, and of pods whose nodes are gone.

Owners are removed in the order that their deletion asks for. A pod is removed when its node has been gone for a while,
or when it is deleted and has no node; the number of ended pods has no limit.

Source: pkg/controller/garbagecollector/garbagecollector.go, ``attemptToDeleteItem``, ``processDeletingDependentsItem``,
``attemptToOrphanWorker``; graph_builder.go, ``DefaultIgnoredResources``: Events have no owners;
pkg/controller/podgc/gc_controller.go, ``gcOrphaned``, ``gcUnscheduledTerminating`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
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
_HANDLED_AT_ONCE: Final = 200
"""Objects and references to owners, until others have their turn."""
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
        self._handled = 0
        for kind in _STORED:
            for one in self._objects.all_of(kind.key_kind):
                self._take(_key(kind, one), [], one)
            self._objects.subscribe(kind.key_kind, self._note)

    async def run(self) -> None:
        """Look after each change that may leave garbage, until cancelled."""
        while True:
            seen = self._concerning.count
            await self._collect()
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

    async def _collect(self) -> None:
        self._handled = 0
        for kind, owner in self._found(self._leaving):
            with self._passage(_OWNER, kind, owner):
                await self._end_owner(kind, owner)
            await self._pause(owner)
        suspects, self._suspects = self._suspects, set()
        for kind, dependent in self._found(suspects):
            with self._passage(_DEPENDENT, kind, dependent):
                self._look_at(kind, dependent)
            await self._pause(dependent)

    async def _pause(self, handled: JSON) -> None:
        """Let others have their turn, where much was handled since they had it."""
        self._handled += 1 + len(_references(handled))
        if self._handled > _HANDLED_AT_ONCE:
            self._handled = 0
            await asyncio.sleep(0)

    def _passage(self, door: Door, kind: Kind, one: JSON) -> Passage:
        key = _key(kind, one)
        return door(key, partial(self._objects.record_failure, key, one))

    async def _end_owner(self, kind: Kind, owner: JSON) -> None:
        own = frozenset(self._dependents.get(owner["metadata"]["uid"], ()))
        if _ORPHAN in owner["metadata"]["finalizers"]:
            for dependent_kind, dependent in self._found(own):
                self._change_owners(dependent_kind, dependent, partial(_without, uids={owner["metadata"]["uid"]}))
                await self._pause(dependent)
            self._finish(kind, owner, _ORPHAN)
            return
        for _, dependent in self._found(own):
            if _blocks(dependent, owner):
                self._suspects |= own
                return
            await self._pause(dependent)
        self._finish(kind, owner, _FOREGROUND)

    def _look_at(self, kind: Kind, dependent: JSON) -> None:
        """End an object whose owners are gone or wait for it; one with another owner stays, and loses these."""
        metadata = dependent["metadata"]
        references = _references(dependent)
        if metadata.get("deletionTimestamp") or not references or not all(map(partial(_can_look_up, kind), references)):
            return
        owners = {reference["uid"]: self._owner(dependent, reference) for reference in references}
        waiting = {uid for uid, owner in owners.items() if owner is not None and _waits_for_dependents(owner)}
        lost = {uid for uid, owner in owners.items() if owner is None}
        if len(waiting) + len(lost) < len(owners):
            if waiting or lost:
                self._change_owners(kind, dependent, partial(_without, uids=waiting | lost))
            return
        own = list(self._found(self._dependents.get(metadata["uid"], ()))) if waiting else []
        if any(_waits_for_dependents(one) for _, one in own):
            # It may be a circle, in which each would wait for the next one.
            self._change_owners(kind, dependent, _unblocked)
        options = DeleteOptions(uid=metadata["uid"], finalizer=_FOREGROUND if own else None)
        with suppress(StatusError):
            self._registry.delete(kind, metadata.get("namespace", ""), metadata["name"], options)

    def _found(self, keys: Iterable[Key]) -> Iterator[tuple[Kind, JSON]]:
        """The objects that are still there when it is their turn, by kind, namespace and name."""
        for key in sorted(keys):
            one = self._objects.get(key)
            if one is not None:
                yield kind_named(key.kind), one

    def _owner(self, dependent: JSON, reference: JSON) -> JSON | None:
        kind = _OWNED_BY[reference["apiVersion"], reference["kind"]]
        owner = self._objects.get(kind.key(dependent["metadata"].get("namespace", ""), reference["name"]))
        return owner if owner is not None and owner["metadata"]["uid"] == reference["uid"] else None

    def _change_owners(self, kind: Kind, dependent: JSON, change: Callable[[list[JSON]], list[JSON]]) -> None:
        metadata = dependent["metadata"]

        def changed(found: JSON) -> JSON:
            return _with(found, "ownerReferences", change(_references(found)))

        self._registry.update(kind, metadata.get("namespace", ""), metadata["name"], changed)

    def _finish(self, kind: Kind, owner: JSON, finalizer: str) -> None:
        """Take a finalizer away, where that has not been done meanwhile."""
        metadata, now = owner["metadata"], self._objects.get(_key(kind, owner))
        if now is None or now["metadata"]["uid"] != metadata["uid"]:
            return

        def without_finalizer(found: JSON) -> JSON:
            left = [one for one in found["metadata"].get("finalizers") or () if one != finalizer]
            return _with(found, "finalizers", left)

        self._registry.update(kind, metadata.get("namespace", ""), metadata["name"], without_finalizer)


def _with(found: JSON, field: str, values: list[Any]) -> JSON:
    """An object with another list in its metadata; an empty one is left out."""
    metadata = {name: value for name, value in found["metadata"].items() if name != field}
    return {**found, "metadata": {**metadata, **({field: values} if values else {})}}


def _references(dependent: JSON) -> list[JSON]:
    return dependent["metadata"].get("ownerReferences") or []


def _key(kind: Kind, one: JSON) -> Key:
    return kind.key(one["metadata"].get("namespace", ""), one["metadata"]["name"])


def _can_look_up(kind: Kind, reference: JSON) -> bool:
    """Whether there can be such an owner: it is of a known kind, and what has no namespace has none in one."""
    owner = _OWNED_BY.get((reference["apiVersion"], reference["kind"]))
    return owner is not None and (kind.namespaced or not owner.namespaced)


def _blocks(dependent: JSON, owner: JSON) -> bool:
    uid = owner["metadata"]["uid"]
    return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in _references(dependent))


def _waits_for_dependents(owner: JSON) -> bool:
    metadata = owner["metadata"]
    return bool(metadata.get("deletionTimestamp")) and _FOREGROUND in (metadata.get("finalizers") or ())


def _without(references: list[JSON], uids: Collection[str]) -> list[JSON]:
    return [one for one in references if one["uid"] not in uids]


def _unblocked(references: list[JSON]) -> list[JSON]:
    return [{**one, "blockOwnerDeletion": False} if one.get("blockOwnerDeletion") else one for one in references]


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
