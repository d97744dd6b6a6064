"""The pods that wait for a node: those to be tried now, those in back-off, and those that wait for something to change.

Times are seconds of the cluster's clock.

Source: pkg/scheduler/backend/queue (kubernetes v1.34.4): scheduling_queue.go, active_queue.go, backoff_queue.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from ...model.pod import PodUID
from ...model.version import Difference, Version
from .cluster_state import PodInfo
from .hints import NodeEvent, PodEvent, is_of_interest, is_worth_a_try, pod_changes
from .refusals import Plugin

__all__ = ["HAS_QUEUEING_HINTS", "Place", "QueuedPod", "SchedulingQueue"]

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

_INITIAL_BACKOFF_S: Final = 1.0
_MAX_BACKOFF_S: Final = 10.0
_MAX_UNSCHEDULABLE_S: Final = 300.0
_FLUSH_PERIOD_S: Final = 30.0


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


@dataclass(slots=True)
class Place:
    """One part of the queue: pods by their uid."""

    pods: dict[PodUID, QueuedPod] = field(default_factory=dict)

    def names(self) -> list[str]:
        return sorted(waiting.pod.name for waiting in self.pods.values())


class SchedulingQueue:
    """The pending pods of one cluster.

    Args:
        now: reads the clock.
    """

    def __init__(self, now: Callable[[], float], version: Version) -> None:
        self._now = now
        self._version = version
        self._began = now()
        self._order = count()
        self.active = Place()
        self.backoff = Place()
        self.unschedulable = Place()

    @property
    def is_idle(self) -> bool:
        """Whether all pods wait for something to happen, and none for its turn or for the end of its back-off."""
        return not self.active.pods and not self.backoff.pods

    def add(self, pod: PodInfo) -> None:
        """Take a new pod."""
        self._activate(QueuedPod(pod, next(self._order), self._now()))

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Take another state of a pod that waits."""
        for place in (self.active, self.backoff):
            if new.uid in place.pods:
                place.pods[new.uid].pod = new
                return
        waiting = self.unschedulable.pods.get(new.uid)
        if waiting is None:
            self.add(new)
            return
        waiting.pod = new
        if HAS_QUEUEING_HINTS.at(self._version):
            helps = any(self._helps(waiting, event) for event in pod_changes(old, new))
        else:
            helps = old.spec != new.spec or old.labels != new.labels
        if helps:
            self._requeue(waiting)

    def delete(self, uid: PodUID) -> None:
        """Forget a pod; nothing happens where it does not wait."""
        for place in (self.active, self.backoff, self.unschedulable):
            place.pods.pop(uid, None)

    def pop(self) -> QueuedPod | None:
        """The pod whose turn it is, which leaves the queue; None where there is none."""
        if self.active.pods:
            waiting = min(self.active.pods.values(), key=lambda one: one.turn)
            del self.active.pods[waiting.pod.uid]
        else:
            ready = [one for one in self.backoff.pods.values() if one.rejectors]
            if not ready or not _POPS_FROM_BACKOFF.at(self._version):
                return None
            waiting = min(ready, key=lambda one: (self._backoff_end(one), one.turn))
            del self.backoff.pods[waiting.pod.uid]
        return waiting

    def put_back(self, waiting: QueuedPod, rejectors: frozenset[Plugin]) -> None:
        """Take a pod again that was popped, after a try that failed."""
        waiting.rejectors, waiting.since = rejectors, self._now()
        if rejectors:
            waiting.refused_count, waiting.error_count = waiting.refused_count + 1, 0
            self.unschedulable.pods[waiting.pod.uid] = waiting
        else:
            waiting.error_count += 1
            self.backoff.pods[waiting.pod.uid] = waiting

    def happened(self, event: NodeEvent | PodEvent, is_concerned: Callable[[PodInfo], bool] = lambda pod: True) -> None:
        """Take the pods from among the unschedulable that an event may help.

        Args:
            event: what happened.
            is_concerned: excludes pods regardless of their plugins.
        """
        for waiting in tuple(self.unschedulable.pods.values()):
            if is_concerned(waiting.pod) and self._helps(waiting, event):
                self._requeue(waiting)

    def flush(self) -> None:
        """Take the pods whose back-off is over, and those that have waited for anything to happen for too long."""
        for waiting in tuple(self.backoff.pods.values()):
            if self._flush_time(waiting) <= self._now():
                del self.backoff.pods[waiting.pod.uid]
                self._activate(waiting)
        for waiting in tuple(self.unschedulable.pods.values()):
            if not waiting.pod.is_gated and self._timeout(waiting) <= self._now():
                self._requeue(waiting)

    def next_flush(self) -> float | None:
        """When there is something to flush, if nothing else happens; None where nothing waits for that."""
        return min(self._flush_times(), default=None)

    def _flush_times(self) -> Iterator[float]:
        yield from (self._flush_time(waiting) for waiting in self.backoff.pods.values())
        yield from (self._timeout(one) for one in self.unschedulable.pods.values() if not one.pod.is_gated)

    def _helps(self, waiting: QueuedPod, event: NodeEvent | PodEvent) -> bool:
        asks = is_worth_a_try if HAS_QUEUEING_HINTS.at(self._version) else is_of_interest
        return any(asks(plugin, waiting.pod, event) for plugin in waiting.rejectors)

    def _requeue(self, waiting: QueuedPod) -> None:
        if self._backs_off(waiting):
            if self._gates(waiting):
                return
            del self.unschedulable.pods[waiting.pod.uid]
            self.backoff.pods[waiting.pod.uid] = waiting
        else:
            self.unschedulable.pods.pop(waiting.pod.uid, None)
            self._activate(waiting)

    def _activate(self, waiting: QueuedPod) -> None:
        if not self._gates(waiting):
            self.active.pods[waiting.pod.uid] = waiting

    def _gates(self, waiting: QueuedPod) -> bool:
        """Keep a pod from being tried that has scheduling gates."""
        if waiting.pod.is_gated:
            waiting.rejectors |= {Plugin.SCHEDULING_GATES}
            self.unschedulable.pods[waiting.pod.uid] = waiting
        return waiting.pod.is_gated

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
