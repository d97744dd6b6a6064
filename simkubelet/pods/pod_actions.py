"""What is to be done with a pod's containers now, from the runs that they have had, and how long a restart waits.

Source: kubelet/kuberuntime/kuberuntime_manager.go, ``computePodActions``, ``doBackOff``; kuberuntime_container.go,
``computeInitContainerActions`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ..model.clock import Clock
from ..model.config import KubeletConfig
from ..model.pod import Container, ContainerKind, Pod, PodUID, RestartPolicy
from ..runtime.container_records import ContainerRecord
from .status import is_restarted

__all__ = ["RESET_AFTER_S", "CrashLoopBackOff", "PodActions", "actions_for"]

RESET_AFTER_S: Final = 600.0
"""After this long since a container's last start its pause is forgotten."""

_ROUNDING_S: Final = 1e-6
"""Sums of pauses are not exact: what is less than this is over."""


@dataclass(frozen=True, slots=True)
class PodActions:
    """What to do, in this order.

    Attributes:
        makes_sandbox: give the pod a sandbox.
        ends_pod: end all that still runs; nothing is started.
        init: init containers and sidecars to start, one after the other.
        apps: app containers to start.
    """

    makes_sandbox: bool = False
    ends_pod: bool = False
    init: tuple[Container, ...] = ()
    apps: tuple[Container, ...] = ()


def actions_for(
    pod: Pod, runs: Mapping[str, ContainerRecord], *, has_sandbox: bool, had_sandbox: bool, by_container: bool
) -> PodActions:
    """What a pod needs.

    Args:
        pod: what was asked for.
        runs: container -> its last run.
        has_sandbox: there is a sandbox to start containers in.
        had_sandbox: there was one once, which a reboot has ended.
        by_container: see `is_restarted`.
    """
    if not has_sandbox:
        return _in_new_sandbox(pod, runs, is_another=had_sandbox, by_container=by_container)
    init = _init_actions(pod, runs, by_container)
    if init is None:
        return PodActions(ends_pod=True)
    if not init.is_done:
        return PodActions(init=init.start)
    apps = tuple(app for app in pod.app_containers if _is_to_be_started(pod, app, runs.get(app.name), by_container))
    if not apps and not any(_is_running(runs.get(app.name)) for app in pod.app_containers):
        return PodActions(ends_pod=True)
    return PodActions(init=init.start, apps=apps)


def _in_new_sandbox(
    pod: Pod, runs: Mapping[str, ContainerRecord], *, is_another: bool, by_container: bool
) -> PodActions:
    if pod.restart_policy is RestartPolicy.NEVER and is_another and runs:
        return PodActions(ends_pod=True)
    apps = tuple(
        app for app in pod.app_containers if not _has_done_its_work(pod, app, runs.get(app.name), by_container)
    )
    if not apps and any(app.name in runs for app in pod.app_containers):
        return PodActions(ends_pod=True)
    if pod.init_containers:
        return PodActions(makes_sandbox=True, init=pod.init_containers[:1])
    return PodActions(makes_sandbox=True, apps=apps)


def _has_done_its_work(pod: Pod, app: Container, run: ContainerRecord | None, by_container: bool) -> bool:
    policy = (app.restart_policy if by_container else None) or pod.restart_policy
    has_succeeded = run is not None and run.exit is not None and run.exit.code == 0
    return policy is RestartPolicy.ON_FAILURE and has_succeeded


@dataclass(frozen=True, slots=True)
class _InitActions:
    """Init containers to start, and whether the app containers may start after them."""

    start: tuple[Container, ...]
    is_done: bool


