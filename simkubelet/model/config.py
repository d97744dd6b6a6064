"""What one kubelet is set up with: its node, its version, the machine below it, its topology policy and gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from .resources import ResourceName, parse_amount
from .topology_settings import TopologySettings
from .version import DEFAULT, FEATURE_GATES, Version, version

__all__ = ["DEFAULT_MACHINE", "KubeletConfig", "RuntimeKind"]

DEFAULT_MACHINE: Final[Mapping[ResourceName, int]] = {
    ResourceName(name): parse_amount(name, quantity)
    for name, quantity in {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}.items()
}


class RuntimeKind(StrEnum):
    """What a container is: a record, or processes in a sandbox."""

    BOOK_KEEPING = "book-keeping"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """Settings of one kubelet, as its command line and configuration file would give them.

    Attributes:
        node: the node's name.
        version: the Kubernetes release it behaves as.
        machine: native resources of the node, resource -> amount.
        topology: the topology manager's policy, scope and options, and the NUMA nodes of the machine.
        feature_gates: gate -> whether it is on; what is not named has the minor's default.
        runtime: what its containers are.
        serves_http: whether /healthz and /metrics are served, on a free port of the loopback interface.
        static_pod_path: a folder of manifests, each of a pod that this kubelet runs by itself; None for none.
    """

    node: str
    version: Version = field(default_factory=lambda: version(DEFAULT))
    machine: Mapping[ResourceName, int] = field(default_factory=lambda: DEFAULT_MACHINE)
    topology: TopologySettings = field(default_factory=TopologySettings)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime: RuntimeKind = RuntimeKind.BOOK_KEEPING
    serves_http: bool = False
    static_pod_path: Path | None = None

    def is_on(self, gate: str) -> bool:
        """Whether one of `FEATURE_GATES` is on."""
        return FEATURE_GATES[gate].is_on(self.version, self.feature_gates)
