"""The controllers of nodes: the taints by which they mark what nodes report, and the pods that those taints evict.

A node that is silent for a while is tainted as unreachable. A NoExecute taint ends the pods that do not tolerate it, or
no longer.

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go, without zones and their rates;
pkg/controller/util/node/controller_utils.go; pkg/controller/tainteviction/taint_eviction.go (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ..._internal.change import Noted
from ..._internal.doors import Door
from ...model.clock import Clock
from ...model.node import Node
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ..objects.node_selection import Tolerations
from ..objects.objects import JSON, Key, Written
from ..store import Store
from .pod_evictions import EvictionTexts, PodEvictions

__all__ = ["NodeLifecycle", "TaintEviction"]

_TAINTS_OF_NODE: Final = Door("taints of a node")
_HEALTH: Final = Door("health of a node")
_EVICTIONS_OF_NODE: Final = Door("evictions from a node")
_EVICTION_OF_POD: Final = Door("eviction of a pod by taints")
_FAILED: Final = "FailedSync"
_NODE_LIFECYCLE: Final = "node-controller"
_PERIOD_S: Final = 5.0
_GRACE_S: Final = 50.0
_LEASES: Final = ("leases.coordination.k8s.io", "kube-node-lease")
_READY: Final = "Ready"
_WATCHED: Final = (_READY, "MemoryPressure", "DiskPressure", "PIDPressure")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_TAINTS: Final[Mapping[tuple[str, str], str]] = {
    (_READY, "False"): _NOT_READY,
    (_READY, "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
"""Condition and status -> the taint that keeps new pods away."""
_OWN: Final = frozenset({(key, "NoSchedule") for key in (*_TAINTS.values(), _UNSCHEDULABLE)}) | {
    (_NOT_READY, "NoExecute"),
    (_UNREACHABLE, "NoExecute"),
}
_EVICTION: Final = EvictionTexts(
    component="taint-eviction-controller",
    reason="TaintManagerEviction",
    ends="Marking for deletion Pod {pod}",
    spares="Cancelling deletion of Pod {pod}",
    condition=Condition(
        ConditionType.DISRUPTION_TARGET,
        True,
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    ),
)


@dataclass(slots=True)
class _Health:
    """What a node reported last, and when that was first seen."""

    reported: tuple[object, ...]
    seen_at: float


class NodeLifecycle:
    """Looks after the nodes of one cluster for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._health: dict[str, _Health] = {}
        self._changed = Noted(node.name for node in store.all_nodes)
        store.objects.subscribe("nodes", self._note)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._monitor())
            await self._changed.look_at_each(self._taint, _TAINTS_OF_NODE, self._record_failure)

    def _note(self, written: Written) -> None:
        self._changed.note(written.key.name)

    async def _monitor(self) -> None:
        while True:
            for node in self._store.all_nodes:
                with _HEALTH(node.name, partial(self._record_failure, node.name)):
                    self._look_at(node)
            for name in self._health.keys() - self._store.nodes.keys():
                del self._health[name]
            await self._clock.sleep(_PERIOD_S)

    def _look_at(self, node: Node) -> None:
        reported, now = self._reported_by(node), self._clock.now()
        health = self._health.get(node.name)
        if health is None:
            self._record(node, "RegisteredNode", f"Node {node.name} event: Registered Node {node.name} in Controller")
        if health is None or health.reported != reported:
            self._health[node.name] = _Health(reported, now)
        elif now - health.seen_at > _GRACE_S:
            self._mark_silent(node)

    def _reported_by(self, node: Node) -> tuple[object, ...]:
        ready = _condition(node, _READY) or {}
        lease = self._store.objects.get(Key(*_LEASES, node.name)) or {}
        return ready.get("lastHeartbeatTime"), (lease.get("spec") or {}).get("renewTime")

    def _mark_silent(self, node: Node) -> None:
        ready = _condition(node, _READY)
        if ready is not None and ready["status"] == "Unknown":
            return
        status = node.manifest.get("status") or {}
        now = self._store.objects.wall_time.now()
        by_type = {each["type"]: each for each in status.get("conditions") or ()}
        created = node.manifest["metadata"]["creationTimestamp"]
        for type_ in _WATCHED:
            by_type[type_] = _unknown(type_, by_type.get(type_), created, now)
        body = {**node.manifest, "status": {**status, "conditions": list(by_type.values())}}
        self._store.objects.replace(Key("nodes", "", node.name), body)
        if ready is not None and ready["status"] == "True":
            self._record(node, "NodeNotReady", f"Node {node.name} status is now: NodeNotReady")
            self._mark_pods(node.name)

    def _mark_pods(self, node: str) -> None:
        for pod in self._store.pods_on(node):
            ready = pod.status.condition(ConditionType.READY)
            if ready is not None and ready.is_true:
                not_ready = Condition(ConditionType.READY, False, ready.reason, ready.message)
                self._store.patch_pod_status(pod.uid, not_ready)
                self._store.record(pod, "Warning", "NodeNotReady", "Node is not ready", _NODE_LIFECYCLE, host="")

    def _taint(self, name: str) -> None:
        """Give a node the taints that follow from its conditions, and take back those that do no more."""
        node = self._store.node(name)
        if node is None:
            return
        wanted = dict.fromkeys(_wanted(node))
        taints = node.manifest["spec"].get("taints") or []
        kept = [each for each in taints if _place(each) not in _OWN or _place(each) in wanted]
        known = {_place(each) for each in kept}
        now = self._store.objects.wall_time.now()
        added = [
            {"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in known
        ]
        if added or len(kept) < len(taints):
            spec = {name: value for name, value in node.manifest["spec"].items() if name != "taints"}
            if kept or added:
                spec["taints"] = [*kept, *added]
            self._store.objects.replace(Key("nodes", "", name), {**node.manifest, "spec": spec})

    def _record(self, node: Node, reason: str, message: str) -> None:
        about = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.manifest["metadata"]["uid"]}
        self._store.recorder.record(about, "Normal", reason, message, _NODE_LIFECYCLE)

    def _record_failure(self, node: str, error: str) -> None:
        self._store.recorder.record(_node(node), "Warning", _FAILED, error, _NODE_LIFECYCLE)


