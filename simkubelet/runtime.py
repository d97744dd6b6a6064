"""The container runtime of a node, as book-keeping: which containers run, and with what.

It lives as long as the node, so containers go on while the kubelet restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .pod import Container, ContainerKind, Pod, PodUID
from .run_options import DeviceRunOptions

__all__ = ["ContainerRuntime", "RunningContainer"]


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container that was started; an init container has ended by then.

    `env` is what its process sees: the plugins' variables, and over them the pod's own.
    """

    name: str
    is_running: bool
    env: Mapping[str, str]
    options: DeviceRunOptions


class ContainerRuntime:
    """Pod -> its containers, in the order in which they were started."""

    def __init__(self) -> None:
        self._pods: dict[PodUID, dict[str, RunningContainer]] = {}

    def start(self, pod: Pod, container: Container, options: DeviceRunOptions) -> None:
        """Start a container; an init container runs to its end at once."""
        self._pods.setdefault(pod.uid, {})[container.name] = RunningContainer(
            name=container.name,
            is_running=container.kind is not ContainerKind.INIT,
            env={**options.envs, **container.env},
            options=options,
        )

    def containers(self, pod_uid: PodUID) -> Mapping[str, RunningContainer]:
        return self._pods.get(pod_uid, {})

    def running(self) -> frozenset[tuple[PodUID, str]]:
        """(pod, container) of everything that runs: what a kubelet learns from the runtime when it starts."""
        return frozenset(
            (pod_uid, container.name)
            for pod_uid, containers in self._pods.items()
            for container in containers.values()
            if container.is_running
        )

    def remove(self, pod_uid: PodUID) -> None:
        """End all containers of a pod and forget them."""
        self._pods.pop(pod_uid, None)
