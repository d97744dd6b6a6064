"""The whole status of a pod, made from the runtime's records.

Source: kubelet/kubelet_pods.go, ``generateAPIPodStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..container_manager.container_manager import ContainerManager
from ..model.config import KubeletConfig
from ..model.pod import Pod
from ..model.pod_status import PodStatus, Waiting
from ..runtime.container_records import ContainerRecords
from .conditions import conditions_of
from .container_status import container_statuses
from .phase import phase_of

__all__ = ["StatusGenerator"]


class StatusGenerator:
    """Makes the statuses of one kubelet instance."""

    def __init__(self, config: KubeletConfig, containers: ContainerManager, records: ContainerRecords) -> None:
        version = config.version
        self.by_container = config.is_on("ContainerRestartRules", version.has_container_restart_rules)
        self._tells_sandbox = config.is_on("PodReadyToStartContainersCondition", version.has_ready_to_start_condition)
        self.tells_health = config.is_on("ResourceHealthStatus", version.resource_health_status)
        self._containers = containers
        self._records = records

    def status_of(self, pod: Pod, reasons: Mapping[str, Waiting], *, is_over: bool) -> PodStatus:
        """The status of a pod; see `container_status` for the reasons, `phase` for the rest.

        The reason and message of a phase that lasts stay as they are; a terminal phase is never left.
        """
        lives = self._records.containers(pod.uid)
        statuses = container_statuses(
            pod,
            lives,
            lambda name: self._records.ended_before(pod.uid, name),
            reasons,
            by_container=self.by_container,
        )
        if self.tells_health:
            for name, resources in self._containers.allocated_resources_status(pod).items():
                statuses[name] = replace(statuses[name], resources=tuple(resources))
        has_sandbox = self._records.has_sandbox(pod.uid)
        phase = phase_of(
            pod,
            statuses,
            is_over=is_over,
            has_initialized=has_sandbox and any(app.name in lives for app in pod.app_containers),
            by_container=self.by_container,
        )
        if pod.status.phase.is_terminal:
            phase = pod.status.phase
        is_same = phase is pod.status.phase
        return PodStatus(
            phase,
            pod.status.reason if is_same else "",
            pod.status.message if is_same else "",
            conditions_of(pod, statuses, phase, has_sandbox if self._tells_sandbox else None),
            tuple(statuses[container.name] for container in pod.init_containers),
            tuple(statuses[name] for name in sorted(container.name for container in pod.app_containers)),
        )