def _wanted(node: Node) -> Iterable[tuple[str, str]]:
    """(key, effect) of each taint that a node is to have."""
    for condition in (node.manifest.get("status") or {}).get("conditions") or ():
        key = _TAINTS.get((condition["type"], condition["status"]))
        if key is not None:
            yield key, "NoSchedule"
            if condition["type"] == _READY:
                yield key, "NoExecute"
    if node.is_unschedulable:
        yield _UNSCHEDULABLE, "NoSchedule"


def _place(taint: Mapping[str, Any]) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _condition(node: Node, type_: str) -> Mapping[str, Any] | None:
    conditions = (node.manifest.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), None)


def _unknown(type_: str, old: Mapping[str, Any] | None, created: str, now: str) -> JSON:
    if old is None:
        return {
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": created,
            "lastTransitionTime": now,
        }
    if old["status"] == "Unknown":
        return dict(old)
    silent = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    return {**old, "status": "Unknown", **silent, "lastTransitionTime": now}


class TaintEviction:
    """Ends the pods of one cluster that taints drive away, for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._evictions = PodEvictions(store, clock, _EVICTION)
        self._began_at: dict[PodUID, float] = {}
        self._nodes = Noted(node.name for node in store.all_nodes)
        store.objects.subscribe("nodes", self._note_node)
        store.objects.subscribe("pods", self._note_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            await self._nodes.look_at_each(lambda name: self._settle(name, tasks), _EVICTIONS_OF_NODE, self._record)

    def _note_node(self, written: Written) -> None:
        self._nodes.note(written.key.name)

    def _note_pod(self, written: Written) -> None:
        node = written.object["spec"].get("nodeName")
        uid = PodUID(written.object["metadata"]["uid"])
        if node is not None and (uid in self._evictions or _taints_of(self._store, node)):
            self._nodes.note(node)

    def _settle(self, node: str, tasks: asyncio.TaskGroup) -> None:
        taints = _taints_of(self._store, node)
        for pod in self._store.pods_on(node):
            if not pod.is_deleting:
                with _EVICTION_OF_POD(pod.key, partial(self._evictions.record_failure, pod)):
                    self._consider(pod, taints, tasks)
        for uid in self._evictions:
            if self._store.pod(uid) is None:
                self._evictions.forget(uid)
        for uid in self._began_at.keys() - set(self._evictions):
            del self._began_at[uid]

    def _record(self, node: str, error: str) -> None:
        self._store.recorder.record(_node(node), "Warning", _FAILED, error, _EVICTION.component)

    def _consider(self, pod: Pod, taints: Sequence[Mapping[str, Any]], tasks: asyncio.TaskGroup) -> None:
        stay_s = _tolerated_s(taints, pod.spec.get("tolerations") or ())
        if stay_s is None:
            self._evictions.spare(pod)
            return
        # The time counts from when the taints were first seen.
        if pod.uid not in self._evictions:
            self._began_at[pod.uid] = self._clock.now()
        self._evictions.plan(pod, self._began_at[pod.uid] + stay_s, tasks)


def _node(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name}


def _taints_of(store: Store, name: str) -> list[Mapping[str, Any]]:
    """The NoExecute taints of a node."""
    node = store.node(name)
    taints = [] if node is None else (node.manifest.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if taint.get("effect") == "NoExecute"]


def _tolerated_s(taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> float | None:
    """How long a pod may stay: 0 where it does not tolerate them all, None where it may for ever."""
    by_taint, used = Tolerations(tolerations), []
    for taint in taints:
        first = by_taint.first_for(taint)
        if first is None:
            return 0.0
        used.append(first)
    limits = [float(each["tolerationSeconds"]) for each in used if each.get("tolerationSeconds") is not None]
    return max(min(limits), 0.0) if limits else None
