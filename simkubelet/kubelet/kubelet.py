"""The kubelet: a node's folder and runtime that last, and one instance after another that works on them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ..devices.checkpoint import Checkpoint
from ..devices.plugin_folder import PluginFolder
from ..devices.pod_devices import DeviceID
from ..dra.checkpoint import BadCheckpointError
from ..model.clock import Clock
from ..model.config import KubeletConfig, RuntimeKind
from ..model.errors import InputError, KubeletPanicError
from ..model.events import KubeletCrashed, KubeletStarted, KubeletStopped
from ..model.pod import Pod, PodUID
from ..model.quality_of_service import MEMORY
from ..model.resources import ResourceName
from ..node import NodeContext, NodePublisher
from ..node_tree import DEVICE_PLUGINS
from ..pods.static_pods import make_static_pod_folder
from ..runtime.container_records import ContainerRecord, ContainerRecords
from ..runtime.container_runtime import BookKeepingRuntime, ContainerRuntime
from ..runtime.cri import RuntimeState
from .instance import CONTAINER_LOGS, KubeletInstance

__all__ = ["CONTAINER_LOGS", "START_S", "Kubelet", "StartPause", "new_runtime", "no_pause"]

StartPause = Callable[[], Awaitable[None]]

START_S: Final = 0.1
"""What a kubelet takes at least from its socket to the node's status."""


async def no_pause() -> None:
    """The default: do not pause."""


