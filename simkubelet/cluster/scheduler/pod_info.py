"""A pod as the scheduler sees it, worked out once for each of its states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from ...model.pod import Pod, PodUID
from ...model.resources import ResourceName

__all__ = ["CPU", "DEFAULT_SCHEDULER", "MEMORY", "HostPort", "PodInfo"]

DEFAULT_SCHEDULER: Final = "default-scheduler"
CPU: Final = ResourceName("cpu")
MEMORY: Final = ResourceName("memory")

_COUNTED_WHERE_MISSING: Final = {CPU: 100, MEMORY: 200 * 1024**2}
_ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - compared, never bound


class HostPort(NamedTuple):
    """A port of its node that a pod takes."""

    host: str
    protocol: str
    port: int

    def clashes_with(self, other: HostPort) -> bool:
        return self[1:] == other[1:] and (self.host == other.host or _ANY_HOST in (self.host, other.host))


class PodInfo:
    """One state of a pod."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod

    @property
    def uid(self) -> PodUID:
        return self.pod.uid

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def namespace(self) -> str:
        return self.pod.namespace

    @property
    def node_name(self) -> str | None:
        return self.pod.node_name or None

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.pod.manifest.get("metadata") or {}
        return metadata

    @property
    def spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.pod.manifest.get("spec") or {}
        return spec

    @property
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.pod.manifest.get("status") or {}
        return status

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.get("labels") or {}

    @cached_property
    def priority(self) -> int:
        return int(self.spec.get("priority") or 0)

    @property
    def scheduler_name(self) -> str:
        return self.spec.get("schedulerName") or DEFAULT_SCHEDULER

    @property
    def is_gated(self) -> bool:
        return bool(self.spec.get("schedulingGates"))

    @property
    def may_preempt(self) -> bool:
        return self.spec.get("preemptionPolicy") != "Never"

    @property
    def tolerations(self) -> list[Mapping[str, Any]]:
        return self.spec.get("tolerations") or []

    @property
    def has_pod_affinity(self) -> bool:
        """Whether it has wishes about the pods around it."""
        affinity = self.spec.get("affinity") or {}
        return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))

    @property
    def nominated_node(self) -> str:
        """The node that a preemption makes room on for it; empty where there is none."""
        return self.status.get("nominatedNodeName") or ""

    @property
    def is_preempted(self) -> bool:
        """Whether it is on its way out for another pod."""
        if not self.metadata.get("deletionTimestamp"):
            return False
        conditions = self.status.get("conditions") or ()
        target: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "DisruptionTarget"), {})
        return target.get("status") == "True" and target.get("reason") == "PreemptionByScheduler"

    @property
    def start_time(self) -> str:
        """When its kubelet took it, as a timestamp; one that has not comes after all others."""
        return self.status.get("startTime") or "~"

    @cached_property
    def requests(self) -> Mapping[ResourceName, int]:
        return self.pod.requests()

    @cached_property
    def counted_requests(self) -> Mapping[ResourceName, int]:
        """CPU and memory as the score of the least allocated node counts them: something for who asks for nothing.

        Source: pkg/scheduler/util/pod_resources.go (kubernetes v1.34.4).
        """
        containers = tuple(
            replace(each, requests={**_COUNTED_WHERE_MISSING, **each.requests}) for each in self.pod.containers
        )
        requests = replace(self.pod, containers=containers).requests()
        return {name: requests[name] for name in (CPU, MEMORY)}

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Source: pkg/scheduler/util/utils.go, ``GetHostPorts`` (kubernetes v1.34.4)."""
        return tuple(
            HostPort(port.get("hostIP") or _ANY_HOST, port.get("protocol") or "TCP", port["hostPort"])
            for container in self._lasting_containers()
            for port in container.get("ports") or ()
            if port.get("hostPort")
        )

    def _lasting_containers(self) -> Iterator[Mapping[str, Any]]:
        for container in self.spec.get("initContainers") or ():
            if container.get("restartPolicy") == "Always":
                yield container
        yield from self.spec.get("containers") or ()
