"""The controller that ends namespaces: it deletes what is in them, and takes its finalizer when nothing is left.

A namespace is looked at five seconds after each write to it since its deletion, so that others learn of the deletion
first. From 1.33 on its pods go before everything else. While something is left the controller looks again after half of
the longest grace of a pod, or of 15 s for objects with finalizers, and writes into the namespace's conditions what is
left and why. An object that stays without reason is an error: the next look comes after a back-off.

Source: pkg/controller/namespace/namespace_controller.go, deletion/namespaced_resources_deleter.go,
deletion/status_condition_utils.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ..._internal.change import Noted
from ..._internal.doors import Door
from ...model.clock import Clock
from ...model.version import Difference, Version
from ..api.errors import StatusError
from ..api.registry.kinds import KINDS, Kind, kind_named
from ..api.registry.registry import Registry
from ..objects.objects import JSON, Verb, Written, copied
from ..objects.pod_json import has_ended

__all__ = ["NamespaceDeletion"]

_PODS_FIRST: Final = Difference(
    "the pods of a deleted namespace are gone before anything else in it is deleted",
    {"1.26": False, "1.33": True},
    "pkg/features/kube_features.go, ``OrderedNamespaceDeletion``; pkg/controller/namespace/deletion/"
    "namespaced_resources_deleter.go, ``deleteAllContent`` (kubernetes v1.32.13, v1.33.13)",
)

_SYNC: Final = Door("deletion of a namespace")
_GRACE_S: Final = 5.0
_FIRST_BACKOFF_S: Final = 0.005
_MAX_BACKOFF_S: Final = 60.0
_FINALIZER: Final = "kubernetes"
_FINALIZERS_S: Final = 15
"""How long the removal of finalizers is thought to take."""
_NAMESPACES: Final = kind_named("namespaces")
_PODS: Final = kind_named("pods")
_CONTENT: Final = tuple(
    kind for kind in KINDS if kind.namespaced and not kind.stored_as and "delete" in kind.verbs and kind is not _PODS
)
_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""Condition -> its reason and message where nothing is wrong, in the order in which a namespace gets them."""


@dataclass(slots=True)
class _Left:
    """What is left in a namespace.

    Attributes:
        estimate_s: in how many seconds it is thought to be gone; 0 where nobody knows.
        errors: why something could not be deleted.
        kinds: ``plural.group`` -> objects.
        finalizers: finalizer -> objects that have it.
    """

    estimate_s: int = 0
    errors: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Look:
    due_at: float
    wait: asyncio.Task[None]


