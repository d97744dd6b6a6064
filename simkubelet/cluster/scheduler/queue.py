"""The pods that wait for a node: those to be tried now, those in back-off, and those that wait for something to change.

Times are seconds of the cluster's clock.

Source: pkg/scheduler/backend/queue (kubernetes v1.34.4): scheduling_queue.go, active_queue.go, backoff_queue.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from ..._internal.doors import Door
from ...model.pod import PodUID
from ...model.version import Difference, Version
from .cluster_state import PodInfo
from .hints import ClusterEvent, is_of_interest, is_worth_a_try, pod_changes
from .refusals import Plugin

__all__ = ["HAS_QUEUEING_HINTS", "QueuedPod", "SchedulingQueue"]

HAS_QUEUEING_HINTS: Final = Difference(
    "a pending pod is tried again only after a change that may help it; before, after every change of a node that "
    "it now fits, and after every pod that goes",
    {"1.26": False, "1.32": True},
    "scheduler/scheduler.go, ``buildQueueingHintMap``; eventhandlers.go, ``preCheckForNode`` (kubernetes "
    "v1.31.14); the gate SchedulerQueueingHints is on by default from 1.32 (pkg/features/kube_features.go)",
)
_POPS_FROM_BACKOFF: Final = Difference(
    "a scheduler with nothing else to do tries a pod before its back-off is over",
    {"1.26": False, "1.33": True},
    "pkg/features/kube_features.go, ``SchedulerPopFromBackoffQ`` (kubernetes v1.32.13, v1.33.13)",
)

_HINT: Final = Door("queueing hint of a pod")
_INITIAL_BACKOFF_S: Final = 1.0
_MAX_BACKOFF_S: Final = 10.0
_MAX_UNSCHEDULABLE_S: Final = 300.0
_FLUSH_PERIOD_S: Final = 30.0


def _scheduling_gate(pod: PodInfo) -> Plugin | None:
    return Plugin.SCHEDULING_GATES if pod.is_gated else None


@dataclass(slots=True)
class QueuedPod:
    """A pod that waits, or is being tried.

    Attributes:
        order: its turn among pods of one priority and time.
        since: when it came, or was last tried.
        rejectors: the plugins that refused it at its last try.
        refused_count: tries that ended with a refusal.
        error_count: tries since then that ended without one, as there was no node at all.
    """

    pod: PodInfo
    order: int
    since: float
    rejectors: frozenset[Plugin] = frozenset()
    refused_count: int = 0
    error_count: int = 0

    @property
    def turn(self) -> tuple[int, float, int]:
        return -self.pod.priority, self.since, self.order


_Rank: TypeAlias = tuple[float, ...]


class Place:
    """One part of the queue: pods by their uid, and a heap of them, where pods that have gone may still stand.

    Args:
        rank: the pod with the least rank is the first one; one without a rank is never.
    """

    def __init__(self, rank: Callable[[QueuedPod], _Rank | None]) -> None:
        self.pods: dict[PodUID, QueuedPod] = {}
        self._rank = rank
        self._ranks: dict[PodUID, _Rank | None] = {}
        self._heap: list[tuple[_Rank, int, QueuedPod]] = []

    def put(self, waiting: QueuedPod) -> None:
        """Take a pod, or one that is here in another state."""
        uid, rank = waiting.pod.uid, self._rank(waiting)
        if rank is not None and self._ranks.get(uid) != rank:
            heappush(self._heap, (rank, waiting.order, waiting))
        self.pods[uid], self._ranks[uid] = waiting, rank

    def first(self) -> QueuedPod | None:
        """The pod with the least rank; None where there is none with a rank."""
        while self._heap:
            rank, _, waiting = self._heap[0]
            uid = waiting.pod.uid
            if self.pods.get(uid) is waiting and self._ranks[uid] == rank:
                return waiting
            heappop(self._heap)
        return None

    def remove(self, uid: PodUID) -> None:
        """Forget a pod; nothing happens where it is not here."""
        self.pods.pop(uid, None)
        self._ranks.pop(uid, None)


class SchedulingQueue:
    """The pending pods of one cluster.

    Args:
        now: reads the clock.
        gate: names the plugin that keeps a pod from being tried, None where none does.
        record: called with a pod whose hints fail, and why.

    Attributes:
        active: those to be tried now.
        backoff: those that were refused, until their back-off is over.
        error_backoff: those whose try ended without a refusal, likewise.
        unschedulable: those that wait for something to change.
        trying: the pod that is tried while its state may change; it is in no other part.
    """

    def __init__(
        self,
        now: Callable[[], float],
        version: Version,
        gate: Callable[[PodInfo], Plugin | None] = _scheduling_gate,
        record: Callable[[PodInfo, str], None] = lambda pod, error: None,
    ) -> None:
        self._now = now
        self._record = record
        self._gate = gate
        self._version = version
        self._began = now()
        self._order = count()
        self.active = Place(lambda waiting: waiting.turn)
        self.backoff = Place(self._turn_after_backoff)
        self.error_backoff = Place(self._turn_after_backoff)
        self.unschedulable = Place(self._turn_at_timeout)
        self.trying: QueuedPod | None = None
        self._places = (self.active, self.backoff, self.error_backoff, self.unschedulable)

    @property
    def is_idle(self) -> bool:
        """Whether all pods wait for something to happen, and none for its turn or for the end of its back-off."""
        return not any(place.pods for place in self._places if place is not self.unschedulable)

    def add(self, pod: PodInfo) -> None:
        """Take a new pod."""
        self._activate(QueuedPod(pod, next(self._order), self._now()))

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take another state of a pod that waits or is being tried."""
        if self.trying is not None and self.trying.pod.uid == new.uid:
            self.trying.pod = new
            return
        place = next((place for place in self._places if new.uid in place.pods), None)
        if place is None:
            self.add(new)
            return
        waiting = place.pods[new.uid]
        waiting.pod = new
        place.put(waiting)
        if place is not self.unschedulable:
            return
        if HAS_QUEUEING_HINTS.at(self._version):
            helps = any(self._helps(waiting, event) for event in pod_changes(old, new))
        else:
            helps = old.spec != new.spec or old.labels != new.labels
        if helps:
            self._requeue(waiting)

    def delete(self, uid: PodUID) -> None:
        """Forget a pod; nothing happens where it does not wait."""
        for place in self._places:
            place.remove(uid)

    def pop(self) -> QueuedPod | None:
        """The pod whose turn it is, which leaves the queue; None where there is none."""
        place, waiting = self.active, self.active.first()
        if waiting is None and _POPS_FROM_BACKOFF.at(self._version):
            place, waiting = self.backoff, self.backoff.first()
        if waiting is not None:
            place.remove(waiting.pod.uid)
        return waiting

    def put_back(self, waiting: QueuedPod, rejectors: frozenset[Plugin]) -> None:
        """Take a pod again that was popped, after a try that failed."""
        waiting.rejectors, waiting.since = rejectors, self._now()
        if rejectors:
            waiting.refused_count, waiting.error_count = waiting.refused_count + 1, 0
            self.unschedulable.put(waiting)
        else:
            waiting.error_count += 1
            self.error_backoff.put(waiting)

    def happened(self, event: ClusterEvent, is_concerned: Callable[[PodInfo], bool] = lambda pod: True) -> None:
        """Take the pods from among the unschedulable that an event may help.

        Args:
            event: what happened.
            is_concerned: excludes pods regardless of their plugins.
        """
        for waiting in tuple(self.unschedulable.pods.values()):
            with _HINT(waiting.pod.pod.key, partial(self._record, waiting.pod)):
                if not (is_concerned(waiting.pod) and self._helps(waiting, event)):
                    continue
            # Also after a hint that failed. Source: scheduling_queue.go, ``isPodWorthRequeuing``.
            self._requeue(waiting)

    def flush(self) -> None:
        """Take the pods whose back-off is over, and those that have waited for anything to happen for too long."""
        for place in (self.backoff, self.error_backoff):
            while (waiting := place.first()) is not None and self._flush_time(waiting) <= self._now():
                place.remove(waiting.pod.uid)
                self._activate(waiting)
        while (waiting := self.unschedulable.first()) is not None and self._timeout(waiting) <= self._now():
            self._requeue(waiting)

    def next_flush(self) -> float | None:
        """When there is something to flush, if nothing else happens; None where nothing waits for that."""
        ends = [self._flush_time(one) for one in (self.backoff.first(), self.error_backoff.first()) if one is not None]
        overdue = self.unschedulable.first()
        return min([*ends, *([] if overdue is None else [self._timeout(overdue)])], default=None)

    def _helps(self, waiting: QueuedPod, event: ClusterEvent) -> bool:
        is_helped = is_worth_a_try if HAS_QUEUEING_HINTS.at(self._version) else is_of_interest
        return any(is_helped(plugin, waiting.pod, event, self._version) for plugin in waiting.rejectors)

    def _requeue(self, waiting: QueuedPod) -> None:
        if self._backs_off(waiting):
            if self._gates(waiting):
                return
            self.unschedulable.remove(waiting.pod.uid)
            self.backoff.put(waiting)
        else:
            self.unschedulable.remove(waiting.pod.uid)
            self._activate(waiting)

    def _activate(self, waiting: QueuedPod) -> None:
        if not self._gates(waiting):
            self.active.put(waiting)

    def _gates(self, waiting: QueuedPod) -> bool:
        """Keep a pod from being tried that has scheduling gates, or waits for claims.

        Source: scheduling_queue.go, ``runPreEnqueuePlugins``.
        """
        gate = self._gate(waiting.pod)
        if gate is not None:
            waiting.rejectors |= {gate}
            self.unschedulable.put(waiting)
        return gate is not None

    def _turn_after_backoff(self, waiting: QueuedPod) -> _Rank:
        return self._backoff_end(waiting), *waiting.turn

    def _turn_at_timeout(self, waiting: QueuedPod) -> _Rank | None:
        return None if self._gate(waiting.pod) is not None else (self._timeout(waiting),)

    def _backs_off(self, waiting: QueuedPod) -> bool:
        return self._backoff_end(waiting) > self._now()

    def _flush_time(self, waiting: QueuedPod) -> float:
        """The first of the flushes, one a second, after a pod's back-off is over."""
        return math.ceil(self._backoff_end(waiting))

    def _backoff_end(self, waiting: QueuedPod) -> float:
        """Source: backoff_queue.go, ``isPodBackingoff``: since 1.33 to the end of the second in which it would end."""
        tries = waiting.error_count or waiting.refused_count
        if not tries:
            return -math.inf
        end = waiting.since + min(_INITIAL_BACKOFF_S * 2.0 ** (tries - 1), _MAX_BACKOFF_S)
        return math.floor(end) + 1.0 if _POPS_FROM_BACKOFF.at(self._version) else end

    def _timeout(self, waiting: QueuedPod) -> float:
        """The first flush of the unschedulable pods after a pod has waited for too long."""
        passed = waiting.since + _MAX_UNSCHEDULABLE_S - self._began
        return self._began + (math.floor(passed / _FLUSH_PERIOD_S) + 1) * _FLUSH_PERIOD_S
