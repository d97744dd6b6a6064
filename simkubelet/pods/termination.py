"""The end of a pod: its containers are stopped, then it gets its final status.

All containers are stopped at once, sidecars after the others, each with what is left of the grace period. Containers
that the runtime does not report count as failed in the final status.

Source: kuberuntime/kuberuntime_container.go, ``killContainer``; kuberuntime_termination_order.go,
``newTerminationOrdering``; kubelet_pods.go, ``HandlePodCleanups`` for orphans (kubernetes v1.34.4);
status/status_manager.go, ``TerminatePod``, ``hasPodInitialized``, ``initializedContainers`` (kubernetes v1.26.15,
v1.34.4, v1.37.0).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from .._internal.change import first_done
from ..model.clock import Clock
from ..model.pod import ContainerKind, Pod
from ..model.pod_status import ContainerStatus, PodStatus, Running, Terminated, Waiting
from ..runtime.container_records import ContainerRecords

__all__ = ["end_containers", "end_orphan", "terminated"]

_NOT_FOUND: Final = Terminated(
    137, "ContainerStatusUnknown", 0.0, 0.0, "The container could not be located when the pod was terminated"
)
_SHORTEST_GRACE_S: Final = 2.0
"""What a container gets at least, however short the pod's grace is."""
_ORPHAN_GRACE_S: Final = 1.0


def terminated(pod: Pod, published: PodStatus, status: PodStatus) -> PodStatus:
    """The status of a pod of which nothing runs any more and nothing is started again.

    An app container that has not ended is one that failed, once the pod came to its app containers; so is an init
    container, up to the last one that ever ran. `pod` has the status that was published last.
    """
    reached = _count_of_started(status.init_containers)
    return replace(
        status,
        init_containers=(*map(_ended, status.init_containers[:reached]), *status.init_containers[reached:]),
        containers=tuple(map(_ended, status.containers)) if _has_initialized(pod, published) else status.containers,
    )


def _ended(status: ContainerStatus) -> ContainerStatus:
    return status if isinstance(status.state, Terminated) else replace(status, state=_NOT_FOUND)


def _has_initialized(pod: Pod, published: PodStatus) -> bool:
    if not pod.init_containers or any(_has_ever_run(status) for status in published.containers):
        return True
    if not published.init_containers:
        return False
    last = published.init_containers[-1]
    if pod.init_containers[-1].kind is ContainerKind.SIDECAR:
        return isinstance(last.state, Running) and last.is_started
    ends = (last.state, last.last_state)
    return any(isinstance(end, Terminated) and end.exit_code == 0 for end in ends)


def _count_of_started(statuses: Sequence[ContainerStatus]) -> int:
    """How many init containers the pod came to, the first one in any case."""
    started = (place for place, status in enumerate(statuses, start=1) if _has_ever_run(status))
    return max(started, default=min(1, len(statuses)))


def _has_ever_run(status: ContainerStatus) -> bool:
    return status.last_state is not None or not isinstance(status.state, Waiting)


async def end_containers(
    pod: Pod, grace_s: float, records: ContainerRecords, clock: Clock, on_killing: Callable[[str], None]
) -> None:
    """End what runs of a pod, and its sandbox, and return when it has ended.

    A sidecar waits for the app containers and for the sidecar behind it, as long as there is grace. The grace is in
    seconds of the node's clock, for all containers together; `on_killing` is called with each container that is about
    to be ended.
    """
    await records.cri.until_resumed()
    running = [name for name, run in records.containers(pod.uid).items() if run.is_running]
    for name in running:
        on_killing(name)
    order = _TerminationOrder(pod, running)
    async with asyncio.TaskGroup() as tasks:
        for name in running:
            tasks.create_task(_end(pod, name, grace_s, order, records, clock))
    records.end_sandbox(pod.uid)


async def end_orphan(pod: Pod, records: ContainerRecords, clock: Clock, on_killing: Callable[[str], None]) -> None:
    """End what runs of a pod that the kubelet does not look after, a refused one for instance.

    It has a second of grace, but its cgroup goes at the same time and kills every process in it. Only the cgroup of a
    pod with volumes stays until these are gone.
    """
    if pod.spec.get("volumes"):
        # The runtime is asked what runs, and to it all containers are alike.
        alike = pod.with_kinds(dict.fromkeys(ContainerKind, ContainerKind.APP))
        await end_containers(alike, _ORPHAN_GRACE_S, records, clock, on_killing)
        return
    await records.cri.until_resumed()
    running = [name for name, run in records.containers(pod.uid).items() if run.is_running]
    for name in running:
        on_killing(name)
    for name in running:
        await records.stop(pod.uid, name, grace_s=0)
    records.end_sandbox(pod.uid)


class _TerminationOrder:
    """Which containers of a pod end before which.

    Args:
        pod: theirs.
        running: those that do not run need not be waited for.
    """

    def __init__(self, pod: Pod, running: Collection[str]) -> None:
        sidecars = [container.name for container in pod.containers if container.kind is ContainerKind.SIDECAR]
        self._next = dict(pairwise([*sidecars, ""]))
        self._ended = {name: asyncio.Event() for name in sidecars if name in set(running)}
        self._apps = {container.name for container in pod.app_containers} & set(running)
        self._apps_ended = asyncio.Event()
        if not self._apps:
            self._apps_ended.set()

    def before(self, name: str) -> list[asyncio.Event]:
        """What has to happen before this container's turn; none of it has happened yet."""
        if name not in self._next:
            return []
        events = [self._apps_ended, self._ended.get(self._next[name])]
        return [event for event in events if event is not None and not event.is_set()]

    def has_ended(self, name: str) -> None:
        """A container has ended."""
        self._apps.discard(name)
        if not self._apps:
            self._apps_ended.set()
        if name in self._ended:
            self._ended[name].set()


async def _end(
    pod: Pod, name: str, grace_s: float, order: _TerminationOrder, records: ContainerRecords, clock: Clock
) -> None:
    if grace_s > 0 and (turn := order.before(name)):
        grace_s -= await _wait_for_turn(turn, grace_s, clock)
    await records.stop(pod.uid, name, max(grace_s, _SHORTEST_GRACE_S))
    order.has_ended(name)


async def _wait_for_turn(turn: list[asyncio.Event], grace_s: float, clock: Clock) -> int:
    """Wait until all have ended or the grace is over; the whole seconds that it took."""
    began = clock.now()
    await first_done(_all_of(turn), clock.sleep(grace_s))
    return int(clock.now() - began)


async def _all_of(events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()
