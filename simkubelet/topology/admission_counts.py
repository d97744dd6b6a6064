"""What a kubelet's /metrics tells of the topology manager.

Source: kubelet/metrics/metrics.go (kubernetes v1.26.15, v1.27.16, v1.32.13, v1.33.13).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.topology_settings import ScopeName

__all__ = ["AdmissionCounts"]


def _none_yet() -> dict[ScopeName, int]:
    return dict.fromkeys(ScopeName, 0)


@dataclass(slots=True)
class AdmissionCounts:
    """Counters of one kubelet instance; each begins at 0.

    The first two are kept from 1.27 on. How long an admission took (``kubelet_topology_manager_admission_duration_ms``)
    is for the caller of `TopologyManager.admit` to measure.

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
