"""The status of a pod's containers, from what the runtime has on record.

Source: kubelet/kubelet_pods.go, ``convertToAPIContainerStatuses``; prober/prober_manager.go, ``UpdatePodStatus``
(kubernetes v1.34.4). No container here has a probe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..model.pod import Container, ContainerKind, Pod
from ..model.pod_status import ContainerState, ContainerStatus, Running, Terminated, Waiting
from ..runtime.container_records import ContainerRecord
from .restart import is_restarted

__all__ = ["container_statuses"]

_CREATING: Final = Waiting("ContainerCreating")
_INITIALIZING: Final = Waiting("PodInitializing")


def container_statuses(
    pod: Pod,
    lives: Mapping[str, ContainerRecord],
    lives_before: Callable[[str], ContainerRecord | None],
    reasons: Mapping[str, Waiting],
    *,
    by_container: bool,
) -> dict[str, ContainerStatus]:
    """Container -> its status, in the manifest's order.

    Args:
        pod: what was asked for.
        lives: container -> its last life, of those that ever had one.
        lives_before: the life before that.
        reasons: container -> why it could not be started the last time it was tried.
        by_container: see `restart.is_restarted`.
    """
    has_init = bool(pod.init_containers)
    statuses = {}
    for container in pod.containers:
        life = lives.get(container.name)
        before = lives_before(container.name)
        last_state = None if before is None else _ended(before)
        state: ContainerState = _INITIALIZING if has_init else _CREATING
        if life is not None:
            state = Running(life.started_at) if life.is_running else _ended(life)
        reason = reasons.get(container.name)
        if reason is not None and _is_to_be_started(pod, container, life, by_container):
            last_state = state if isinstance(state, Terminated) else last_state
            state = reason
        statuses[container.name] = ContainerStatus(
            container.name,
            state,
            last_state,
            is_ready=_is_ready(container, state),
            restart_count=0 if life is None else life.attempt,
            is_started=isinstance(state, Running),
        )
    return statuses


def _ended(life: ContainerRecord) -> Terminated:
    if life.exit is None:
        raise ValueError(f"container {life.name!r} has not ended")
    status = life.exit
    return Terminated(status.code, status.reason.value, life.started_at, life.finished_at, status.message)


def _is_to_be_started(pod: Pod, container: Container, life: ContainerRecord | None, by_container: bool) -> bool:
    if pod.is_deleting or (life is not None and life.is_running):
        return False
    if life is None or life.exit is None:
        return True
    if container.kind is ContainerKind.INIT and life.exit.code == 0:
        return False
    return is_restarted(pod, container, life.exit.code, by_container=by_container)


def _is_ready(container: Container, state: ContainerState) -> bool:
    if container.kind is ContainerKind.INIT:
        return isinstance(state, Terminated) and state.exit_code == 0
    return isinstance(state, Running)