class Kubelet:
    """The kubelet of one simulated node.

    Args:
        directory: the kubelet's root directory, ``/var/lib/kubelet`` on a real node: ``device-plugins`` is made in it.
        config: its settings.
        context: the time and the cluster of the node.
        runtime: starts its containers; the one that the settings name where it is None.
    """

    def __init__(
        self,
        directory: Path,
        config: KubeletConfig,
        context: NodeContext,
        runtime: ContainerRuntime | None = None,
    ) -> None:
        self.config = config
        self._directory = directory
        self.folder = PluginFolder(directory / DEVICE_PLUGINS)
        self._logs = directory.resolve() / CONTAINER_LOGS
        self._runtime = runtime or new_runtime(directory, config, context.clock)
        self.runtime = ContainerRecords(config.node, self._runtime, context.clock, context.observe, context.tasks)
        self._context = context
        self._began = time.time() - context.clock.now()
        self._boots = 1
        self._instance: KubeletInstance | None = None
        self._publisher: NodePublisher | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._crash_end: asyncio.Task[None] | None = None

    @property
    def node(self) -> str:
        return self.config.node

    @property
    def is_running(self) -> bool:
        return self._instance is not None or self._waiting is not None

    async def start(self, while_starting: StartPause = no_pause, pods: Sequence[str] = ()) -> None:
        """Start an instance: read the checkpoint, clean the folder, serve ``kubelet.sock``, publish the node.

        If the container runtime does not report that it is ready, all of that waits in a task of its own until it does.
        Until then only the node is published, unless the runtime does not answer at all: with the devices that were
        published before, as no device manager has others.

        Args:
            while_starting: awaited before the node is published. A kubelet takes `START_S` at least from its socket to
                the node's status, and longer to its pods: a plugin that registers within that time is not missed.
            pods: admitted first, see `Pods.run`.

        Raises:
            InputError: the folder cannot hold sockets.
            HostError: the socket cannot be made.

        A kubelet that cannot read the DRA manager's checkpoint ends at once: `is_running` is False then.

        Source: kubelet/kubelet.go, ``Run``: ``updateRuntimeUp`` starts the device manager, then comes
        ``syncNodeStatus``; kubelet_node_status.go, ``registerWithAPIServer``; config/apiserver.go,
        ``WaitForAPIServerSyncPeriod`` (kubernetes v1.26.15, v1.34.4, v1.37.0).
        """
        if self.is_running:
            raise RuntimeError(f"the kubelet of {self.node} runs already")
        if self._crash_end is not None:
            # A process is gone at once; its replacement here would remove the new one's socket.
            await asyncio.wait([self._crash_end])
        self.folder.prepare()
        self._prepare_static_pods()
        cri, is_new_node = self.runtime.cri, self.folder.is_of_a_new_node()
        state = RuntimeState(cri, self._context.clock)
        publisher = NodePublisher(
            self.config, self._context, cri, state, is_new_node=is_new_node, boot_id=self._boot_id
        )
        self._publisher = publisher
        serve = partial(self._serve, publisher, state, while_starting, pods)
        if cri.of_status is None:
            await serve()
        else:
            waiting = self._serve_when_well(publisher, serve)
            self._waiting = self._context.tasks.create_task(waiting, name=f"start of the kubelet of {self.node}")

    async def _serve_when_well(self, publisher: NodePublisher, serve: Callable[[], Awaitable[None]]) -> None:
        cri = self.runtime.cri
        try:
            await cri.until_resumed()
            if cri.of_status is not None:
                publisher.register()
                publishing = self._context.tasks.create_task(publisher.run(), name=f"status of {self.node}")
                try:
                    await cri.until_status()
                finally:
                    publishing.cancel()
            await serve()
        finally:
            self._waiting = None

    async def _serve(
        self, publisher: NodePublisher, state: RuntimeState, while_starting: StartPause, pods: Sequence[str]
    ) -> None:
        instance = self._new_instance(await self.folder.load(self.config.version), publisher, state)
        if instance is None:
            return
        try:
            await instance.serve()
            self._instance = instance
            self._context.observe(KubeletStarted(self.node, self.config.version.kubelet_version))
            await while_starting()
        except BaseException:
            self._instance = None
            await instance.stop()
            raise
        if self._instance is instance:
            # It has not crashed meanwhile.
            instance.begin(pods)

    def _new_instance(
        self, checkpoint: Checkpoint | None, publisher: NodePublisher, state: RuntimeState
    ) -> KubeletInstance | None:
        """An instance on what the folder holds; None where the process ends at once instead.

        Source: cmd/kubelet/app/server.go, ``Run`` (kubernetes v1.34.4).
        """
        parts = self._directory, self.folder, checkpoint, self.runtime, self.config, self._context, publisher, state
        try:
            return KubeletInstance(*parts, self._crash, self._unix_time)
        except BadCheckpointError as error:
            self._context.observe(KubeletCrashed(self.node, f"failed to run Kubelet: {error}"))
            return None

    def _unix_time(self) -> float:
        return self._began + self._context.clock.now()

    async def stop(self) -> None:
        """End the instance, if there is one: streams are cut, containers and plugins go on."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if self._instance is None:
                self._context.observe(KubeletStopped(self.node))
        instance, self._instance = self._instance, None
        if instance is not None:
            try:
                await instance.stop()
            except asyncio.CancelledError:
                # Who ends a run in the middle of a stop leaves no server behind.
                await instance.stop()
                raise
            self._context.observe(KubeletStopped(self.node))

    async def restart(self, while_starting: StartPause = no_pause) -> None:
        """Stop the instance and start the next one, as ``systemctl restart kubelet`` does; see `start`."""
        await self.stop()
        await self.start(while_starting)

    async def reboot(self, pods: Sequence[str] = ()) -> None:
        """Cut the node's power and start it again: containers end without a signal, then a kubelet starts.

        It finds another boot id, and records the Event ``Rebooted``.

        The node's folder stays as it is. Plugins are processes of their own: the caller ends them.

        Args:
            pods: admitted first, see `Pods.run`.
        """
        await self.stop()
        self._boots += 1
        await self.runtime.reboot()
        await self.start(pods=pods)

    @property
    def _boot_id(self) -> str:
        """What ``/proc/sys/kernel/random/boot_id`` has; the same for the same node and boot, so that runs repeat."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"boot-{self._boots}.{self.node}"))

    def publish(self) -> None:
        """Publish the node's status out of turn, as at the end of the ten seconds.

        Raises:
            InputError: no kubelet runs.
        """
        if self._publisher is None or not self.is_running:
            raise InputError(f"the kubelet of node '{self.node}' does not run; start it first")
        self._publisher.publish()

    async def close(self) -> None:
        """Take the node away, containers and all; may be called twice and from any state."""
        await self.stop()
        await self.runtime.close()

    async def complete(self, pod_key: str, container: str, exit_code: int = 0) -> None:
        """End a book-keeping container as if its process had exited; returns when its end is on record.

        Raises:
            InputError: it does not run, or its end is not ours to say as it is a process.
        """
        pod = self._pod(pod_key)
        if not isinstance(self._runtime, BookKeepingRuntime):
            raise InputError(f"pod {pod_key!r}: container {container!r} is a process and ends by itself")
        if not self._runtime.complete(_node_uid(pod), container, exit_code):
            raise InputError(f"pod {pod_key!r}: container {container!r} does not run now")
        await self.runtime.stop(_node_uid(pod), container, grace_s=0)

    def containers_of(self, pod: Pod) -> Mapping[str, ContainerRecord]:
        """Container -> its last run, also while the kubelet is down."""
        return self.containers_of_uid(_node_uid(pod))

    def containers_of_uid(self, pod_uid: str) -> Mapping[str, ContainerRecord]:
        """The same, of the pod with this id on the node."""
        return self.runtime.containers(PodUID(pod_uid))

    @property
    def container_logs(self) -> Path:
        """Where containers that are processes write."""
        return self._logs

    def _pod(self, key: str) -> Pod:
        pod = self._context.cluster.pod_named(key)
        if pod is None or pod.node_name != self.node:
            raise InputError(f"no pod {key!r} is on node {self.node}")
        return pod

    def _prepare_static_pods(self) -> None:
        if self.config.static_pod_path is not None:
            make_static_pod_folder(self.config.static_pod_path, self._directory)

    def _crash(self, panic: KubeletPanicError) -> None:
        instance, self._instance = self._instance, None
        if instance is None:
            return
        self._context.observe(KubeletCrashed(self.node, str(panic)))
        instance.cut()
        self._crash_end = self._context.tasks.create_task(instance.stop(), name=f"end of the kubelet of {self.node}")

    def devices_of(self, pod: Pod) -> Mapping[str, Mapping[ResourceName, tuple[DeviceID, ...]]]:
        """Container -> resource -> device ids (sorted) that a pod holds; empty while the kubelet is down."""
        if self._instance is None:
            return {}
        pod_devices = self._instance.containers.devices.pod_devices
        return {
            container.name: {
                resource: tuple(sorted(allocation.devices()))
                for resource, allocation in pod_devices.container(_node_uid(pod), container.name).items()
            }
            for container in pod.containers
        }


def _node_uid(pod: Pod) -> PodUID:
    """The id that a pod goes by on its node: a static pod's own, not that of the object that stands for it."""
    return pod.uid if pod.mirror_of is None else pod.mirror_of


def new_runtime(directory: Path, config: KubeletConfig, clock: Clock) -> ContainerRuntime:
    """The container runtime that a node's settings name."""
    if config.runtime is RuntimeKind.BOOK_KEEPING:
        return BookKeepingRuntime()
    # Only a node that runs processes pays for what that takes.
    from ..runtime.process_runtime import ProcessRuntime

    return ProcessRuntime(directory, directory / CONTAINER_LOGS, clock, memory_bytes=config.machine.get(MEMORY))
