"""The controller of DaemonSets: looks at each after every change, creates and deletes its pods, writes its status.

What to do is decided in `plan`. A failed pod is replaced after a back-off of 1 s that doubles up to 15 minutes.

Source: pkg/controller/daemon/daemon_controller.go, ``syncDaemonSet``, ``syncNodes``; pkg/controller/
controller_utils.go, ``RealPodControl``; cmd/kube-controller-manager/app/apps.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ...._internal.change import Change
from ...._internal.first_done import first_done
from ....model.clock import Clock
from ...api.errors import StatusError
from ...api.registry.kinds import kind_named
from ...api.registry.registry import Registry
from ...objects.event_recorder import EventRecorder
from ...objects.objects import JSON
from .placement import HASH_LABEL, new_pod
from .plan import DaemonSetView, Plan, by_node, manage, rolling_update, status
from .revisions import current_revision, drop_old_revisions

__all__ = ["DaemonSetController"]

COMPONENT: Final = "daemonset-controller"
_DAEMON_SETS: Final = kind_named("daemonsets.apps")
_PODS: Final = kind_named("pods")
_FIRST_BACKOFF_S: Final = 1.0
_MAX_BACKOFF_S: Final = 15 * 60.0
_RETRY_S: Final = 1.0


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
            delays = [self._sync(daemon_set) for daemon_set in self._objects.all_of(_DAEMON_SETS.key_kind)]
            await self._next(seen, min((delay for delay in delays if delay is not None), default=None))

    async def _next(self, seen: int, delay_s: float | None) -> None:
        """Wait for a change; what the look itself has written is one, and another look then writes nothing."""
        timer = () if delay_s is None else (self._clock.sleep(delay_s),)
        await first_done(self._change.wait(seen), *timer)

    def _sync(self, daemon_set: JSON) -> float | None:
        """Bring one set on its way; in how many seconds to look again without any change, None for never."""
        if daemon_set["metadata"].get("deletionTimestamp"):
            return None
        view = DaemonSetView(daemon_set, current_revision(self._registry, daemon_set), self._objects.wall_time)
        nodes = self._objects.all_of("nodes")
        again = [self._act(view, self._plan(view, nodes))]
        pods = self._pods(daemon_set)
        hashes = {str((pod["metadata"].get("labels") or {}).get(HASH_LABEL)) for pod in pods}
        drop_old_revisions(self._registry, daemon_set, view.revision_hash, hashes)
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
        self._events.record(about, type_, reason, message, COMPONENT)

    def _backoff_left(self, daemon_set: JSON, node: str) -> float | None:
        seconds, since = self._backoffs.get(_backoff_key(daemon_set, node), (0.0, 0.0))
        left = since + seconds - self._clock.now()
        return left if left > 0 else None

    def _publish(self, daemon_set: JSON, new: JSON) -> None:
        old = daemon_set.get("status") or {}
        counts = {name: count for name, count in new.items() if count or name in _ALWAYS_TOLD}
        if {name: old.get(name, 0) for name in new} == new:
            return
        metadata = daemon_set["metadata"]
        self._registry.update(
            _DAEMON_SETS,
            metadata["namespace"],
            metadata["name"],
            lambda found: {**found, "status": {**_kept(found), **counts}},
            status=True,
        )

    def _pods(self, daemon_set: JSON) -> list[JSON]:
        """The pods that this set has made."""
        uid = daemon_set["metadata"]["uid"]
        every = self._objects.all_of("pods", daemon_set["metadata"]["namespace"])
        return [pod for pod in every if _is_controlled_by(pod, uid)]


_ALWAYS_TOLD: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
"""Counts that stand in a status even where they are 0."""


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
