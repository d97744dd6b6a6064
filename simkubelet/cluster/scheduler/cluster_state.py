"""The cluster as the scheduler knows it: pods, nodes with sums of their pods, and room kept for pods that preempt.

Source: pkg/scheduler/framework/types.go, ``NodeInfo``; pkg/scheduler/backend/cache/cache.go;
backend/queue/nominator.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from ...model.node import Node
from ...model.pod import Pod, PodUID
from ...model.resources import PODS, ResourceName

__all__ = ["CPU", "DEFAULT_SCHEDULER", "MEMORY", "ClusterState", "HostPort", "NodeInfo", "PodInfo", "have_clash"]

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


def have_clash(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Whether one of some ports is taken: at its own address, or either at all addresses."""
    hosts = defaultdict[tuple[str, int], set[str]](set)
    for one in taken:
        hosts[one.protocol, one.port].add(one.host)
    there = ((one.host, hosts.get((one.protocol, one.port), ())) for one in wanted)
    return any(others and (host == _ANY_HOST or host in others or _ANY_HOST in others) for host, others in there)


class PodInfo:
    """One state of a pod; what is computed from it is computed once."""

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
    def is_deleted(self) -> bool:
        """Whether it is on its way out."""
        return bool(self.metadata.get("deletionTimestamp"))

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
        if not self.is_deleted:
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


class NodeInfo:
    """One node; its sums follow each pod that comes or goes.

    Attributes:
        pods: those that are bound to it, or are thought to be there.
        requested: what they ask for together, with their number under ``pods``.
        with_pod_affinity: those of them that have terms about other pods.
        counted: the same for CPU and memory, see `PodInfo.counted_requests`.
        host_ports: how many take each port; at most one, except for pods that were bound by hand.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pods: dict[PodUID, PodInfo] = {}
        self.with_pod_affinity: dict[PodUID, PodInfo] = {}
        self.requested: Counter[ResourceName] = Counter()
        self.counted: Counter[ResourceName] = Counter()
        self.host_ports: Counter[HostPort] = Counter()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.labels

    @property
    def allocatable(self) -> Mapping[ResourceName, int]:
        return self.node.status.allocatable

    @property
    def as_json(self) -> Mapping[str, Any]:
        return self.node.manifest

    @property
    def taints(self) -> list[Mapping[str, Any]]:
        return (self.node.manifest.get("spec") or {}).get("taints") or []

    def put(self, pod: PodInfo) -> None:
        """Take a pod that is new here, or is another state of one that is known."""
        known = self.pods.get(pod.uid)
        if known is not None and known.spec is pod.spec and known.labels == pod.labels:
            self.pods[pod.uid] = pod
            if pod.has_pod_affinity:
                self.with_pod_affinity[pod.uid] = pod
            return
        if known is not None:
            self.remove(known)
        self.pods[pod.uid] = pod
        if pod.has_pod_affinity:
            self.with_pod_affinity[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        self._count(self.pods.pop(pod.uid), -1)
        self.with_pod_affinity.pop(pod.uid, None)

    def copy(self) -> NodeInfo:
        """The same node with the same pods, to try other pods on."""
        copied = NodeInfo(self.node)
        copied.pods = dict(self.pods)
        copied.with_pod_affinity = dict(self.with_pod_affinity)
        copied.requested = self.requested.copy()
        copied.counted = self.counted.copy()
        copied.host_ports = self.host_ports.copy()
        return copied

    def _count(self, pod: PodInfo, sign: int) -> None:
        self.requested[PODS] += sign
        for name, amount in pod.requests.items():
            self.requested[name] += sign * amount
        for name, amount in pod.counted_requests.items():
            self.counted[name] += sign * amount
        for port in pod.host_ports:
            self.host_ports[port] += sign
            if not self.host_ports[port]:
                del self.host_ports[port]


class ClusterState:
    """What a try of a pod looks at; `nodes` are in the order in which they came."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self._without_node: defaultdict[str, dict[PodUID, PodInfo]] = defaultdict(dict)
        self._nominated: dict[str, dict[PodUID, PodInfo]] = {}

    def put_node(self, node: Node) -> None:
        """Take a node in its newest state."""
        if node.name in self.nodes:
            self.nodes[node.name].node = node
            return
        self.nodes[node.name] = NodeInfo(node)
        for pod in self._without_node.pop(node.name, {}).values():
            self.nodes[node.name].put(pod)

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods are still there when it comes back."""
        self._without_node[name] = self.nodes.pop(name).pods

    def put_pod(self, pod: PodInfo) -> None:
        """Take a pod that is bound, in its newest state."""
        node = self.nodes.get(pod.node_name or "")
        if node is None:
            self._without_node[pod.node_name or ""][pod.uid] = pod
        else:
            node.put(pod)

    def drop_pod(self, pod: PodInfo) -> None:
        """Forget a pod that was bound; any of its states will do."""
        node = self.nodes.get(pod.node_name or "")
        if node is None:
            self._without_node[pod.node_name or ""].pop(pod.uid, None)
        elif pod.uid in node.pods:
            node.remove(node.pods[pod.uid])

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep room for a pod on a node, instead of on any other; an empty name keeps none."""
        for pods in self._nominated.values():
            pods.pop(pod.uid, None)
        if node:
            self._nominated.setdefault(node, {})[pod.uid] = pod

    def nominated_node(self, uid: PodUID) -> str:
        """Where room is kept for a pod; empty where it is nowhere."""
        return next((node for node, pods in self._nominated.items() if uid in pods), "")

    def nominated_on(self, node: str) -> tuple[PodInfo, ...]:
        """The pods for which room is kept."""
        return tuple(self._nominated.get(node, {}).values())
