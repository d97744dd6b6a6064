"""The end of a pod's containers: all at once, sidecars after the others, each with what is left of the grace.

Source: kuberuntime/kuberuntime_container.go, ``killContainer``; kuberuntime_termination_order.go,
``newTerminationOrdering``; kubelet_pods.go, ``HandlePodCleanups`` for orphans (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from .._internal.first_done import first_done
from ..model.clock import Clock
from ..model.pod import ContainerKind, Pod
from ..runtime.container_records import ContainerRecords

__all__ = ["end_containers", "end_orphan"]

_SHORTEST_GRACE_S: Final = 2.0
"""What a container gets at least, however short the pod's grace is."""
_ORPHAN_GRACE_S: Final = 1.0


async def end_containers(
    pod: Pod, grace_s: float, records: ContainerRecords, clock: Clock, on_killing: Callable[[str], None]
) -> None:
    """End what runs of a pod, and its sandbox, and return when it has ended.

    A sidecar waits for the app containers and for the sidecar behind it, as long as there is grace. The grace is in
    seconds of the node's clock, for all containers together; `on_killing` is told of each container that is about to
    be ended.
    """
    await records.cri.until_resumed()
    running = [name for name, life in records.containers(pod.uid).items() if life.is_running]
    ended = {container.name: asyncio.Event() for container in pod.containers}
    for name in ended.keys() - set(running):
        ended[name].set()
    for name in running:
        on_killing(name)
    async with asyncio.TaskGroup() as tasks:
        for name in running:
            turn = [ended[other] for other in _goes_before(pod, name)]
            tasks.create_task(_end(pod, name, grace_s, turn, ended[name], records, clock))
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
    running = [name for name, life in records.containers(pod.uid).items() if life.is_running]
    for name in running:
        on_killing(name)
    for name in running:
        await records.stop(pod.uid, name, grace_s=0)
    records.end_sandbox(pod.uid)


async def _end(
    pod: Pod,
    name: str,
    grace_s: float,
    turn: list[asyncio.Event],
    ended: asyncio.Event,
    records: ContainerRecords,
    clock: Clock,
) -> None:
    if grace_s > 0 and not all(event.is_set() for event in turn):
        grace_s -= await _wait_for_turn(turn, grace_s, clock)
    await records.stop(pod.uid, name, max(grace_s, _SHORTEST_GRACE_S))
    ended.set()


async def _wait_for_turn(turn: list[asyncio.Event], grace_s: float, clock: Clock) -> int:
    """Wait until all have ended or the grace is over; the whole seconds that it took."""
    began = clock.now()
    await first_done(_all_of(turn), clock.sleep(grace_s))
    return int(clock.now() - began)


async def _all_of(events: list[asyncio.Event]) -> None:
    for event in events:
        await event.wait()


def _goes_before(pod: Pod, name: str) -> list[str]:
    """The containers that end before this one begins to."""
    order = [container for container in pod.containers if container.kind is ContainerKind.SIDECAR]
    place = next((i for i, sidecar in enumerate(order) if sidecar.name == name), None)
    if place is None:
        return []
    return [container.name for container in (*pod.app_containers, *order[place + 1 : place + 2])]
