"""What one kubelet counts for its /metrics: plain numbers, cheap to make and to raise.

A kubelet that restarts counts from 0; `exposition` turns the numbers into what a scraper reads.

Source: kubelet/metrics/metrics.go (kubernetes v1.34.4; the same from v1.27.16 to v1.37.0).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .config import ScopeName
from .resources import ResourceName

__all__ = ["AdmissionCounts", "Histogram", "Metrics", "PodResourcesMethod"]

_ALLOCATE_BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ADMISSION_BUCKETS_MS: Final = tuple(0.05 * 2**power for power in range(15))
_OUT_OF: Final = "OutOf"
_NATIVE_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class PodResourcesMethod(StrEnum):
    """A method of PodResources; the value is the end of its metrics' names."""

    LIST = "list"
    GET = "get"
    GET_ALLOCATABLE = "get_allocatable"


class Histogram:
    """Observations, counted by the bucket whose upper bound they do not exceed."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        # The last one is of what is above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _none_yet() -> dict[ScopeName, int]:
    return dict.fromkeys(ScopeName, 0)


@dataclass(slots=True)
class AdmissionCounts:
    """What the topology manager of one kubelet instance counts; each begins at 0.

    The first two are kept from 1.27 on. How long an admission took (``kubelet_topology_manager_admission_duration_ms``)
    is for the caller of `TopologyManager.admit` to measure.

    Source: kubelet/metrics/metrics.go (kubernetes v1.26.15, v1.27.16, v1.32.13, v1.33.13).

    Attributes:
        requests: ``kubelet_topology_manager_admission_requests_total``: pods, whatever the policy.
        errors: ``kubelet_topology_manager_admission_errors_total``: of those, rejected by a policy other than none or
            in the allocation after it.
        aligned: ``kubelet_container_aligned_compute_resources_count{scope,boundary="numa_node"}`` by scope, from 1.32:
            containers (scope container) or pods (scope pod) that single-numa-node admitted.
        not_aligned: ``kubelet_container_aligned_compute_resources_failure_count`` with the same labels, from 1.33:
            those that single-numa-node rejected.
    """

    requests: int = 0
    errors: int = 0
    aligned: dict[ScopeName, int] = field(default_factory=_none_yet)
    not_aligned: dict[ScopeName, int] = field(default_factory=_none_yet)


class Metrics:
    """The numbers of one kubelet instance.

    Attributes:
        registrations: resource -> Register calls, refused ones too; the plugin watcher's are not counted.
        allocations: resource -> seconds that Allocate took, also where it failed.
        pod_resources_requests: server API version -> calls of PodResources.
        pod_resources_methods: (method, server API version) -> calls; v1alpha1 is not counted by method.
        pod_resources_get_errors: server API version -> calls of Get that were answered with an error.
        admission_rejections: reason -> rejected pods; all extended resources have one reason.
        topology: what the topology manager counts.
        admissions: milliseconds that the topology manager took for a pod.
        running_pods: pods with a running sandbox.
        running_containers: state (created, running, exited, unknown) -> containers; a state that no container is in
            any more keeps its last number, as in the kubelet.
    """

    __slots__ = (
        "admission_rejections",
        "admissions",
        "allocations",
        "pod_resources_get_errors",
        "pod_resources_methods",
        "pod_resources_requests",
        "registrations",
        "running_containers",
        "running_pods",
        "topology",
    )

    def __init__(self) -> None:
        self.registrations: Counter[ResourceName] = Counter()
        self.allocations: dict[ResourceName, Histogram] = {}
        self.pod_resources_requests: Counter[str] = Counter()
        self.pod_resources_methods: Counter[tuple[PodResourcesMethod, str]] = Counter()
        self.pod_resources_get_errors: Counter[str] = Counter()
        self.admission_rejections: Counter[str] = Counter()
        self.topology = AdmissionCounts()
        self.admissions = Histogram(_ADMISSION_BUCKETS_MS)
        self.running_pods = 0
        self.running_containers: dict[str, int] = {}

    def register_called(self, resource: ResourceName) -> None:
        self.registrations[resource] += 1

    def allocate_answered(self, resource: ResourceName, duration_s: float) -> None:
        self.allocations.setdefault(resource, Histogram(_ALLOCATE_BUCKETS_S)).observe(duration_s)

    def pod_resources_called(self, api: str, method: PodResourcesMethod | None, *, requests: int = 1) -> None:
        """Count a call; `requests` is how often it counts among all of the API version."""
        self.pod_resources_requests[api] += requests
        if method is not None:
            self.pod_resources_methods[method, api] += 1

    def pod_resources_get_failed(self, api: str) -> None:
        self.pod_resources_get_errors[api] += 1

    def pod_admitted(self, duration_s: float) -> None:
        """Count the topology manager's time for a pod, in whole milliseconds."""
        self.admissions.observe(int(duration_s * 1000))

    def pod_rejected(self, reason: str) -> None:
        """Source: kubelet/kubelet.go, ``recordAdmissionRejection`` (kubernetes v1.34.4)."""
        is_extended = reason.startswith(_OUT_OF) and reason.removeprefix(_OUT_OF) not in _NATIVE_RESOURCES
        self.admission_rejections["OutOfExtendedResources" if is_extended else reason] += 1

    def set_running(self, pods: int, containers: Mapping[str, int]) -> None:
        """Set how many pods run and, by state, how many containers there are."""
        self.running_pods = pods
        self.running_containers.update(containers)
