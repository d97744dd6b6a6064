"""The controller of DaemonSets: creates and deletes their pods, writes their status, and keeps their revisions.

It looks at each DaemonSet after every change; `daemonset_plan` decides what to do. A failed pod is replaced after a
back-off of 1 s that doubles up to 15 minutes. A ControllerRevision holds each template, the current one with the
highest number; the hash in its name is computed from the template's JSON, so it has another value than a real one.

Source: pkg/controller/daemon/daemon_controller.go, ``syncDaemonSet``, ``syncNodes``; pkg/controller/daemon/update.go,
``constructHistory``, ``snapshot``, ``cleanupHistory``; pkg/controller/daemon/util/daemonset_util.go,
``CreatePodTemplate``, ``ReplaceDaemonSetPodNodeNameNodeAffinity``; pkg/controller/controller_utils.go,
``RealPodControl``, ``GetPodFromTemplate``; cmd/kube-controller-manager/app/apps.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Container, Sequence
from functools import partial
from typing import Final

from ..._internal.change import Change, first_done
from ..._internal.doors import Door
from ...model.clock import Clock
from ..api.errors import NAMESPACE_TERMINATING, StatusError
from ..api.registry.kinds import Kind, kind_named
from ..api.registry.registry import Registry
from ..objects.events import EventRecorder
from ..objects.objects import JSON
from ..strategies.daemonsets import template_generation
from .daemonset_plan import (
    GENERATION_LABEL,
    HASH_LABEL,
    DaemonSetView,
    Plan,
    by_node,
    daemon_tolerations,
    manage,
    rolling_update,
    status,
)

__all__ = ["DaemonSetController", "new_pod"]

_REVISIONS: Final[Kind] = kind_named("controllerrevisions.apps")

_SYNC: Final = Door("sync of a DaemonSet")
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_COMPONENT: Final = "daemonset-controller"
_DAEMON_SETS: Final = kind_named("daemonsets.apps")
_PODS: Final = kind_named("pods")
_FIRST_BACKOFF_S: Final = 1.0
_MAX_BACKOFF_S: Final = 15 * 60.0
_RETRY_S: Final = 1.0
_FAILED_RETRY_S: Final = 10.0
_MAX_PREFIX: Final = 253
_ALWAYS_PRESENT: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
"""Counts that a status has even where they are 0."""


class DaemonSetController:
    """Looks after all DaemonSets of a cluster for as long as `run` runs."""

    def __init__(self, registry: Registry, clock: Clock, events: EventRecorder) -> None:
        self._registry = registry
        self._objects = registry.objects
        self._clock = clock
        self._events = events
        self._change = Change()
        for kind in ("nodes", _PODS.key_kind, _DAEMON_SETS.key_kind):
            self._objects.subscribe(kind, lambda _: self._change.notify())
        self._backoffs: dict[tuple[str, int, str], tuple[float, float]] = {}
        """(uid, observed generation, node) -> (seconds, since when)."""

    async def run(self) -> None:
        """Look after each change until cancelled."""
        while True:
            seen = self._change.count
            delays = [self._sync_or_retry(daemon_set) for daemon_set in self._objects.all_of(_DAEMON_SETS.key_kind)]
            await self._next(seen, min((delay for delay in delays if delay is not None), default=None))

    async def _next(self, seen: int, delay_s: float | None) -> None:
        """Wait for a change; what the look itself has written is one, and another look then writes nothing."""
        timer = () if delay_s is None else (self._clock.sleep(delay_s),)
        await first_done(self._change.wait(seen), *timer)

    def _sync_or_retry(self, daemon_set: JSON) -> float | None:
        """Bring one set on its way, or look at one again that fails."""
        name = f"{daemon_set['metadata']['namespace']}/{daemon_set['metadata']['name']}"
        with _SYNC(name, partial(self._record, daemon_set, "Warning", "FailedSync")):
            return self._sync(daemon_set)
        return _FAILED_RETRY_S

    def _sync(self, daemon_set: JSON) -> float | None:
        """Bring one set on its way; in how many seconds to look again without any change, None for never."""
        if daemon_set["metadata"].get("deletionTimestamp"):
            return None
        view = DaemonSetView(daemon_set, _current_revision(self._registry, daemon_set), self._objects.wall_time)
        nodes = self._objects.all_of("nodes")
        again = [self._act(view, self._plan(view, nodes))]
        pods = self._pods(daemon_set)
        hashes = {str((pod["metadata"].get("labels") or {}).get(HASH_LABEL)) for pod in pods}
        _drop_old_revisions(self._registry, daemon_set, view.revision_hash, hashes)
        here = by_node(pods)
        self._publish(daemon_set, status(view, nodes, here))
        again.append(view.available_in_s(pods))
        again += [self._backoff_left(view.object, name) for name in here]
        return min((delay for delay in again if delay), default=None)

    def _plan(self, view: DaemonSetView, nodes: list[JSON]) -> Plan:
        pods = by_node(self._pods(view.object))
        plan = manage(view, nodes, pods, lambda node: self._backoff_left(view.object, node) is not None)
        if not plan and view.is_rolling:
            return rolling_update(view, nodes, pods)
        return plan

    def _act(self, view: DaemonSetView, plan: Plan) -> float | None:
        daemon_set = view.object
        namespace = daemon_set["metadata"]["namespace"]
        retry_s = None
        for name, (node, phase) in plan.ended.items():
            self._replace_ended(daemon_set, f"{namespace}/{name}", node, phase)
        for node in plan.create_on:
            try:
                pod = self._registry.create(_PODS, namespace, new_pod(daemon_set, node, view.revision_hash))
            except StatusError as error:
                if error.has_cause(NAMESPACE_TERMINATING):
                    break
                self._record(daemon_set, "Warning", "FailedCreate", f"Error creating: {error}")
                retry_s = _RETRY_S
            else:
                text = f"Created pod: {pod['metadata']['name']}"
                self._record(daemon_set, "Normal", "SuccessfulCreate", text)
        for name in plan.delete:
            self._registry.delete(_PODS, namespace, name)
            self._record(daemon_set, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
        return retry_s

    def _replace_ended(self, daemon_set: JSON, pod: str, node: str, phase: str) -> None:
        if phase == "Succeeded":
            text = f"Found succeeded daemon pod {pod} on node {node}, will try to delete it"
            self._record(daemon_set, "Normal", "SucceededDaemonPod", text)
            return
        text = f"Found failed daemon pod {pod} on node {node}, will try to kill it"
        self._record(daemon_set, "Warning", "FailedDaemonPod", text)
        key = _backoff_key(daemon_set, node)
        now = self._clock.now()
        seconds, since = self._backoffs.get(key, (0.0, now))
        if now - since > 2 * _MAX_BACKOFF_S:
            seconds = 0.0
        self._backoffs[key] = (min(2 * seconds, _MAX_BACKOFF_S) or _FIRST_BACKOFF_S, now)

    def _record(self, daemon_set: JSON, type_: str, reason: str, message: str) -> None:
        metadata = daemon_set["metadata"]
        names = ("namespace", "name", "uid", "resourceVersion")
        about = {"kind": "DaemonSet", "apiVersion": "apps/v1", **{name: metadata[name] for name in names}}
        self._events.record(about, type_, reason, message, _COMPONENT)

    def _backoff_left(self, daemon_set: JSON, node: str) -> float | None:
        seconds, since = self._backoffs.get(_backoff_key(daemon_set, node), (0.0, 0.0))
        left = since + seconds - self._clock.now()
        return left if left > 0 else None

    def _publish(self, daemon_set: JSON, new: JSON) -> None:
        old = daemon_set.get("status") or {}
        counts = {name: count for name, count in new.items() if count or name in _ALWAYS_PRESENT}
        if {name: old.get(name, 0) for name in new} == new:
            return
        metadata = daemon_set["metadata"]
        self._registry.update(
            _DAEMON_SETS,
            metadata["namespace"],
            metadata["name"],
            lambda found: {**found, "status": {**_kept(found), **counts}},
            subresource="status",
        )

    def _pods(self, daemon_set: JSON) -> list[JSON]:
        """The pods that this set has made."""
        uid = daemon_set["metadata"]["uid"]
        every = self._objects.all_of("pods", daemon_set["metadata"]["namespace"])
        return [pod for pod in every if _is_controlled_by(pod, uid)]


def _kept(daemon_set: JSON) -> JSON:
    """What of a status the controller does not count."""
    found: JSON = daemon_set.get("status") or {}
    return {name: found[name] for name in ("collisionCount", "conditions") if name in found}


def _is_controlled_by(pod: JSON, uid: str) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == uid for owner in owners)


def _backoff_key(daemon_set: JSON, node: str) -> tuple[str, int, str]:
    generation = (daemon_set.get("status") or {}).get("observedGeneration", 0)
    return daemon_set["metadata"]["uid"], generation, node


def _current_revision(registry: Registry, daemon_set: JSON) -> str:
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
            _REVISIONS, metadata["namespace"], metadata["name"], lambda revision: {**revision, "revision": newest}
        )
    return str(metadata["labels"][HASH_LABEL])


def _drop_old_revisions(registry: Registry, daemon_set: JSON, current: str, used: Container[str]) -> None:
    """Remove the oldest revisions beyond the set's limit, but those of which there are pods."""
    old = [one for one in _history(registry, daemon_set) if one["metadata"]["labels"][HASH_LABEL] != current]
    too_many = len(old) - int(daemon_set["spec"].get("revisionHistoryLimit", 10))
    for revision in old:
        if too_many > 0 and revision["metadata"]["labels"][HASH_LABEL] not in used:
            registry.delete(_REVISIONS, revision["metadata"]["namespace"], revision["metadata"]["name"])
            too_many -= 1


