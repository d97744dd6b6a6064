"""Pods that a controller ends at a certain time, unless it changes its mind.

Source: pkg/controller/tainteviction/timed_workers.go, taint_eviction.go; pkg/controller/devicetainteviction/
device_taint_eviction.go, ``addConditionAndDeletePod`` (kubernetes v1.34.4, v1.36.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..._internal.doors import Door
from ...model.clock import Clock
from ...model.pod import Pod, PodUID
from ...model.pod_status import Condition
from ..store import Store

__all__ = ["EvictionTexts", "PodEvictions"]


_EVICTION: Final = Door("eviction of a pod")


@dataclass(frozen=True, slots=True)
class EvictionTexts:
    """What a controller says about the pods that it ends.

    Attributes:
        component: its name in Events.
        reason: of its Events.
        ends: the message of the Event when a pod is ended; ``{pod}`` is namespace and name.
        spares: the same when it is not ended after all.
        condition: of the pod that is ended.
    """

    component: str
    reason: str
    ends: str
    spares: str
    condition: Condition


@dataclass(frozen=True, slots=True)
class _Eviction:
    due_at: float
    wait: asyncio.Task[None]


class PodEvictions:
    """The pods that are to go, each with its time; iterates over their uids.

    Args:
        store: the cluster.
        clock: its time.
        texts: what the controller says.
        count: called with each pod that goes.
    """

    def __init__(
        self, store: Store, clock: Clock, texts: EvictionTexts, count: Callable[[Pod], None] = lambda pod: None
    ) -> None:
        self._count = count
        self._store = store
        self._clock = clock
        self._texts = texts
        self._planned: dict[PodUID, _Eviction] = {}

    def __contains__(self, uid: PodUID) -> bool:
        return uid in self._planned

    def __iter__(self) -> Iterator[PodUID]:
        return iter(tuple(self._planned))

    def plan(self, pod: Pod, due_at: float, tasks: asyncio.TaskGroup) -> None:
        """End a pod at this time and no other; at once where it is past."""
        known = self._planned.get(pod.uid)
        if known is not None and known.due_at == due_at:
            return
        self.forget(pod.uid)
        delay_s = max(due_at - self._clock.now(), 0.0)
        self._planned[pod.uid] = _Eviction(
            due_at, tasks.create_task(self._evict(pod.uid, delay_s), name=f"eviction of {pod.key}")
        )

    def spare(self, pod: Pod) -> None:
        """Let a pod live, and say so if it was to go."""
        if self.forget(pod.uid):
            self._record(pod, self._texts.spares)

    def forget(self, uid: PodUID) -> bool:
        """End a pod at no time; whether one was planned."""
        eviction = self._planned.pop(uid, None)
        if eviction is not None:
            eviction.wait.cancel()
        return eviction is not None

    async def _evict(self, uid: PodUID, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
        del self._planned[uid]
        pod = self._store.pod(uid)
        if pod is not None and not pod.is_deleting:
            with _EVICTION(pod.key, partial(self.record_failure, pod)):
                self._count(pod)
                self._record(pod, self._texts.ends)
                self._store.patch_pod_status(uid, self._texts.condition)
                self._store.delete_pod(uid)

    def record_failure(self, pod: Pod, error: str) -> None:
        """Record that the controller fails with a pod."""
        self._store.record(pod, "Warning", "FailedSync", error, self._texts.component, host="")

    def _record(self, pod: Pod, message: str) -> None:
        text = message.format(pod=f"{pod.namespace}/{pod.name}")
        self._store.record(pod, "Normal", self._texts.reason, text, self._texts.component, host="")
