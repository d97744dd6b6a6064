"""The cluster of a simulated world's nodes: what the world asks of it, and the one that is in this process, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from simkubelet.cluster import Key, Objects, Scheduler, Store, WallTime, pod_key
from simkubelet.cluster_api import ClusterApi
from simkubelet.kubelet import Kubelet
from simkubelet.model.clock import Clock
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.events import Observer
from simkubelet.model.node import Node
from simkubelet.model.pod import Pod, PodUID
from simkubelet.model.version import version

from ...story.verbs.pod_action import AllocateClaim, MetadataAction, ObjectAction
from ...trace.snapshot import Ids
from ..world.device_objects import SLICES, claim_body, published_devices
from .device_objects import SimulatedDeviceObjects
from .view import RecordedEvent


class StoryCluster(Protocol):
    """The cluster of a story's nodes, in which the story's steps do what kubectl, schedulers and controllers do.

    A step returns when the API server has done what it asks for.

    Attributes:
        api: What kubelets ask.
    """

    @property
    def api(self) -> ClusterApi: ...

    async def start(self, folder: Path, kubelets: Mapping[str, Kubelet]) -> Path | None:
        """Begin, before the first node.

        Args:
            folder: For files of the cluster; it is removed at the end.
            kubelets: Those of the nodes; a view, which follows.

        Returns:
            A kubeconfig that lets plugins in; None where none of them talks to the API server.

        Raises:
            HostError: It cannot be had.
        """
        ...

    async def stop(self) -> None:
        """Take all nodes and pods away and end, after the kubelets; may be called in any state."""
        ...

    @property
    def pods(self) -> Collection[Pod]:
        """All pods of the story, oldest first."""
        ...

    @property
    def nodes(self) -> Iterable[Node]:
        """All nodes that are registered."""
        ...

    def events_of(self, uid: PodUID) -> Iterable[RecordedEvent]:
        """The Events about a pod."""
        ...

    def published_devices(self, node: str) -> Ids:
        """Driver -> the devices of its ResourceSlices for a node."""
        ...

    async def settle(self) -> None:
        """Wait until the API server has what kubelets have written, for a moment at most."""
        ...

    def check(self) -> None:
        """Look after what goes on beside the story.

        Raises:
            HostError: The cluster is lost.
        """
        ...

    async def create_pod(self, manifest: Mapping[str, Any]) -> None:
        """Create a pod.

        Raises:
            InputError: The API server refuses it.
            HostError: It does not answer. Each step may end so.
        """
        ...

    async def delete_pod(self, pod: Pod) -> None:
        """Ask for the end of a pod."""
        ...

    async def bind(self, pod: Pod, node: str) -> None:
        """Give a pod that is on no node to one."""
        ...

    async def allocate_claim(self, action: AllocateClaim, pods: Sequence[Pod]) -> None:
        """Create a ResourceClaim as it is when it is allocated and reserved for pods, or make it so."""
        ...

    async def change_device_object(self, action: ObjectAction) -> None:
        """Create or delete an object of ``resource.k8s.io``.

        Raises:
            InputError: The API server refuses it.
        """
        ...

    async def change_metadata(self, action: MetadataAction, subject: Pod | str) -> None:
        """Set or remove labels or annotations of a pod, or of a node by its name.

        Raises:
            InputError: It is not there.
        """
        ...


class SimCluster:
    """A `StoryCluster` in this process.

    Args:
        kubernetes: The version of scheduler and API server.
        gates: Their feature gates that are not as usual.
        runtime_config: Versions of groups that the API server serves or does not, other than by default.
        uses_api: Whether a plugin talks to the API server; else there is none.
        has_claims: Whether the story has claims; else no controller looks after them.
        clock: The node time.
        observe: Called with what happens.
        tasks: Owns the scheduler.

    Attributes:
        api: Its objects.
    """

    def __init__(
        self,
        kubernetes: str,
        gates: Mapping[str, bool],
        runtime_config: Mapping[str, bool],
        uses_api: bool,
        has_claims: bool,
        clock: Clock,
        observe: Observer,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self.api = Store(Objects(WallTime(clock)), observe, gates=gates)
        self._version = version(kubernetes)
        self._gates = gates
        self._runtime_config = runtime_config
        self._uses_api = uses_api
        self._devices = SimulatedDeviceObjects(self.api, self._version, gates) if has_claims else None
        self._clock = clock
        self._tasks = tasks
        self._stack = AsyncExitStack()

    async def start(self, folder: Path, kubelets: Mapping[str, Kubelet]) -> Path | None:
        """See `StoryCluster`."""
        works = [Scheduler(self.api, self._clock, self._version, self._gates).run()]
        if self._devices is not None:
            works += self._devices.works(self._clock)
        for work in works:
            self._stack.push_async_callback(_ended, self._tasks.create_task(work))
        return await self._start_api(folder, kubelets) if self._uses_api else None

    async def stop(self) -> None:
        """See `StoryCluster`."""
        await self._stack.aclose()

    @property
    def pods(self) -> Collection[Pod]:
        """See `StoryCluster`."""
        return self.api.pods

    @property
    def nodes(self) -> Iterable[Node]:
        """See `StoryCluster`."""
        return self.api.all_nodes

    def events_of(self, uid: PodUID) -> Iterable[RecordedEvent]:
        """See `StoryCluster`."""
        return self.api.events_of(uid)

    def published_devices(self, node: str) -> Ids:
        """See `StoryCluster`."""
        return published_devices(self.api.objects.all_of(f"{SLICES}.resource.k8s.io"), node)

    async def settle(self) -> None:
        """Kubelets write at once here."""

    def check(self) -> None:
        """It cannot be lost."""

    async def create_pod(self, manifest: Mapping[str, Any]) -> None:
        """See `StoryCluster`."""
        self.api.create_pod(manifest)

    async def delete_pod(self, pod: Pod) -> None:
        """See `StoryCluster`."""
        self.api.delete_pod(pod.uid)

    async def bind(self, pod: Pod, node: str) -> None:
        """See `StoryCluster`."""
        self.api.bind(pod.uid, node)

    async def allocate_claim(self, action: AllocateClaim, pods: Sequence[Pod]) -> None:
        """See `StoryCluster`."""
        self.api.put_claim(claim_body(action, {pod.name: pod.uid for pod in pods}))

    async def change_device_object(self, action: ObjectAction) -> None:
        """See `StoryCluster`."""
        assert self._devices is not None  # noqa: S101  # the story was looked through for it
        await self._devices.perform(action)

    async def change_metadata(self, action: MetadataAction, subject: Pod | str) -> None:
        """See `StoryCluster`."""
        objects = self.api.objects
        key = Key("nodes", "", subject) if isinstance(subject, str) else pod_key(subject)
        body = objects.get(key)
        if body is None:
            raise InputError(f"no {action.subject} is there now")
        metadata = body["metadata"]
        entries = {**(metadata.get(action.part) or {}), **action.entries}
        left = {name: value for name, value in entries.items() if value is not None}
        others = {name: value for name, value in metadata.items() if name != action.part}
        objects.replace(key, {**body, "metadata": {**others, **({action.part: left} if left else {})}})

    async def _start_api(self, folder: Path, kubelets: Mapping[str, Kubelet]) -> Path:
        # Imported here: most stories have no API server.
        from simkubelet.cluster import ApiServer, NodeLogs, all_strategies

        logs = NodeLogs(kubelets, lambda: datetime.now(UTC))
        objects = self.api.objects
        strategies = all_strategies(objects, self._version, self._gates)
        try:
            server = ApiServer(
                objects, strategies, logs=logs, release=self._version, runtime_config=self._runtime_config
            )
            await server.start()
        except InputError as error:
            raise InputError(f"runtimeConfig: {error}") from None
        except OSError as error:
            raise HostError(f"the API server cannot listen on this machine: {error.strerror}") from None
        self._stack.push_async_callback(server.stop)
        kubeconfig = folder / ".kubeconfig"
        kubeconfig.write_text(json.dumps(server.kubeconfig()))
        return kubeconfig


def check_unbound(pod: Pod) -> None:
    """Check that a step may bind a pod.

    Raises:
        InputError: It is bound already.
    """
    if pod.node_name is not None:
        raise InputError(
            f"pod '{pod.key}' is bound to node '{pod.node_name}' already; give its manifest a 'schedulerName' that "
            "no scheduler here has"
        )


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Not `await task`: who is cancelled meanwhile could not be told from the task that is.
    await asyncio.wait([task])
