"""The last status of a pod: containers that the runtime told nothing of count as failed.

Source: status/status_manager.go, ``TerminatePod``, ``hasPodInitialized``, ``initializedContainers`` (kubernetes
v1.26.15, v1.34.4, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..model.pod import ContainerKind, Pod
from ..model.pod_status import ContainerStatus, PodStatus, Running, Terminated, Waiting

__all__ = ["terminated"]

_NOT_FOUND: Final = Terminated(
    137, "ContainerStatusUnknown", 0.0, 0.0, "The container could not be located when the pod was terminated"
)


def terminated(pod: Pod, told: PodStatus, status: PodStatus) -> PodStatus:
    """The status of a pod of which nothing runs any more and nothing is started again.

    An app container that has not ended is one that failed, once the pod came to its app containers; so is an init
    container, up to the last one that ever ran. `pod` has the status that was told last.
    """
    reached = _count_of_started(status.init_containers)
    return replace(
        status,
        init_containers=(*map(_ended, status.init_containers[:reached]), *status.init_containers[reached:]),
        containers=tuple(map(_ended, status.containers)) if _has_initialized(pod, told) else status.containers,
    )


def _ended(status: ContainerStatus) -> ContainerStatus:
    return status if isinstance(status.state, Terminated) else replace(status, state=_NOT_FOUND)


def _has_initialized(pod: Pod, told: PodStatus) -> bool:
    if not pod.init_containers or any(_has_ever_run(status) for status in told.containers):
        return True
    if not told.init_containers:
        return False
    last = told.init_containers[-1]
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
