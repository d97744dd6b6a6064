"""What is to be done with a pod's containers now, from the runs that they have had.

Source: kubelet/kuberuntime/kuberuntime_manager.go, ``computePodActions``; kuberuntime_container.go,
``computeInitContainerActions`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.pod import Container, ContainerKind, Pod, RestartPolicy
from ..runtime.container_records import ContainerRecord
from .status import is_restarted

__all__ = ["PodActions", "actions_for"]


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
