"""A pod's phase, from the states of its containers, and whether a container that has ended is started again.

Source: kubelet/kubelet_pods.go, ``getPhase``; kubelet/container/helpers.go, ``ShouldContainerBeRestarted``;
pkg/api/v1/pod/util.go, ``ContainerShouldRestart`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.pod import Container, ContainerKind, Pod, RestartPolicy
from ..model.pod_status import ContainerStatus, PodPhase, Running, Terminated, Waiting

__all__ = ["is_restarted", "phase_of"]


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
        by_container: see `restart.is_restarted`.
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
