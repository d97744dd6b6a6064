"""The scheduler: which node a pod goes to, and what it says when there is none.

`choose_node` decides without I/O; `Scheduler` tries pending pods again when something changed that may help them, with
the real back-off between tries of one pod.

Source: pkg/scheduler (kubernetes v1.34.4): noderesources (filter, LeastAllocated score), framework/types.go
(``FitError.Error``), framework/preemption, backend/queue (1 s back-off doubling to 10 s).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..clock import Clock
from ..fit import PODS, InsufficientResource, insufficient_resources, requested_by
from ..node_status import NodeStatus
from ..pod import Pod, PodUID
from ..resources import ResourceName
from ..version import Version
from .store import Store

__all__ = ["NodeFit", "Scheduler", "choose_node", "failed_scheduling_message"]

COMPONENT: Final = "default-scheduler"
_INITIAL_BACKOFF_S: Final = 1.0
_MAX_BACKOFF_S: Final = 10.0
_MAX_WAIT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class NodeFit:
    """How a pod fits a node: it does when `missing` is empty, and `score` says how well (0 to 100)."""

    node: str
    missing: tuple[InsufficientResource, ...]
    score: float


def fit_nodes(pod: Pod, nodes: Mapping[str, NodeStatus], pods: Iterable[Pod]) -> tuple[NodeFit, ...]:
    """Try a pod on every node, with the pods that are bound there and have not ended."""
    bound: dict[str, list[Pod]] = {name: [] for name in nodes}
    for other in pods:
        if other.node_name in bound and not other.status.phase.is_terminal:
            bound[other.node_name].append(other)
    requests = pod.requests()
    fits = []
    for name, status in nodes.items():
        used = requested_by(bound[name])
        missing = insufficient_resources(requests, status.allocatable, used)
        fits.append(NodeFit(name, missing, _least_allocated(requests, status.allocatable, used)))
    return tuple(fits)


def choose_node(fits: Iterable[NodeFit]) -> str | None:
    """The node with the best score, the first by name among equals; None when the pod fits none."""
    fitting = [fit for fit in fits if not fit.missing]
    return min(fitting, key=lambda fit: (-fit.score, fit.node)).node if fitting else None


def failed_scheduling_message(fits: tuple[NodeFit, ...], version: Version) -> str:
    """The text of the FailedScheduling event of a pod that fits no node."""
    reasons = Counter(missing.reason for fit in fits for missing in fit.missing)
    preemption = _preemption_message(fits, version)
    if version.tries_dynamic_resources:
        preemption = f"no new claims to deallocate, {preemption}"
    end = "." if version.failed_scheduling_ends_twice else ""
    return f"{_unavailable(len(fits), reasons)} {preemption}{end}"


def _preemption_message(fits: tuple[NodeFit, ...], version: Version) -> str:
    reasons: Counter[str] = Counter()
    for fit in fits:
        is_hopeless = version.knows_unresolvable_requests and any(missing.is_unresolvable for missing in fit.missing)
        reasons[
            "Preemption is not helpful for scheduling"
            if is_hopeless
            else "No preemption victims found for incoming pod"
        ] += 1
    return f"preemption: {_unavailable(len(fits), reasons)}"


def _unavailable(node_count: int, reasons: Mapping[str, int]) -> str:
    texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"0/{node_count} nodes are available: {', '.join(texts)}."


def _least_allocated(
    requests: Mapping[ResourceName, int], allocatable: Mapping[ResourceName, int], used: Mapping[ResourceName, int]
) -> float:
    """Mean share of each requested resource that stays free, in percent."""
    shares = [
        max(allocatable[name] - used.get(name, 0) - amount, 0) * 100 / allocatable[name]
        for name, amount in requests.items()
        if allocatable.get(name)
    ]
    return sum(shares) / len(shares) if shares else 0.0


@dataclass(frozen=True, slots=True)
class _Situation:
    """What decides whether a waiting pod is worth another try.

    Attributes:
        allocatable: node -> amounts.
        bound: pods that are bound and have not ended.
    """

    allocatable: Mapping[str, Mapping[ResourceName, int]]
    bound: frozenset[PodUID]


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Tries of one pod so far: what the cluster looked like at the last one, and the times between which it waits."""

    count: int
    situation: _Situation
    next_at: float
    flush_at: float


