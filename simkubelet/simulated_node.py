"""A node for tests of device plugins: a kubelet, a scheduler and their objects in this process.

The kubelet listens on ``kubelet.sock`` in `SimulatedNode.plugin_folder`; the plugin under test is a process, or a
server of the test's own, that registers there as on a real node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ._internal.change import Change
from .cluster import Objects, Scheduler, Store, WallTime
from .devices.pod_devices import DeviceID, DeviceRunOptions
from .kubelet.kubelet import Kubelet
from .model.clock import Clock, RealClock
from .model.config import KubeletConfig
from .model.errors import InputError
from .model.events import NodeEvent
from .model.pod import Pod
from .model.resources import ResourceName
from .node import NodeContext

__all__ = ["SimulatedNode"]


class SimulatedNode:
    """A node from `__aenter__` to `__aexit__`, with its own small cluster.

    Args:
        directory: The kubelet's root directory, ``/var/lib/kubelet`` on a real node. It is made where it is missing
            and stays; its path is short, as sockets are made in it (107 bytes at most).
        config: The kubelet's settings; those of a node ``node-1`` of the default Kubernetes minor by default.
        clock: The time of kubelet and scheduler, real time by default. A `ManualClock` moves when the test advances
            it. A plugin is a process of its own and always lives in real time.

    Attributes:
        kubelet: To be stopped, started and restarted by a test.
        clock: The node's time.

    Raises:
        InputError: The directory cannot hold sockets.
        HostError: A socket cannot be made.
    """

    def __init__(self, directory: Path | str, config: KubeletConfig | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or RealClock()
        self._directory = Path(directory)
        self._config = config or KubeletConfig("node-1")
        self._events: list[NodeEvent] = []
        self._changed = Change()
        self._store = Store(Objects(WallTime(self.clock)), self._observe)
        self._tasks = asyncio.TaskGroup()
        self._stack = AsyncExitStack()
        context = NodeContext(self.clock, self._store, self._observe, self._tasks)
        self.kubelet = Kubelet(self._directory, self._config, context)

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        await self._tasks.__aenter__()
        try:
            scheduler = Scheduler(self._store, self.clock, self._config.version, self._config.feature_gates)
            scheduling = self._tasks.create_task(scheduler.run())
            self._stack.callback(scheduling.cancel)
            self._stack.push_async_callback(self.kubelet.close)
            await self.kubelet.start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        ends = AsyncExitStack()
        ends.push_async_exit(self._tasks)
        # A group that is not told of a failure here would wait for what nobody ends any more.
        ends.push_async_callback(self._stack.aclose)
        await ends.__aexit__(kind, error, traceback)

    @property
    def plugin_folder(self) -> Path:
        """The folder of ``kubelet.sock``, in which plugins make their sockets."""
        return self.kubelet.folder.directory

    @property
    def events(self) -> tuple[NodeEvent, ...]:
        """What has happened on the node, oldest first."""
        return tuple(self._events)

    @property
    def capacity(self) -> Mapping[str, int]:
        """Resource -> amount, as last published: at the start, and every ten seconds of node time where it changed."""
        status = self._store.nodes.get(self._config.node)
        return {} if status is None else {str(name): amount for name, amount in status.capacity.items()}

    @property
    def allocatable(self) -> Mapping[str, int]:
        """Resource -> what pods may get of it, published with `capacity`."""
        status = self._store.nodes.get(self._config.node)
        return {} if status is None else {str(name): amount for name, amount in status.allocatable.items()}

    def apply(self, manifest: Mapping[str, Any]) -> Pod:
        """Create a pod; the scheduler binds it to the node where its requests fit.

        Args:
            manifest: A v1 Pod.

        Raises:
            InputError: An API server would refuse it, or a pod of that name is there.
        """
        return self._store.create_pod(manifest)

    def delete(self, name: str) -> None:
        """Delete a pod, which is gone when its containers have ended.

        Raises:
            InputError: There is no such pod.
        """
        self._store.delete_pod(self.pod(name).uid)

    def pod(self, name: str) -> Pod:
        """Return a pod as it is now: `Pod.status` has its phase, conditions and containers.

        Args:
            name: Its name, with ``NAMESPACE/`` before it where that is not ``default``.

        Raises:
            InputError: There is no such pod.
        """
        pod = self._store.pod_named(name)
        if pod is None:
            raise InputError(
                f"no pod {name!r}; the pods are: {', '.join(pod.key for pod in self._store.pods) or 'none'}"
            )
        return pod

    def devices_of(self, name: str) -> Mapping[str, Mapping[ResourceName, tuple[DeviceID, ...]]]:
        """Return container -> resource -> ids of the devices that a pod holds, empty while no kubelet runs.

        Raises:
            InputError: There is no such pod.
        """
        return self.kubelet.devices_of(self.pod(name))

    def options_of(self, name: str) -> Mapping[str, DeviceRunOptions]:
        """Return container -> what plugins answered for it, merged: environment, mounts, device nodes, CDI devices.

        Raises:
            InputError: There is no such pod.
        """
        containers = self.kubelet.containers_of(self.pod(name))
        return {container: record.options for container, record in containers.items()}

    async def until(self, condition: Callable[[], bool], within_s: float = 30.0) -> None:
        """Return when a condition holds; it is checked now and after each event of the node.

        Args:
            condition: For example ``lambda: node.capacity.get("example.com/seat") == 2``.
            within_s: How long to wait, in real time whatever the node's clock.

        Raises:
            TimeoutError: It does not hold in time; the message has the latest events.
        """
        try:
            async with asyncio.timeout(within_s):
                while not condition():
                    await self._changed.wait(self._changed.count)
        except TimeoutError:
            latest = ", ".join(event.kind for event in self._events[-5:]) or "none"
            raise TimeoutError(f"not so within {within_s:g} s; the node's latest events: {latest}") from None

    def _observe(self, event: NodeEvent) -> None:
        self._events.append(event)
        self._changed.notify()
