"""What one kubelet is set up with: its node, its version, the machine below it, its topology policy and gates.

Policy and scope of the topology manager are checked here, as the kubelet checks its configuration before it starts; its
options depend on the minor and its feature gates, see `topology.policy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from ..apis.grpcwire.messages import MOST_MESSAGE_BYTES
from .errors import InputError
from .resources import ResourceName, parse_amount
from .version import DEFAULT, FEATURE_GATES, Version, version

__all__ = ["MAX_NUMA_NODES", "KubeletConfig", "PolicyName", "RuntimeKind", "ScopeName", "TopologySettings"]

_DEFAULT_MACHINE: Final[Mapping[ResourceName, int]] = {
    ResourceName(name): parse_amount(name, quantity)
    for name, quantity in {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}.items()
}

MAX_NUMA_NODES: Final = 64
"""A mask of NUMA nodes is a 64-bit word. Source: topologymanager/bitmask/bitmask.go (kubernetes v1.34.4)."""


class PolicyName(StrEnum):
    """How strictly devices of a container have to be on the same NUMA nodes; in the order of the kubelet's message."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class ScopeName(StrEnum):
    """What is aligned as one: each container, or all containers of a pod."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """Settings of one kubelet's topology manager.

    Attributes:
        policy: one of `PolicyName`, as in ``topologyManagerPolicy``.
        scope: one of `ScopeName`, as in ``topologyManagerScope``; without meaning for the policy ``none``.
        options: name -> value, as in ``topologyManagerPolicyOptions``.
        numa_nodes: ids of the machine's NUMA nodes, in the order in which the machine reports them.
        distances: NUMA node -> its distance to node 0, 1, …, as in ``/sys/devices/system/node/node0/distance``; None
            when the machine does not report them. Only ``prefer-closest-numa-nodes`` reads them.

    Raises:
        InputError: policy or scope is not known, with the kubelet's message; or there can be no such machine. Source:
            kubelet/apis/config/validation/validation.go, ``ValidateKubeletConfiguration`` (kubernetes v1.26.15,
            v1.34.4, v1.37.0).
    """

    policy: str = PolicyName.NONE
    scope: str = ScopeName.CONTAINER
    options: Mapping[str, str] = field(default_factory=dict)
    numa_nodes: Sequence[int] = (0,)
    distances: Mapping[int, Sequence[int]] | None = None

    def __post_init__(self) -> None:
        if self.policy not in list(PolicyName):
            known = " ".join(f'"{name}"' for name in PolicyName)
            raise InputError(
                f'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "{self.policy}" must be '
                f"one of: [{known}]"
            )
        if self.scope not in list(ScopeName):
            raise InputError(
                f'invalid configuration: topologyManagerScope (--topology-manager-scope) "{self.scope}" must be one '
                'of: "container", or "pod"'
            )
        self._check_machine()

    def _check_machine(self) -> None:
        for node in self.numa_nodes:
            if not 0 <= node < MAX_NUMA_NODES:
                raise InputError(
                    f"NUMA node {node}: the nodes of a machine are numbered from 0 to {MAX_NUMA_NODES - 1}"
                )
        if len(set(self.numa_nodes)) != len(self.numa_nodes):
            raise InputError(f"NUMA nodes {list(self.numa_nodes)}: each node of a machine stands once")
        if self.distances is None:
            return
        for node in self.numa_nodes:
            count = len(self.distances.get(node, ()))
            if count <= max(self.numa_nodes):
                raise InputError(
                    f"NUMA node {node}: {count} distances; give its distance to each node from 0 to "
                    f"{max(self.numa_nodes)}"
                )


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
        static_pod_path: a folder of manifests, each of a pod that this kubelet runs by itself; None for none. A link in
            it leads to a file of the node where it is the node's, else to one in it.
        max_message_bytes: the largest message that it reads from a plugin. A real kubelet has no such setting, but
            grpc-go's default, which is the default here.
    """

    node: str
    version: Version = field(default_factory=lambda: version(DEFAULT))
    machine: Mapping[ResourceName, int] = field(default_factory=lambda: _DEFAULT_MACHINE)
    topology: TopologySettings = field(default_factory=TopologySettings)
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime: RuntimeKind = RuntimeKind.BOOK_KEEPING
    serves_http: bool = False
    static_pod_path: Path | None = None
    max_message_bytes: int = MOST_MESSAGE_BYTES

    def is_on(self, gate: str) -> bool:
        """Whether one of `FEATURE_GATES` is on."""
        return FEATURE_GATES[gate].is_on(self.version, self.feature_gates)
