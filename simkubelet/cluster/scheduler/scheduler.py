"""The scheduler of a cluster: gives pods that wait to nodes, one after the other.

`cycle` decides about one pod. This module follows the cluster's objects, updates what the scheduler knows of them and
its queue, and writes the result of each attempt. A scheduler that crashes is started again, and tries all pods again.

Source: pkg/scheduler/schedule_one.go, ``ScheduleOne``, ``handleSchedulingFailure`` (kubernetes
v1.34.4).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from ..._internal.doors import Door
from ...model.clock import Clock
from ...model.events import SIMULATOR
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition, ConditionType
from ...model.version import DYNAMIC_RESOURCES, EXTENDED_CLAIMS, FEATURE_GATES, Difference, Version
from ..objects.device_taint_rules import TAINT_RULES
from ..objects.namespaces import termination
from ..objects.objects import Key, Verb, Written
from ..objects.pod_json import pod_key
from ..store import Store
from .claim_writer import ClaimWriter
from .cluster_state import DEFAULT_SCHEDULER, ClusterState, PodInfo
from .cycle import Assignment, Failure, SchedulingCycles
from .dynamic_resources.allocator import SchedulerPanicError, one_try
from .dynamic_resources.binding_conditions import BindingError, has_conditions
from .dynamic_resources.inventory import CLAIMS, CLASSES, SLICES, Inventory
from .event_handlers import EventHandlers
from .pending_bindings import PendingBinding, PendingBindings, binding_fault
from .queue import QueuedPod, SchedulingQueue
from .refusals import PRE_BIND_FAILED, Plugin, event_note
from .try_thread import TryThread

__all__ = ["Scheduler"]

_PREEMPTED_EVENT: Final = Difference(
    "message of a victim's Preempted event, with ``{pod}`` for the uid of the preempting pod and ``{node}``",
    {"1.26": "Preempted by a pod on node {node}", "1.29": "Preempted by pod {pod} on node {node}"},
    "scheduler/framework/preemption/preemption.go (kubernetes v1.28.15, v1.29.6)",
)

_SPARES_DELETED: Final = Difference(
    "a victim of preemption that is being deleted already is left as it is: no condition, no deletion, no Event",
    {"1.26": False, "1.35": True},
    "scheduler/framework/preemption/preemption.go, ``prepareCandidate`` (kubernetes v1.34.12, v1.35.8)",
)

_NOMINATES: Final = Difference(
    "a pod with claims is nominated for its node before its claims are written",
    {"1.26": False, "1.35": True},
    "scheduler/schedule_one.go, ``bindingCycle``, with the gate NominatedNodeNameForExpectation (kubernetes v1.34.4, "
    "v1.35.4)",
)

_TRY: Final = Door("scheduling of a pod", SchedulerPanicError)
_BINDING: Final = Door("binding of a pod")
_GATE: Final = Door("scheduling gates of a pod")
_START: Final = Door("start of the scheduler")
_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 300.0
_LEASE_S: Final = 15.0
_BIND_FAILED: Final = 'running Bind plugin "DefaultBinder": '
_PREEMPTING: Final = f"{DEFAULT_SCHEDULER}: preempting to accommodate a higher priority pod"


class Scheduler:
    """Follows a cluster from the moment it is made; binds its pending pods for as long as `run` runs.

    Args:
        store: the cluster.
        clock: its time.
        version: the scheduler's.
        gates: feature gate -> whether it is on, of those that a user has set.
        in_thread: `run` tries pods in a thread: the cluster goes on, and what is written first is left to chance. Else
            nothing happens in the cluster during a try.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        version: Version,
        gates: Mapping[str, bool] | None = None,
        *,
        in_thread: bool = False,
    ) -> None:
        self._is_threaded = in_thread
        self._thread = TryThread(store.objects)
        serves_extended = FEATURE_GATES[EXTENDED_CLAIMS].is_on(version, gates or {})
        self._inventory = Inventory(store.objects, version, serves_extended=serves_extended)
        self._version = version
        self._has_claims = FEATURE_GATES[DYNAMIC_RESOURCES].is_on(version, gates or {})
        self._store = store
        self._clock = clock
        self._is_called = asyncio.Event()
        self._alarm: asyncio.Task[None] | None = None
        self._restarts = _Restarts()
        self._claims = ClaimWriter(store, version)
        self._begin()
        followed = {
            "nodes": self._follow_node,
            "pods": self._follow_pod,
            **dict.fromkeys((CLAIMS, CLASSES, SLICES, TAINT_RULES), self._follow_resource),
        }
        for kind, follow in followed.items():
            store.objects.subscribe(kind, self._thread.subscriber(follow))

    def _begin(self) -> None:
        """Know only what is in the cluster now, its pods in the order in which the API server lists them."""
        self._state = ClusterState()
        self.queue = SchedulingQueue(self._clock.now, self._version, self._gate, self._record_error)
        self._cycles = SchedulingCycles(self._state, self._inventory if self._has_claims else None, self._version)
        self._bindings = PendingBindings(self._store.objects)
        self._handlers = EventHandlers(self._state, self.queue, self._version, self._inventory)
        for node in self._store.all_nodes:
            with _START(f"node {node.name}"):
                self._handlers.put_node(node)
        for pod in sorted(self._store.pods, key=lambda pod: (pod.namespace, pod.name)):
            with _START(f"pod {pod.key}", partial(self._record_failure, pod)):
                self._handlers.put_pod(PodInfo(pod))

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as alarms:
            while True:
                self._is_called.clear()
                self.flush()
                try:
                    outcome = await self.try_next_in_thread() if self._is_threaded else self.try_next()
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
        with _TRY(queued.pod.pod.key, partial(self._put_back, queued)) as passage:
            return self._try(queued)
        return Failure(str(passage.error), is_error=True)

    async def try_next_in_thread(self) -> Assignment | Failure | None:
        """As `try_next`, for a cluster that goes on meanwhile."""
        queued = self.queue.pop()
        if queued is None:
            return None
        with _TRY(queued.pod.pod.key, partial(self._put_back, queued)) as passage:
            return await self._try_in_thread(queued)
        return Failure(str(passage.error), is_error=True)

    def _try(self, queued: QueuedPod) -> Assignment | Failure:
        pod = queued.pod
        if pod.is_deleted:
            return self._skip(pod)
        with self._recording_panics(pod):
            outcome = self._cycles.try_pod(pod, one_try())
        if isinstance(outcome, Assignment):
            self._assign(queued, outcome)
        else:
            self.queue.put_back(queued, outcome.rejectors)
            self._fail(pod, outcome)
        return outcome

    async def _try_in_thread(self, queued: QueuedPod) -> Assignment | Failure:
        """What has changed of the pod is seen before something is written about it."""
        if queued.pod.is_deleted:
            return self._skip(queued.pod)
        self.queue.trying, effort = queued, one_try()
        try:
            with self._recording_panics(queued.pod):
                outcome = await self._thread.run(partial(self._cycles.try_pod, queued.pod, effort), effort.stop)
            if isinstance(outcome, Failure):
                self.queue.trying = None
                self.queue.put_back(queued, outcome.rejectors)
        finally:
            await self._thread.catch_up()
            self.queue.trying = None
        known = self._handlers.known(queued.pod.uid)
        if isinstance(outcome, Failure):
            if known is not None and known.node_name is None:
                self._fail(queued.pod, outcome)
        elif fault := binding_fault(queued.pod.name, known):
            self._put_back(queued, f"{_BIND_FAILED}{fault}")
        else:
            self._assign(queued, outcome)
        return outcome

    def _skip(self, pod: PodInfo) -> Failure:
        skipped = Failure(f"skip schedule deleting pod: {pod.namespace}/{pod.name}")
        self._record_failure(pod.pod, skipped.message)
        return skipped

    @contextmanager
    def _recording_panics(self, pod: PodInfo) -> Iterator[None]:
        try:
            yield
        except SchedulerPanicError as panic:
            message = f"kube-scheduler ended with this pod, and is started again: panic: {panic}"
            self._store.record(pod.pod, "Warning", "SchedulerCrashed", message, SIMULATOR, host="")
            raise

    def flush(self) -> None:
        """Do what is due now: pods whose back-off is over come back to the queue, and pods are bound that waited."""
        self.queue.flush()
        for pending in self._bindings.due():
            with _BINDING(pending.queued.pod.pod.key, partial(self._give_up, pending)):
                self._look(pending)

    def _assign(self, queued: QueuedPod, assignment: Assignment) -> None:
        """Bind a pod, or have it wait on its node for the binding conditions of its devices.

        Source: plugins/dynamicresources/dynamicresources.go, ``PreBind`` (kubernetes v1.36.3).
        """
        pod, node = queued.pod, assignment.node
        if not assignment.claims:
            self._bind(queued, node)
            return
        self._handlers.assume(pod, node)
        if _NOMINATES.at(self._version):
            status = {**pod.status, "nominatedNodeName": node}
            self._store.objects.replace(pod_key(pod.pod), {**pod.pod.manifest, "status": status})
        keys: list[Key] = []
        try:
            claims = [self._claims.bind(pod, bound, keys) for bound in assignment.claims]
        except BindingError as error:
            self._put_back(queued, f"{PRE_BIND_FAILED}{error}", keys)
            return
        if not any(map(has_conditions, claims)):
            self._bind(queued, node, keys)
            return
        message = f"waiting for binding conditions for device on node {node}"
        self._record(pod.pod, "Normal", "BindingConditionsPending", message)
        self._look(self._bindings.add(queued, node, keys))

    def _look(self, pending: PendingBinding) -> None:
        """Bind a pod that has waited, where its devices are ready."""
        pod = pending.queued.pod
        try:
            if not self._bindings.look(pending):
                return
        except BindingError as error:
            self._give_up(pending, f"{PRE_BIND_FAILED}{error}")
            return
        if fault := binding_fault(pod.name, self._handlers.known(pod.uid)):
            self._give_up(pending, f"{_BIND_FAILED}{fault}")
            return
        self._bindings.remove(pending)
        self._bind(pending.queued, pending.node, pending.claims)

    def _give_up(self, pending: PendingBinding, error: str) -> None:
        """Try a pod again later that cannot be bound.

        Source: scheduler/schedule_one.go, ``handleBindingCycleError`` (kubernetes v1.36.3).
        """
        self._bindings.remove(pending)
        self._put_back(pending.queued, error, pending.claims)

    def _put_back(self, queued: QueuedPod, error: str, claims: Iterable[Key] = ()) -> None:
        """Try a pod again later whose try ended with an error, after some claims were reserved for it.

        Source: scheduler/schedule_one.go, ``handleSchedulingFailure`` (kubernetes v1.34.4).
        """
        for key in claims:
            self._claims.unreserve(queued.pod, key)
        self._handlers.forget(queued.pod.uid)
        pod = self._handlers.known(queued.pod.uid)
        if pod is not None and pod.node_name is None:
            queued.pod = pod
            self.queue.delete(pod.uid)
            self.queue.put_back(queued, frozenset())
        self._fail(queued.pod, Failure(error, is_error=True))

    def _bind(self, queued: QueuedPod, node: str, claims: Iterable[Key] = ()) -> None:
        pod = queued.pod
        if why := termination(self._store.objects, pod.namespace):
            self._put_back(queued, f'{_BIND_FAILED}pods "{pod.name}" is forbidden: {why}', claims)
            return
        self._store.bind(pod.uid, node)
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._store.record(pod.pod, "Normal", "Scheduled", message, DEFAULT_SCHEDULER, action="Binding")

    def _fail(self, pod: PodInfo, failure: Failure) -> None:
        if failure.deallocated is not None:
            self._claims.deallocate(failure.deallocated)
        nominated_node = failure.nominated_node
        self._state.nominate(pod, pod.nominated_node if nominated_node is None else nominated_node)
        self._record_failure(pod.pod, event_note(failure.message))
        reason = "SchedulerError" if failure.is_error else "Unschedulable"
        condition = Condition(ConditionType.SCHEDULED, False, reason, failure.message)
        self._store.patch_pod_status(pod.uid, condition, nominated_node)
        for other in failure.displaced:
            self._forget_nomination(other.pod)
        for victim in failure.victims:
            if not (victim.is_deleted and _SPARES_DELETED.at(self._version)):
                self._preempt(victim.pod, pod.uid, nominated_node or "")

    def _preempt(self, victim: Pod, by: PodUID, node: str) -> None:
        """Let a pod go; one that is not bound yet only has its try ended.

        Source: pkg/scheduler/framework/preemption/preemption.go, ``PreemptPod`` (kubernetes v1.34.4); executor.go,
        ``NewExecutor`` (v1.36.3).
        """
        if self._store.pod(victim.uid) is None:
            return
        message = _PREEMPTED_EVENT.at(self._version).format(pod=by, node=node)
        pending = self._bindings.of(victim.uid)
        if pending is not None:
            self._give_up(pending, f"{PRE_BIND_FAILED}preempted by DefaultPreemption")
            message += " (in kube-scheduler memory)."
            self._store.record(victim, "Normal", "Preempted", message, DEFAULT_SCHEDULER, action="Preempting")
            return
        target = Condition(ConditionType.DISRUPTION_TARGET, True, "PreemptionByScheduler", _PREEMPTING)
        self._store.patch_pod_status(victim.uid, target)
        self._store.delete_pod(victim.uid)
        self._store.record(victim, "Normal", "Preempted", message, DEFAULT_SCHEDULER, action="Preempting")

    def _forget_nomination(self, pod: Pod) -> None:
        condition = pod.status.condition(ConditionType.SCHEDULED)
        if condition is not None:
            self._store.patch_pod_status(pod.uid, condition, "")

    def _record_error(self, pod: PodInfo, error: str) -> None:
        self._record_failure(pod.pod, event_note(error))

    def _record_failure(self, pod: Pod, message: str) -> None:
        self._record(pod, "Warning", "FailedScheduling", message)

    def _record(self, pod: Pod, type_: str, reason: str, message: str) -> None:
        self._store.record(pod, type_, reason, message, DEFAULT_SCHEDULER, action="Scheduling")

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
        if self._handlers.put_resource(written):
            self._call()

    def _gate(self, pod: PodInfo) -> Plugin | None:
        """Source: plugins/dynamicresources/dynamicresources.go, ``PreEnqueue`` (kubernetes v1.34.4)."""
        with _GATE(pod.pod.key, partial(self._record_error, pod)):
            if pod.is_gated:
                return Plugin.SCHEDULING_GATES
            is_missing = self._has_claims and bool(self._inventory.missing(pod))
            return Plugin.DYNAMIC_RESOURCES if is_missing else None
        return Plugin.SCHEDULING_GATES

    def _call(self) -> None:
        if not self.queue.is_idle:
            self._is_called.set()

    def _set_alarm(self, alarms: asyncio.TaskGroup) -> None:
        """Have `run` look again when something is due."""
        if self._alarm is not None:
            self._alarm.cancel()
        times = [time for time in (self.queue.next_flush(), self._bindings.next_look()) if time is not None]
        due = min(times, default=None)
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