class NamespaceDeletion:
    """Ends the namespaces of a cluster that are deleted, for as long as `run` runs.

    Args:
        registry: the cluster's objects.
        clock: its time.
        release: the controller's.
    """

    def __init__(self, registry: Registry, clock: Clock, release: Version) -> None:
        self._registry = registry
        self._clock = clock
        self._pods_first = _PODS_FIRST.at(release)
        self._planned: dict[str, _Look] = {}
        self._failures: Counter[str] = Counter()
        self._deleted = Noted(filter(None, map(_deleted, registry.objects.all_of(_NAMESPACES.key_kind))))
        registry.objects.subscribe(_NAMESPACES.key_kind, self._note)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            await self._deleted.look_at_each(lambda name: self._plan(name, _GRACE_S, tasks), _SYNC)

    def _note(self, written: Written) -> None:
        if written.verb is not Verb.DELETED and (name := _deleted(written.object)):
            self._deleted.note(name)

    def _plan(self, name: str, delay_s: float, tasks: asyncio.TaskGroup) -> None:
        """Look at a namespace in so many seconds, or before where that is planned already."""
        due_at = self._clock.now() + delay_s
        if (planned := self._planned.get(name)) is not None:
            if planned.due_at <= due_at:
                return
            planned.wait.cancel()
        wait = tasks.create_task(self._look_in(delay_s, name, tasks), name=f"deletion of namespace {name}")
        self._planned[name] = _Look(due_at, wait)

    async def _look_in(self, delay_s: float, name: str, tasks: asyncio.TaskGroup) -> None:
        await self._clock.sleep(delay_s)
        del self._planned[name]
        key = _NAMESPACES.key("", name)
        namespace = self._registry.objects.get(key)
        if namespace is None or not namespace["spec"].get("finalizers"):
            self._failures.pop(name, None)
            return
        again_s = None
        with _SYNC(name, partial(self._registry.objects.record_failure, key, namespace)) as passage:
            again_s = self._end(namespace, name)
        if passage.error is not None:
            again_s = self._backoff_s(name)
        if again_s is not None:
            self._plan(name, again_s, tasks)

    def _end(self, namespace: JSON, name: str) -> float | None:
        """Bring a namespace to its end; in how many seconds to look again where something is left."""
        left = self._empty(namespace, name)
        if left.errors:
            return self._backoff_s(name)
        if left.estimate_s:
            return left.estimate_s // 2 + 1
        self._failures.pop(name, None)
        self._registry.update(_NAMESPACES, "", name, _without_finalizer, subresource="finalize")
        return None

    def _backoff_s(self, name: str) -> float:
        self._failures[name] += 1
        # Beyond that no number of failures changes anything.
        doubled = min(self._failures[name] - 1, 20)
        return min(_FIRST_BACKOFF_S * float(2**doubled), _MAX_BACKOFF_S)

    def _empty(self, namespace: JSON, name: str) -> _Left:
        """Delete what is in a namespace, and write down what is left."""
        deleted_at = self._registry.objects.wall_time.seconds(namespace["metadata"]["deletionTimestamp"])
        left = _Left()
        if self._pods_first:
            self._delete_all(_PODS, name, deleted_at, left)
            if left.kinds:
                # The conditions do not name these pods yet.
                self._publish(name, _Left(errors=left.errors))
                return left
        for kind in _CONTENT if self._pods_first else (*_CONTENT, _PODS):
            self._delete_all(kind, name, deleted_at, left)
        self._publish(name, left)
        return left

    def _delete_all(self, kind: Kind, namespace: str, deleted_at: float, left: _Left) -> None:
        """Delete the objects of one kind, and add what stays to what is left."""
        objects = self._registry.objects
        estimate_s = _longest_grace_s(objects.all_of(kind.key_kind, namespace)) if kind is _PODS else 0
        if objects.wall_time.elapsed() - deleted_at >= estimate_s:
            estimate_s = 0
        try:
            for name in [one["metadata"]["name"] for one in objects.all_of(kind.key_kind, namespace)]:
                # One may have gone with another.
                if objects.get(kind.key(namespace, name)) is not None:
                    self._registry.delete(kind, namespace, name)
        except StatusError as error:
            left.errors.append(str(error))
            left.estimate_s = max(left.estimate_s, estimate_s)
            return
        stay = objects.all_of(kind.key_kind, namespace)
        if not stay:
            return
        finalizers = Counter(finalizer for one in stay for finalizer in one["metadata"].get("finalizers") or ())
        left.kinds[f"{kind.plural}.{kind.group}"] += len(stay)
        if estimate_s or finalizers:
            left.finalizers += finalizers
            left.estimate_s = max(left.estimate_s, estimate_s or _FINALIZERS_S)
            return
        resource = f"{kind.group}/{kind.version}, Resource={kind.plural}"
        left.errors.append(f"unexpected items still remain in namespace: {namespace} for gvr: {resource}")

    def _publish(self, name: str, left: _Left) -> None:
        """Write the conditions of a namespace, where they say something new."""
        now = self._registry.objects.wall_time.now()

        def change(namespace: JSON) -> JSON:
            status = namespace.get("status") or {}
            conditions = [copied(one) for one in status.get("conditions") or ()]
            by_type = {one["type"]: one for one in conditions}
            for new in _conditions(left, now):
                old = by_type.get(new["type"])
                if old is None:
                    conditions.append(new)
                    continue
                if old["status"] == new["status"]:
                    new["lastTransitionTime"] = old["lastTransitionTime"]
                old.update(new)
            return {**namespace, "status": {**status, "conditions": conditions}}

        self._registry.update(_NAMESPACES, "", name, change, subresource="status")


def _deleted(namespace: JSON) -> str:
    """The name of a namespace that is deleted; empty for others."""
    metadata = namespace["metadata"]
    return str(metadata["name"]) if metadata.get("deletionTimestamp") else ""


def _longest_grace_s(pods: list[JSON]) -> int:
    alive = (pod for pod in pods if not has_ended(pod))
    return max((int(pod["spec"].get("terminationGracePeriodSeconds") or 0) for pod in alive), default=0)


def _without_finalizer(namespace: JSON) -> JSON:
    """A namespace whose content is gone."""
    others = sorted({*namespace["spec"].get("finalizers", ())} - {_FINALIZER})
    return {**namespace, "spec": {**namespace["spec"], "finalizers": others}}


def _conditions(left: _Left, now: str) -> list[JSON]:
    """The conditions of a namespace, in their order."""
    wrong: dict[str, tuple[str, str]] = {}
    if left.errors:
        text = f"Failed to delete all resource types, {len(left.errors)} remaining: {', '.join(sorted(left.errors))}"
        wrong["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", text)
    if left.kinds:
        text = f"Some resources are remaining: {_counted(left.kinds, '{} has {} resource instances')}"
        wrong["NamespaceContentRemaining"] = ("SomeResourcesRemain", text)
    if left.finalizers:
        counted = _counted(left.finalizers, "{} in {} resource instances")
        text = f"Some content in the namespace has finalizers remaining: {counted}"
        wrong["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    return [
        {
            "type": type_,
            "status": "True" if type_ in wrong else "False",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }
        for type_, (reason, message) in (_FINE | wrong).items()
    ]


def _counted(counts: Mapping[str, int], text: str) -> str:
    return ", ".join(sorted(text.format(name, count) for name, count in counts.items()))
