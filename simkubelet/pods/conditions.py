"""The conditions of a pod that its kubelet owns.

Source: kubelet/status/generate.go; kubelet/kubelet_pods.go, ``generateAPIPodStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..model.pod import Container, ContainerKind, Pod
from ..model.pod_status import Condition, ConditionType, ContainerStatus, PodPhase, Running, Terminated

__all__ = ["conditions_of"]


def conditions_of(
    pod: Pod,
    statuses: Mapping[str, ContainerStatus],
    phase: PodPhase,
    has_sandbox: bool | None,
) -> tuple[Condition, ...]:
    """The conditions in the kubelet's order.

    Args:
        pod: what was asked for.
        statuses: container -> its status, of every container.
        phase: the pod's.
        has_sandbox: whether containers can be started; None where the minor has no condition for it.
    """
    ready = _containers_ready(pod, statuses, phase)
    conditions = [
        _initialized(pod, statuses, phase),
        Condition(ConditionType.READY, ready.is_true, ready.reason, ready.message),
        ready,
        Condition(ConditionType.SCHEDULED, True),
    ]
    if has_sandbox is not None:
        conditions.insert(0, Condition(ConditionType.READY_TO_START_CONTAINERS, has_sandbox))
    return tuple(conditions)


def _containers_ready(pod: Pod, statuses: Mapping[str, ContainerStatus], phase: PodPhase) -> Condition:
    if phase.is_terminal:
        reason = "PodFailed" if phase is PodPhase.FAILED else "PodCompleted"
        return Condition(ConditionType.CONTAINERS_READY, False, reason)
    lasting = (container for container in pod.containers if container.kind is not ContainerKind.INIT)
    unready = [container.name for container in lasting if not statuses[container.name].is_ready]
    if unready:
        message = f"containers with unready status: {_go_list(unready)}"
        return Condition(ConditionType.CONTAINERS_READY, False, "ContainersNotReady", message)
    return Condition(ConditionType.CONTAINERS_READY, True)


def _initialized(pod: Pod, statuses: Mapping[str, ContainerStatus], phase: PodPhase) -> Condition:
    if phase is PodPhase.SUCCEEDED:
        return Condition(ConditionType.INITIALIZED, True, "PodCompleted")
    # Sidecars that are started again do not take back what an app container has shown.
    if any(isinstance(statuses[app.name].state, Running | Terminated) for app in pod.app_containers):
        return Condition(ConditionType.INITIALIZED, True)
    incomplete = [c.name for c in pod.init_containers if not _is_initialized(c, statuses[c.name])]
    if incomplete:
        message = f"containers with incomplete status: {_go_list(incomplete)}"
        return Condition(ConditionType.INITIALIZED, False, "ContainersNotInitialized", message)
    return Condition(ConditionType.INITIALIZED, True)


def _is_initialized(container: Container, status: ContainerStatus) -> bool:
    return status.is_started if container.kind is ContainerKind.SIDECAR else status.is_ready


def _go_list(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