def _history(registry: Registry, daemon_set: JSON) -> Sequence[JSON]:
    """The set's revisions, oldest first."""
    uid = daemon_set["metadata"]["uid"]
    every = registry.objects.all_of(_REVISIONS.key_kind, daemon_set["metadata"]["namespace"])
    own = [one for one in every if any(owner["uid"] == uid for owner in one["metadata"].get("ownerReferences", ()))]
    return sorted(own, key=lambda revision: int(revision["revision"]))


def _create(registry: Registry, daemon_set: JSON, data: JSON, number: int) -> str:
    metadata = daemon_set["metadata"]
    digest = _hash(daemon_set["spec"]["template"])
    labels = (daemon_set["spec"]["template"].get("metadata") or {}).get("labels") or {}
    body = {
        "apiVersion": _REVISIONS.api_version,
        "kind": _REVISIONS.kind,
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "labels": {**labels, HASH_LABEL: digest},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [_owner_reference(daemon_set)],
        },
        "data": data,
        "revision": number,
    }
    registry.create(_REVISIONS, metadata["namespace"], body)
    return digest


def _hash(template: JSON) -> str:
    value = _FNV_OFFSET
    for byte in json.dumps(template, sort_keys=True).encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(value))


def new_pod(daemon_set: JSON, node: str, revision_hash: str) -> JSON:
    """The pod for a node, as the controller creates it: the scheduler binds it by its affinity to the node's name."""
    template = copy.deepcopy(daemon_set["spec"]["template"])
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: revision_hash}
    generation = template_generation(daemon_set)
    if generation is not None:
        labels[GENERATION_LABEL] = generation
    spec = template["spec"]
    spec["tolerations"] = daemon_tolerations(spec)
    spec["affinity"] = _affinity(spec.get("affinity"), node)
    made = {
        "generateName": f"{daemon_set['metadata']['name']}-"[:_MAX_PREFIX],
        "labels": labels,
        "ownerReferences": [_owner_reference(daemon_set)],
    }
    kept = {name: metadata[name] for name in ("annotations", "finalizers") if metadata.get(name)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**made, **kept}, "spec": spec}


def _owner_reference(daemon_set: JSON) -> JSON:
    """How what a DaemonSet has made names it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": daemon_set["metadata"]["name"],
        "uid": daemon_set["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _affinity(affinity: JSON | None, node: str) -> JSON:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [term]}
    own = affinity or {}
    about_nodes = {**(own.get("nodeAffinity") or {}), "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**own, "nodeAffinity": about_nodes}
