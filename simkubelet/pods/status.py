"""A pod's status as its kubelet publishes it: phase, conditions, and the status of each container.

All of it follows from the runs that the containers have had, and from whether one that has ended is started again. No
container here has a probe.

Source: kubelet/kubelet_pods.go, ``generateAPIPodStatus``, ``convertToAPIContainerStatuses``, ``getPhase``;
kubelet/status/generate.go; prober/prober_manager.go, ``UpdatePodStatus``; kubelet/container/helpers.go,
``ShouldContainerBeRestarted``; pkg/api/v1/pod/util.go, ``ContainerShouldRestart`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..container_manager import ContainerManager
from ..model.config import KubeletConfig
from ..model.pod import Container, ContainerKind, Pod, RestartPolicy
from ..model.pod_status import (
    Condition,
    ConditionType,
    ContainerState,
    ContainerStatus,
    PodPhase,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from ..runtime.container_records import ContainerRecord, ContainerRecords

__all__ = ["StatusGenerator", "container_statuses", "is_restarted", "phase_of"]

_CREATING: Final = Waiting("ContainerCreating")
_INITIALIZING: Final = Waiting("PodInitializing")


def is_restarted(pod: Pod, container: Container, exit_code: int, *, by_container: bool) -> bool:
    """Whether a container that ended with `exit_code` gets another run.

    A sidecar always does. Its own rules and policy count for another container where `by_container` says that the gate
    ContainerRestartRules is on.
    """
    if container.kind is ContainerKind.SIDECAR:
        return True
    if by_container and any(rule.restarts_after(exit_code) for rule in container.restart_rules):
        return True
    own = container.restart_policy if by_container else None
    return (own or pod.restart_policy).restarts_after(exit_code)


def phase_of(
    pod: Pod,
    statuses: Mapping[str, ContainerStatus],
    *,
    is_over: bool,
    has_initialized: bool,
    by_container: bool,
) -> PodPhase:
    """The phase that these states of its containers give a pod.

    Args:
        pod: what was asked for.
        statuses: container -> its status; one that is missing is unknown.
        is_over: the pod's containers have been ended and none is started again; False where the minor does not look
            at that.
        has_initialized: an app container has been started in the pod's sandbox, so sidecars that are started again
            do not make it Pending.
        by_container: see `is_restarted`.
    """
    init = _init_counts(pod, statuses, by_container)
    gives_up = init.failed_for_good if by_container else init.failed and pod.restart_policy is RestartPolicy.NEVER
    if gives_up:
        return PodPhase.FAILED
    counts = _counts(pod, statuses, by_container)
    if init.pending or (counts.pending_sidecars and not has_initialized) or counts.waiting:
        return PodPhase.PENDING
    if counts.unknown or not (counts.running or counts.stopped):
        return PodPhase.PENDING
    if counts.running:
        return PodPhase.RUNNING
    return _stopped_phase(pod, counts, is_over=is_over, by_container=by_container)


@dataclass(slots=True)
class _InitCounts:
    pending: int = 0
    failed: int = 0
    failed_for_good: int = 0


@dataclass(slots=True)
class _Counts:
    """Sidecars and app containers; a container that waits for another start counts as stopped."""

    pending_sidecars: int = 0
    running: int = 0
    waiting: int = 0
    unknown: int = 0
    stopped: int = 0
    succeeded: int = 0
    stopped_for_good: int = 0


def _init_counts(pod: Pod, statuses: Mapping[str, ContainerStatus], by_container: bool) -> _InitCounts:
    counts = _InitCounts()
    for container in pod.containers:
        if container.kind is not ContainerKind.INIT:
            continue
        end = _end_of(statuses.get(container.name))
        if end is None:
            counts.pending += 1
        elif end.exit_code:
            counts.failed += 1
            counts.failed_for_good += not is_restarted(pod, container, end.exit_code, by_container=by_container)
    return counts


def _counts(pod: Pod, statuses: Mapping[str, ContainerStatus], by_container: bool) -> _Counts:
    counts = _Counts()
    for container in pod.containers:
        if container.kind is ContainerKind.INIT:
            continue
        status = statuses.get(container.name)
        if status is None:
            counts.unknown += 1
        elif isinstance(status.state, Running):
            counts.running += 1
            counts.pending_sidecars += container.kind is ContainerKind.SIDECAR and not status.is_started
        elif container.kind is ContainerKind.SIDECAR:
            never_ran = isinstance(status.state, Waiting) and status.last_state is None
            counts.pending_sidecars += never_ran
            counts.waiting += never_ran
        else:
            _count_app(counts, pod, container, status, by_container)
    return counts


def _count_app(counts: _Counts, pod: Pod, container: Container, status: ContainerStatus, by_container: bool) -> None:
    end = _end_of(status)
    if end is None:
        counts.waiting += 1
        return
    counts.stopped += 1
    counts.succeeded += isinstance(status.state, Terminated) and end.exit_code == 0
    counts.stopped_for_good += not is_restarted(pod, container, end.exit_code, by_container=by_container)


def _end_of(status: ContainerStatus | None) -> Terminated | None:
    """How a container that does not run ended last; None for one that runs or never ran."""
    if status is None or isinstance(status.state, Running):
        return None
    return status.state if isinstance(status.state, Terminated) else status.last_state


def _stopped_phase(pod: Pod, counts: _Counts, *, is_over: bool, by_container: bool) -> PodPhase:
    ended = PodPhase.SUCCEEDED if counts.stopped == counts.succeeded else PodPhase.FAILED
    if is_over and not pod.is_static:
        return ended
    if by_container:
        return ended if counts.stopped == counts.stopped_for_good else PodPhase.RUNNING
    if pod.restart_policy is RestartPolicy.ALWAYS:
        return PodPhase.RUNNING
    if ended is PodPhase.SUCCEEDED or pod.restart_policy is RestartPolicy.NEVER:
        return ended
    return PodPhase.RUNNING


def _conditions_of(
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


def container_statuses(
    pod: Pod,
    runs: Mapping[str, Sequence[ContainerRecord]],
    reasons: Mapping[str, Waiting],
    *,
    by_container: bool,
) -> dict[str, ContainerStatus]:
    """Container -> its status, in the manifest's order.

    Args:
        pod: what was asked for.
        runs: container -> its runs on record, the last one at the end.
        reasons: container -> why it could not be started the last time it was tried.
        by_container: see `is_restarted`.
    """
    has_init = bool(pod.init_containers)
    statuses = {}
    for container in pod.containers:
        known = runs.get(container.name, ())
        run = known[-1] if known else None
        last_state = _ended(known[-2]) if len(known) > 1 else None
        state: ContainerState = _INITIALIZING if has_init else _CREATING
        if run is not None:
            state = Running(run.started_at) if run.is_running else _ended(run)
        reason = reasons.get(container.name)
        if reason is not None and _is_to_be_started(pod, container, run, by_container):
            last_state = state if isinstance(state, Terminated) else last_state
            state = reason
        statuses[container.name] = ContainerStatus(
            container.name,
            state,
            last_state,
            is_ready=_is_ready(container, state),
            restart_count=0 if run is None else run.attempt,
            is_started=isinstance(state, Running),
        )
    return statuses


def _ended(run: ContainerRecord) -> Terminated:
    if run.exit is None:
        raise ValueError(f"container {run.name!r} has not ended")
    status = run.exit
    return Terminated(status.code, status.reason.value, run.started_at, run.finished_at, status.message)


def _is_to_be_started(pod: Pod, container: Container, run: ContainerRecord | None, by_container: bool) -> bool:
    if pod.is_deleting or (run is not None and run.is_running):
        return False
    if run is None or run.exit is None:
        return True
    if container.kind is ContainerKind.INIT and run.exit.code == 0:
        return False
    return is_restarted(pod, container, run.exit.code, by_container=by_container)


def _is_ready(container: Container, state: ContainerState) -> bool:
    if container.kind is ContainerKind.INIT:
        return isinstance(state, Terminated) and state.exit_code == 0
    return isinstance(state, Running)


class StatusGenerator:
    """Makes the statuses of one kubelet instance."""

    def __init__(self, config: KubeletConfig, containers: ContainerManager, records: ContainerRecords) -> None:
        self.by_container = config.is_on("ContainerRestartRules")
        self._has_sandbox_condition = config.is_on("PodReadyToStartContainersCondition")
        self.reports_health = config.is_on("ResourceHealthStatus")
        self._containers = containers
        self._records = records

    def status_of(self, pod: Pod, reasons: Mapping[str, Waiting], *, is_over: bool) -> PodStatus:
        """The status of a pod; see `container_statuses` for the reasons, `phase_of` for the rest.

        The reason and message of a phase that lasts stay as they are; a terminal phase is never left.
        """
        runs = self._records.runs(pod.uid)
        statuses = container_statuses(pod, runs, reasons, by_container=self.by_container)
        if self.reports_health:
            for name, resources in self._containers.allocated_resources_status(pod).items():
                statuses[name] = replace(statuses[name], resources=tuple(resources))
        has_sandbox = self._records.has_sandbox(pod.uid)
        phase = phase_of(
            pod,
            statuses,
            is_over=is_over,
            has_initialized=has_sandbox and any(app.name in runs for app in pod.app_containers),
            by_container=self.by_container,
        )
        if pod.status.phase.is_terminal:
            phase = pod.status.phase
        is_same = phase is pod.status.phase
        return PodStatus(
            phase,
            pod.status.reason if is_same else "",
            pod.status.message if is_same else "",
            _conditions_of(pod, statuses, phase, has_sandbox if self._has_sandbox_condition else None),
            tuple(statuses[container.name] for container in pod.init_containers),
            tuple(statuses[name] for name in sorted(container.name for container in pod.app_containers)),
        )