class Scheduler:
    """Binds the pending pods of one cluster for as long as `run` runs."""

    def __init__(self, store: Store, clock: Clock, version: Version) -> None:
        self._store = store
        self._clock = clock
        self._version = version
        self._attempts: dict[PodUID, _Attempts] = {}

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as alarms:
            while True:
                seen = self._store.change.count
                waiting = [pod for pod in self._store.pods if pod.node_name is None]
                self._attempts = {pod.uid: self._attempts[pod.uid] for pod in waiting if pod.uid in self._attempts}
                for pod in waiting:
                    self._consider(pod, alarms)
                await self._store.change.wait(seen)

    def _consider(self, pod: Pod, alarms: asyncio.TaskGroup) -> None:
        situation = self._situation()
        last = self._attempts.get(pod.uid)
        if last is not None and not self._is_due(pod, last, situation):
            return
        if self._schedule(pod):
            return
        count = last.count + 1 if last else 1
        backoff = min(_INITIAL_BACKOFF_S * 2 ** (count - 1), _MAX_BACKOFF_S)
        now = self._clock.now()
        self._attempts[pod.uid] = _Attempts(count, situation, now + backoff, now + _MAX_WAIT_S)
        alarms.create_task(self._look_again(backoff))
        alarms.create_task(self._look_again(_MAX_WAIT_S))

    def _is_due(self, pod: Pod, last: _Attempts, now: _Situation) -> bool:
        """Whether to try a pod again: its back-off is over, and something may help or five minutes have passed.

        Source: noderesources/fit.go, ``EventsToRegister`` and its hints; backend/queue, five minutes at most in the
        unschedulable pods (kubernetes v1.34.4).
        """
        if self._clock.now() >= last.flush_at:
            return True
        if self._clock.now() < last.next_at:
            return False
        if last.situation.bound - now.bound:
            return True
        before = last.situation.allocatable
        changed = [name for name, amounts in now.allocatable.items() if amounts != before.get(name)]
        if not self._version.requeues_only_what_fits:
            return bool(changed)
        return any(self._may_help(pod, before.get(name), now.allocatable[name]) for name in changed)

    @staticmethod
    def _may_help(pod: Pod, before: Mapping[ResourceName, int] | None, now: Mapping[ResourceName, int]) -> bool:
        """Whether a node that is new or has changed offers more of what a pod asks, and could hold it when empty."""
        requests = pod.requests()
        if insufficient_resources(requests, now, {}):
            return False
        wanted = [PODS, *requests]
        return before is None or any(now.get(name, 0) > before.get(name, 0) for name in wanted)

    async def _look_again(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        self._store.change.notify()

    def _schedule(self, pod: Pod) -> bool:
        """Bind a pod or record why not."""
        fits = fit_nodes(pod, self._store.nodes, self._store.pods)
        if not fits:
            self._fail(pod, "no nodes available to schedule pods")
            return False
        node = choose_node(fits)
        if node is None:
            self._fail(pod, failed_scheduling_message(fits, self._version))
            return False
        self._store.bind(pod.uid, node)
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._store.record(pod, "Normal", "Scheduled", message, COMPONENT)
        return True

    def _fail(self, pod: Pod, message: str) -> None:
        self._store.record(pod, "Warning", "FailedScheduling", message, COMPONENT)

    def _situation(self) -> _Situation:
        return _Situation(
            allocatable={name: status.allocatable for name, status in self._store.nodes.items()},
            bound=frozenset(
                pod.uid for pod in self._store.pods if pod.node_name is not None and not pod.status.phase.is_terminal
            ),
        )