def _init_actions(pod: Pod, runs: Mapping[str, ContainerRecord], by_container: bool) -> _InitActions | None:
    """What the init containers need; None when one has failed for good.

    The last one that ever ran shows how far the pod has come; of those before it only sidecars matter.
    """
    containers = pod.init_containers
    is_done = not containers or any(_is_running(runs.get(app.name)) for app in pod.app_containers)
    start: dict[int, Container] = {}
    is_past = is_done
    for i in reversed(range(len(containers))):
        container, run = containers[i], runs.get(containers[i].name)
        is_sidecar = container.kind is ContainerKind.SIDECAR
        if run is None:
            if is_past and is_sidecar:
                start[i] = container
            continue
        if is_past and not is_sidecar:
            continue
        if run.exit is not None and (is_sidecar or run.exit.code):
            if not is_restarted(pod, container, run.exit.code, by_container=by_container):
                return None
            start[i] = container
        elif run.exit is not None or is_sidecar:
            # It has done its part: the next one's turn, or that of the app containers.
            if i == len(containers) - 1:
                is_done = True
            elif not is_past:
                start[i + 1] = containers[i + 1]
        is_past = True
    if not is_past:
        start[0] = containers[0]
    return _InitActions(tuple(start[i] for i in sorted(start)), is_done)


def _is_running(run: ContainerRecord | None) -> bool:
    return run is not None and run.is_running


def _is_to_be_started(pod: Pod, app: Container, run: ContainerRecord | None, by_container: bool) -> bool:
    if run is None:
        return True
    return run.exit is not None and is_restarted(pod, app, run.exit.code, by_container=by_container)


@dataclass(frozen=True, slots=True)
class _Pause:
    delay_s: float
    started_at: float


class CrashLoopBackOff:
    """(pod, container) -> the pause before its next start; doubles with each start that follows an early end.

    A kubelet keeps it in memory, so it starts from zero after a restart.

    Source: client-go/util/flowcontrol/backoff.go (v0.34.4); kubelet/kubelet.go, ``newCrashLoopBackOff``;
    kubelet_pods.go, ``HandlePodCleanups``, which drops old entries whether or not their containers still run
    (kubernetes v1.34.4).

    Args:
        now: the node's time.
        initial_s: the first pause.
        max_s: the longest.
    """

    def __init__(self, now: Callable[[], float], *, initial_s: float = 10.0, max_s: float = 300.0) -> None:
        self._now = now
        self._initial_s = initial_s
        self._max_s = max_s
        self._entries: dict[tuple[PodUID, str], _Pause] = {}

    @classmethod
    def of(cls, config: KubeletConfig, clock: Clock) -> CrashLoopBackOff:
        """The pauses of a kubelet; the gate ReduceDefaultCrashLoopBackOffDecay, off by default, makes them shorter."""
        if config.is_on("ReduceDefaultCrashLoopBackOffDecay"):
            return cls(clock.now, initial_s=1.0, max_s=60.0)
        return cls(clock.now)

    def remaining_s(self, pod: PodUID, container: str, finished_at: float) -> float:
        """Seconds until a container that ended at `finished_at` may be started; 0 when it may be at once."""
        entry = self._entries.get((pod, container))
        if entry is None:
            return 0.0
        remaining_s = min(finished_at + entry.delay_s, entry.started_at + RESET_AFTER_S) - self._now()
        return remaining_s if remaining_s > _ROUNDING_S else 0.0

    def delay_s(self, pod: PodUID, container: str) -> float:
        """The whole pause that a container is in."""
        entry = self._entries.get((pod, container))
        return 0.0 if entry is None else entry.delay_s

    def started(self, pod: PodUID, container: str) -> None:
        """A container that has ended is started again."""
        entry, now = self._entries.get((pod, container)), self._now()
        delay_s = self._initial_s
        if entry is not None and now - entry.started_at < RESET_AFTER_S:
            delay_s = min(entry.delay_s * 2, self._max_s)
        self._entries[pod, container] = _Pause(delay_s, now)

    def forget(self, pod: PodUID) -> None:
        """Drop what is known of a pod that has ended."""
        for key in [key for key in self._entries if key[0] == pod]:
            del self._entries[key]
