"""The scheduler of a cluster: gives pods that wait to nodes, one after the other.

`cycle` decides about one pod. This module follows the cluster's objects, updates what the scheduler knows of them and
its queue, and writes the result of each attempt. A scheduler that crashes is started again, and tries all pods again.

Source: pkg/scheduler/schedule_one.go, ``ScheduleOne``, ``handleSchedulingFailure`` (kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from ...model.clock import Clock
from ...model.events import SIMULATOR
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ...model.resources import ResourceName
from ...model.version import DYNAMIC_RESOURCES, EXTENDED_CLAIMS, FEATURE_GATES, Difference, Version
from ..api.registry.metadata import at_create
from ..objects.objects import JSON, Key, Verb, Written, copied
from ..store import Store
from .cluster_state import DEFAULT_SCHEDULER, ClusterState, PodInfo
from .cycle import Assignment, Failure, SchedulingCycles
from .dynamic_resources.allocator import SchedulerPanicError
from .dynamic_resources.extended_claims import classes_by_resource
from .dynamic_resources.inventory import CLAIMS, CLASSES, SLICES, Inventory
from .dynamic_resources.plugin import BoundClaim
from .event_handlers import EventHandlers
from .hints import Kind, ResourceEvent
from .queue import SchedulingQueue
from .refusals import Plugin, event_note

__all__ = ["Scheduler"]

_PREEMPTED_EVENT: Final = Difference(
    "message of a victim's Preempted event, with ``{pod}`` for the uid of the preempting pod and ``{node}``",
    {"1.26": "Preempted by a pod on node {node}", "1.29": "Preempted by pod {pod} on node {node}"},
    "scheduler/framework/preemption/preemption.go (kubernetes v1.28.15, v1.29.6)",
)

_DATES_ALLOCATIONS: Final = Difference(
    "an allocation of a claim has the time at which it was made",
    {"1.26": False, "1.36": True},
    "plugins/dynamicresources/dynamicresources.go, ``bindClaim``, with the gate DRADeviceBindingConditions "
    "(kubernetes v1.35.4, v1.36.3)",
)

_RESOURCE_KINDS: Final = {
    CLAIMS: Kind.CLAIM_WRITTEN,
    CLASSES: Kind.CLASS_WRITTEN,
    SLICES: Kind.SLICE_WRITTEN,
}
_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 300.0
_LEASE_S: Final = 15.0
_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_PREEMPTING: Final = f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod"


class Scheduler:
    """Follows a cluster from the moment it is made; binds its pending pods for as long as `run` runs.

    Args:
        store: the cluster.
        clock: its time.
        version: the scheduler's.
        gates: feature gate -> whether it is on, of those that a user has set.
    """

    def __init__(self, store: Store, clock: Clock, version: Version, gates: Mapping[str, bool] | None = None) -> None:
        serves_extended = FEATURE_GATES[EXTENDED_CLAIMS].is_on(version, gates or {})
        self._inventory = Inventory(store.objects, version, serves_extended=serves_extended)
        self._version = version
        self._has_claims = FEATURE_GATES[DYNAMIC_RESOURCES].is_on(version, gates or {})
        self._store = store
        self._clock = clock
        self._is_called = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None
        self._restarts = _Restarts()
        self._begin()
        store.objects.subscribe("nodes", self._follow_node)
        store.objects.subscribe("pods", self._follow_pod)
        for kind in _RESOURCE_KINDS:
            store.objects.subscribe(kind, self._follow_resource)

    def _begin(self) -> None:
        """Know only what is in the cluster now, its pods in the order in which the API server lists them."""
        self._state = ClusterState()
        self.queue = SchedulingQueue(self._clock.now, self._version, self._gate)
        self._cycles = SchedulingCycles(self._state, self._inventory if self._has_claims else None, self._version)
        self._handlers = EventHandlers(self._state, self.queue, self._version, self._inventory)
        for node in self._store.all_nodes:
            self._handlers.put_node(node)
        for pod in sorted(self._store.pods, key=lambda pod: (pod.namespace, pod.name)):
            self._handlers.put_pod(PodInfo(pod))

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as alarms:
            while True:
                self._is_called.clear()
                self.queue.flush()
                try:
                    outcome = self.try_next()
                except SchedulerPanicError:
                    await self._clock.sleep(self._restarts.away_s(self._clock.now()))
                    self._begin()
                    continue
                if outcome:
                    # One try after the other, and the kubelets in between.
                    self._is_called.set()
                    await asyncio.sleep(0)
                else:
                    self._set_alarm(alarms)
                await self._is_called.wait()

    def try_next(self) -> Assignment | Failure | None:
        """Try the pod whose turn it is, and write what came of it; None where none is to be tried now.

        Raises:
            SchedulerPanicError: the scheduler of this version would end here; an Event says so.
        """
        queued = self.queue.pop()
        if queued is None:
            return None
        pod = queued.pod
        if pod.metadata.get("deletionTimestamp"):
            skipped = Failure(f"skip schedule deleting pod: {pod.namespace}/{pod.name}")
            self._record_failure(pod.pod, skipped.message)
            return skipped
        try:
            outcome = self._cycles.try_pod(pod)
        except SchedulerPanicError as panic:
            message = f"kube-scheduler ended with this pod, and is started again: panic: {panic}"
            self._store.record(pod.pod, "Warning", "SchedulerCrashed", message, SIMULATOR, host="")
            raise
        if isinstance(outcome, Assignment):
            for bound in outcome.claims:
                self._bind_claim(pod, bound)
            self._bind(pod, outcome.node)
        else:
            self.queue.put_back(queued, outcome.rejectors)
            self._fail(pod, outcome)
        return outcome

    def _bind(self, pod: PodInfo, node: str) -> None:
        self._store.bind(pod.uid, node)
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._store.record(pod.pod, "Normal", "Scheduled", message, DEFAULT_SCHEDULER, action="Binding")

    def _bind_claim(self, pod: PodInfo, bound: BoundClaim) -> None:
        """Reserve a claim for a pod, with the devices that were found where it had none.

        Source: plugins/dynamicresources/dynamicresources.go, ``bindClaim`` (kubernetes v1.34.4).
        """
        objects, claim = self._store.objects, bound.claim
        if bound.mappings:
            claim = self._create_claim(pod, bound)
        key = Key(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"])
        status = dict(claim.get("status") or {})
        consumers = status.get("reservedFor") or []
        if bound.allocation is not None:
            finalizers = claim["metadata"].get("finalizers") or []
            if _FINALIZER not in finalizers:
                metadata = {**claim["metadata"], "finalizers": [*finalizers, _FINALIZER]}
                claim = objects.replace(key, {**claim, "metadata": metadata})
            status["allocation"] = bound.allocation
            if _DATES_ALLOCATIONS.at(self._version):
                status["allocation"] = {**bound.allocation, "allocationTimestamp": objects.wall_time.now()}
        if all(consumer.get("uid") != pod.uid for consumer in consumers):
            status["reservedFor"] = [*consumers, {"resource": "pods", "name": pod.name, "uid": pod.uid}]
        objects.replace(key, {**claim, "status": status})

    def _create_claim(self, pod: PodInfo, bound: BoundClaim) -> JSON:
        """Create the claim for a pod's extended resources, and note it in the pod's status.

        Source: plugins/dynamicresources/extendeddynamicresources.go, ``createExtendedResourceClaimInAPI``,
        ``patchPodExtendedResourceClaimStatus`` (kubernetes v1.36.3).
        """
        objects = self._store.objects
        claim = {**copied(bound.claim), "status": {}}
        claim["metadata"]["name"] = ""
        at_create(claim, objects.wall_time)
        created = objects.create(Key(CLAIMS, pod.namespace, claim["metadata"]["name"]), claim)
        key = Key("pods", pod.namespace, pod.name)
        if (body := objects.get(key)) is not None:
            noted = {"requestMappings": [*bound.mappings], "resourceClaimName": created["metadata"]["name"]}
            objects.replace(key, {**body, "status": {**body["status"], "extendedResourceClaimStatus": noted}})
        return created

    def _deallocate(self, claim: JSON) -> None:
        """Source: plugins/dynamicresources/dynamicresources.go, ``PostFilter`` (kubernetes v1.34.4)."""
        key = Key(CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"])
        gone = ("allocation", "devices", "reservedFor")
        status = {name: value for name, value in claim["status"].items() if name not in gone}
        self._store.objects.replace(key, {**claim, "status": status})

    def _fail(self, pod: PodInfo, failure: Failure) -> None:
        if failure.deallocated is not None:
            self._deallocate(failure.deallocated)
        nominated_node = failure.nominated_node
        self._state.nominate(pod, pod.nominated_node if nominated_node is None else nominated_node)
        self._record_failure(pod.pod, event_note(failure.message))
        reason = "SchedulerError" if failure.is_error else "Unschedulable"
        condition = Condition(ConditionType.SCHEDULED, False, reason, failure.message)
        self._store.patch_pod_status(pod.uid, condition, nominated_node)
        for other in failure.displaced:
            self._forget_nomination(other.pod)
        for victim in failure.victims:
            self._preempt(victim.pod, pod.uid, nominated_node or "")

    def _preempt(self, victim: Pod, by: PodUID, node: str) -> None:
        """Source: pkg/scheduler/framework/preemption/preemption.go, ``PreemptPod`` (kubernetes v1.34.4)."""
        target = Condition(ConditionType.DISRUPTION_TARGET, True, "PreemptionByScheduler", _PREEMPTING)
        self._store.patch_pod_status(victim.uid, target)
        self._store.delete_pod(victim.uid)
        message = _PREEMPTED_EVENT.at(self._version).format(pod=by, node=node)
        self._store.record(victim, "Normal", "Preempted", message, DEFAULT_SCHEDULER, action="Preempting")

    def _forget_nomination(self, pod: Pod) -> None:
        condition = pod.status.condition(ConditionType.SCHEDULED)
        if condition is not None:
            self._store.patch_pod_status(pod.uid, condition, "")

    def _record_failure(self, pod: Pod, message: str) -> None:
        self._store.record(pod, "Warning", "FailedScheduling", message, DEFAULT_SCHEDULER, action="Scheduling")

    def _follow_node(self, written: Written) -> None:
        node = self._store.node(written.key.name)
        if node is None:
            self._handlers.drop_node(written.key.name)
        else:
            self._handlers.put_node(node)
        self._call()

    def _follow_pod(self, written: Written) -> None:
        uid = PodUID(written.object["metadata"]["uid"])
        pod = self._store.pod(uid)
        if written.verb is Verb.DELETED or pod is None:
            self._handlers.drop_pod(uid)
        else:
            self._handlers.put_pod(PodInfo(pod))
        self._call()

    def _follow_resource(self, written: Written) -> None:
        self._inventory.take(written)
        if written.verb is Verb.DELETED:
            return
        event = ResourceEvent(_RESOURCE_KINDS[written.key.kind], self._newly_served(written))
        if event.kind is Kind.CLAIM_WRITTEN:
            self.queue.happened(event, lambda pod: self._inventory.concerns(pod, written.before, written.object))
        else:
            self.queue.happened(event)
        self._call()

    def _newly_served(self, written: Written) -> frozenset[ResourceName]:
        """Source: plugins/noderesources/fit.go, ``isSchedulableAfterDeviceClassEvent`` (kubernetes v1.36.3)."""
        if written.key.kind != CLASSES:
            return frozenset()
        before = frozenset(classes_by_resource([written.before] if written.before is not None else []))
        return (frozenset(classes_by_resource([written.object])) - before) & self._inventory.by_resource.keys()

    def _gate(self, pod: PodInfo) -> Plugin | None:
        """Source: plugins/dynamicresources/dynamicresources.go, ``PreEnqueue`` (kubernetes v1.34.4)."""
        if pod.is_gated:
            return Plugin.SCHEDULING_GATES
        is_missing = self._has_claims and bool(self._inventory.missing(pod))
        return Plugin.DYNAMIC_RESOURCES if is_missing else None

    def _call(self) -> None:
        if not self.queue.is_idle:
            self._is_called.set()

    def _set_alarm(self, alarms: asyncio.TaskGroup) -> None:
        """Have `run` look again when something is to be flushed from the queue."""
        if self._alarm is not None:
            self._alarm.cancel()
        due = self.queue.next_flush()
        self._alarm = None if due is None else alarms.create_task(self._ring(due - self._clock.now()))

    async def _ring(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        self._is_called.set()


class _Restarts:
    """How long a scheduler that has crashed is away, as a static pod of which there is one.

    Its kubelet starts it again, and it waits for the lease of its predecessor to end.

    Source: kubelet/kuberuntime/kuberuntime_manager.go, ``doBackOff``; client-go/util/flowcontrol/backoff.go;
    client-go/tools/leaderelection, with the scheduler's default duration of a lease (v0.36.1).
    """

    def __init__(self) -> None:
        self._next_pause_s = 0.0
        self._restarted_at = -math.inf

    def away_s(self, now: float) -> float:
        """Seconds until it schedules again; each crash in a row takes longer."""
        is_forgotten = now - self._restarted_at > 2 * _LONGEST_PAUSE_S
        pause_s = 0.0 if is_forgotten else self._next_pause_s
        self._next_pause_s = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._restarted_at = now + pause_s
        return pause_s + _LEASE_S
