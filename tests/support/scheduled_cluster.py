"""A scheduler over a cluster of objects without kubelets: what it makes of nodes and pods that a test writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkubelet.cluster.objects.objects import JSON, Key, Objects, WallTime
from simkubelet.cluster.scheduler.scheduler import Scheduler
from simkubelet.cluster.store import Store
from simkubelet.model.events import EventRecorded, NodeEvent
from simkubelet.model.version import version
from tests.support.device_claims import CLASS, device, slice_of

GPU = "nvidia.com/gpu"
CLAIMS = "resourceclaims.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"
USES_CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}


class StepClock:
    """A clock that moves in whole milliseconds only when advanced; no task sleeps on it."""

    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> float:
        return self.ms / 1000

    async def sleep(self, delay_s: float) -> None:
        raise NotImplementedError


class ScheduledCluster:
    """Nodes and pods in short, and what the scheduler said about them.

    Attributes:
        events: pod, reason and message of each Event, in order.
    """

    def __init__(self, minor: str = "1.34", gates: Mapping[str, bool] | None = None) -> None:
        self.clock = StepClock()
        self.objects = Objects(WallTime(self.clock))
        self.store = Store(self.objects, self._hear)
        self._version = version(minor)
        self.scheduler = Scheduler(self.store, self.clock, self._version, gates)
        self.events: list[tuple[str, str, str]] = []

    def node(self, name: str, gpus: int = 1, **parts: Any) -> None:
        """Write a node of 4 CPUs; `parts` are labels, allocatable or fields of its spec."""
        labels = {"kubernetes.io/hostname": name, **parts.pop("labels", {})}
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", GPU: str(gpus), **parts.pop("allocatable", {})}
        info = {"kubeletVersion": self._version.kubelet_version}
        status = {"capacity": amounts, "allocatable": amounts, "nodeInfo": info}
        self._put("nodes", {"metadata": {"name": name, "labels": labels}, "spec": parts, "status": status})

    def pod(self, name: str, gpus: int = 1, **parts: Any) -> None:
        """Write a pod of one container; `parts` are labels, requests or fields of its spec."""
        amounts = {GPU: str(gpus), **parts.pop("requests", {})}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "labels": parts.pop("labels", {})}
        container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
        spec = {"schedulerName": "default-scheduler", "containers": [container], **parts}
        self._put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def change_pod(self, name: str, **spec: Any) -> None:
        """Write fields of a pod's spec."""
        pod = self.object("pods", name)
        self._put("pods", {**pod, "spec": {**pod["spec"], **spec}})

    def remove(self, kind: str, name: str) -> None:
        """Drop an object for good."""
        self.objects.remove(Key(kind, "default" if kind == "pods" else "", name))

    def end(self, pod: str, phase: str) -> None:
        """Write that a pod has ended."""
        body = self.object("pods", pod)
        self._put("pods", {**body, "status": {**body["status"], "phase": phase}})

    def object(self, kind: str, name: str) -> JSON:
        """The object of this name."""
        found = self.objects.get(Key(kind, "default" if kind == "pods" else "", name))
        assert found is not None, name
        return found

    def try_all(self) -> None:
        """Let the scheduler try pods until none is to be tried now."""
        while self.scheduler.try_next() is not None:
            pass

    def advance(self, seconds: float) -> None:
        """Let time pass, and the scheduler try what is due then."""
        self.clock.ms += round(seconds * 1000)
        self.scheduler.flush()
        self.try_all()

    def node_of(self, pod: str) -> str | None:
        """Where a pod is."""
        node: str | None = self.object("pods", pod)["spec"].get("nodeName")
        return node

    def failures(self, pod: str) -> list[str]:
        """The messages of a pod's FailedScheduling Events, oldest first."""
        return [message for name, reason, message in self.events if (name, reason) == (pod, "FailedScheduling")]

    def _put(self, kind: str, body: JSON) -> None:
        key = Key(kind, "default" if kind == "pods" else "", body["metadata"]["name"])
        known = self.objects.get(key)
        if known is None:
            self.objects.create(key, {**body, "metadata": {"generation": 1, **body["metadata"]}})
        else:
            self.objects.replace(key, {**body, "metadata": {**known["metadata"], **body["metadata"]}})

    def _hear(self, event: NodeEvent) -> None:
        if isinstance(event, EventRecorded):
            self.events.append((event.pod, event.reason, event.message))


class DeviceCluster(ScheduledCluster):
    """A cluster of one node with devices; the class `gpu` is there."""

    def __init__(self, minor: str = "1.34", devices: int = 1, gates: Mapping[str, bool] | None = None) -> None:
        super().__init__(minor, gates)
        self.node("node-1")
        self.write(CLASSES, CLASS)
        if devices:
            self.write(SLICES, slice_of(device(f"gpu-{index}") for index in range(devices)))

    def write(self, kind: str, body: JSON) -> None:
        metadata = body["metadata"]
        key = Key(kind, metadata.get("namespace", ""), metadata["name"])
        known = self.objects.get(key)
        if known is None:
            self.objects.create(key, body)
        else:
            self.objects.replace(key, {**body, "metadata": {**known["metadata"], **metadata}})

    def claim(self, name: str = "claim") -> JSON:
        found = self.objects.get(Key(CLAIMS, "default", name))
        assert found is not None
        return found

    def claim_pod(self, name: str, **spec: Any) -> None:
        self.pod(name, 0, **(spec or USES_CLAIM))
