"""What a session's commands work on: one plugin folder, its pods, and one device manager after another.

Settings are those of one run of the device manager, as ``start``, ``restart`` and ``topology`` give them. What a
command leaves out stays as the last one left it, as in a kubelet that is restarted with its configuration. A machine
whose NUMA nodes no command has given has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._internal.change import Change
from ..container_manager import ContainerManager
from ..devices.plugin_folder import PluginFolder
from ..model.clock import RealClock
from ..model.config import KubeletConfig, TopologySettings
from ..model.errors import InputError
from ..model.events import NodeEvent
from ..model.pod import Container, Pod, PodUID, pod_from_manifest
from ..model.version import Version
from ..topology.hint import TopologyHint
from .request import Fields, RequestError

__all__ = ["Node", "PodBook", "RunSettings"]


class Node:
    """A node that has nothing but a device manager; time passes as it does outside.

    Args:
        folder: the device plugin folder.
        version: the Kubernetes minor to behave as.
        tasks: owns the streams of plugins.
    """

    def __init__(self, folder: PluginFolder, version: Version, tasks: asyncio.TaskGroup) -> None:
        self.folder = folder
        self.version = version
        self.clock = RealClock()
        self.pods = PodBook()
        self.gates: dict[str, bool] = {}
        self.changed = Change()
        self.settings = RunSettings()
        self._affinities: dict[tuple[PodUID, str], TopologyHint] = {}
        self._tasks = tasks
        self._manager: ContainerManager | None = None

    @property
    def manager(self) -> ContainerManager:
        """The device manager that runs.

        Raises:
            RequestError: none does.
        """
        if self._manager is None:
            raise RequestError("no manager runs: start it first")
        return self._manager

    @property
    def is_running(self) -> bool:
        return self._manager is not None

    def config(self) -> KubeletConfig:
        """The settings as a kubelet has them."""
        return KubeletConfig("stdio", self.version, topology=self.settings.topology, feature_gates=self.gates)

    async def start(self) -> None:
        """Make a device manager on what the folder holds, and serve ``kubelet.sock``.

        Raises:
            HostError: the socket cannot be made.
        """
        settings, config = self.settings, self.config()
        manager = ContainerManager(
            self.folder,
            await self.folder.load(config.version),
            config,
            clock=self.clock,
            tasks=self._tasks,
            active_pods=self.pods.active,
            running_at_start=settings.running,
            observe=self._observe,
        )
        manager.allocator.are_sources_ready = settings.are_sources_ready
        manager.start()
        self._manager = manager
        for pod, container in self._affinities:
            self.apply_affinity(pod, container)

    async def stop(self) -> None:
        """Stop the device manager as a kubelet does at its end; may be called twice and from any state."""
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.stop()
            self.changed.notify()

    async def abandon(self) -> None:
        """End the device manager as a killed kubelet ends: connections break, the socket's file stays."""
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.abandon()
            self.changed.notify()

    def set_sources_ready(self, are_ready: bool) -> None:
        """Set whether the kubelet has had all pods of the node: now, and at the next start."""
        self.settings = replace(self.settings, are_sources_ready=are_ready)
        if self._manager is not None:
            self._manager.allocator.are_sources_ready = are_ready

    def set_affinity(self, pod: PodUID, container: str, hint: TopologyHint) -> None:
        """Say on which NUMA nodes a container's devices should be; it goes before what the topology manager says."""
        self._affinities[pod, container] = hint
        if self._manager is not None:
            self.apply_affinity(pod, container)

    def apply_affinity(self, pod: PodUID, container: str) -> None:
        """Put what `set_affinity` said in the place of the topology manager's choice."""
        if (hint := self._affinities.get((pod, container))) is not None:
            self.manager.affinities.set_affinity(pod, container, hint)

    def socket_of(self, endpoint: str) -> Path:
        """Return where a plugin that the plugin watcher found listens; a relative endpoint is below the folder."""
        return self.folder.directory / endpoint

    def _observe(self, event: NodeEvent) -> None:
        self.changed.notify()


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the device manager is started.

    Attributes:
        are_sources_ready: whether the kubelet has had all pods of the node.
        running: (pod, container) of all that the container runtime reports as running.
        topology: the topology manager's settings, and the machine's NUMA nodes.
    """

    are_sources_ready: bool = False
    running: Collection[tuple[PodUID, str]] = ()
    topology: TopologySettings = field(default_factory=lambda: TopologySettings(numa_nodes=()))

    def changed(self, fields: Fields) -> RunSettings:
        """These settings with what the fields of ``start`` or ``restart`` give.

        Raises:
            RequestError: a field is not of its type, or distances do not fit the NUMA nodes.
            InputError: the kubelet refuses the topology manager's settings.
        """
        return RunSettings(
            fields.flag("sources_ready", self.are_sources_ready),
            _running(fields.objects("running")) if "running" in fields else self.running,
            self.with_topology(fields, prefix="topology_").topology,
        )

    def with_topology(self, fields: Fields, *, prefix: str = "") -> RunSettings:
        """These settings with what the fields say of the topology manager. Raises as `changed`."""
        old = self.topology
        nodes = fields.numa_nodes("numa") if "numa" in fields else old.numa_nodes
        distances = old.distances
        if "distances" in fields:
            distances = _distances(nodes, fields.rows("distances"))
        elif nodes != old.numa_nodes:
            distances = _distances(nodes, [[10 if one == other else 20 for other in nodes] for one in nodes])
        topology = TopologySettings(
            policy=fields.text(f"{prefix}policy", old.policy),
            scope=fields.text(f"{prefix}scope", old.scope),
            options=_texts(fields.mapping(f"{prefix}options", old.options)),
            numa_nodes=nodes,
            distances=distances,
        )
        return replace(self, topology=topology)


def _running(containers: Sequence[Fields]) -> Collection[tuple[PodUID, str]]:
    return {
        (PodUID(container.text("pod_uid")), container.text("container"))
        for container in containers
        if container.flag("running", default=True)
    }


def _texts(options: Mapping[str, object]) -> Mapping[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _distances(nodes: Sequence[int], rows: Sequence[Sequence[int]]) -> Mapping[int, Sequence[int]]:
    """Rows by place in `nodes` as rows by number, as the machine reports them."""
    if len(rows) != len(nodes) or any(len(row) != len(nodes) for row in rows):
        raise RequestError(f"distances: give one row for each of {len(nodes)} NUMA nodes, with one number for each")
    by_number: dict[int, list[int]] = {}
    for node, row in zip(nodes, rows, strict=True):
        distances = by_number[node] = [0] * (max(nodes) + 1)
        for other, distance in zip(nodes, row, strict=True):
            distances[other] = distance
    return by_number


class PodBook:
    """Pods by uid, in the order in which they were added.

    A pod is active from `add` to `remove`; its object stays, as a container may be asked for after its pod's end,
    until `forget`.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUID, Pod] = {}
        self._active: set[PodUID] = set()

    def add(self, fields: Fields) -> None:
        """Take a pod from the fields of ``add_pod``; one of the same uid is replaced.

        Raises:
            RequestError: the API server would refuse such a pod, or a field is not of its type.
        """
        uid = PodUID(fields.text("uid"))
        manifest = {
            "metadata": {"name": fields.text("name", uid), "namespace": fields.text("namespace", "default")},
            "spec": {
                "initContainers": [_container(container) for container in fields.objects("init_containers")],
                "containers": [_container(container) for container in fields.objects("containers")],
            },
        }
        try:
            self._pods[uid] = replace(pod_from_manifest(manifest), uid=uid)
        except InputError as error:
            raise RequestError(str(error)) from None
        self._active.add(uid)

    def remove(self, uid: str) -> None:
        """End a pod: it is no longer active. Raises as `pod`."""
        self._active.discard(self.pod(uid).uid)

    def forget(self, uid: str) -> None:
        """End a pod and drop its object. Raises as `pod`."""
        self.remove(uid)
        del self._pods[PodUID(uid)]

    def active(self) -> frozenset[PodUID]:
        return frozenset(self._active)

    def all(self) -> Mapping[PodUID, Pod]:
        """Every pod that is not forgotten."""
        return self._pods

    def pod(self, uid: str) -> Pod:
        """The pod of a uid.

        Raises:
            RequestError: no such pod was added, or it was forgotten.
        """
        pod = self._pods.get(PodUID(uid))
        if pod is None:
            raise RequestError(f"pod: no pod {uid!r}; add it first with add_pod")
        return pod

    def container(self, uid: str, name: str) -> tuple[Pod, Container]:
        """A pod and its container of some name.

        Raises:
            RequestError: there is no such pod or container.
        """
        pod = self.pod(uid)
        for container in pod.containers:
            if container.name == name:
                return pod, container
        known = ", ".join(container.name for container in pod.containers)
        raise RequestError(f"container: pod {uid!r} has no container {name!r}; it has {known}")


def _container(fields: Fields) -> dict[str, Any]:
    restart = {"restartPolicy": "Always"} if fields.flag("restartable", default=False) else {}
    return {"name": fields.text("name"), "resources": {"limits": fields.mapping("limits", {})}, **restart}
