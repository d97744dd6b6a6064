"""The same for tests without a coroutine: each call runs in an event loop with a thread of its own.

A thread, not a process: what a call returns is the real object, and a debugger reaches everything. A plugin that the
test serves itself, in its own thread, is called as by a kubelet in another process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simkubelet.devices import DeviceRunOptions
from simkubelet.model.pod import Pod

from ..trace.snapshot import PluginState
from ..trace.trace import Entry
from .cluster import AsyncCluster
from .node import AsyncNode
from .plugin import AsyncPlugin

if TYPE_CHECKING:
    from fakegpu import Machine

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own; see `running`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
        self._loop = loop
        self._thread = thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; Ctrl-C, or a time-out of the test, cancels it."""
        __tracebackhide__ = True
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException as error:
            future.cancel()
            # What is inside says nothing to a reader of the test.
            raise error.with_traceback(None) from None

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop's thread; at once where that is this one, as in a condition of `Node.until`."""
        __tracebackhide__ = True
        if threading.current_thread() is self._thread:
            return function()

        async def called() -> T:
            return function()

        return self.run(called())

    @contextmanager
    def entered(self, context: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter and leave an asynchronous context in one task, as task groups demand.

        Raises:
            SimkubeletError: It cannot be entered, or what it ran has failed.
        """
        ready: Future[T] = Future()
        end = asyncio.Event()

        async def stay() -> None:
            try:
                async with context as value:
                    ready.set_result(value)
                    await end.wait()
            except BaseException as error:
                if ready.done():
                    raise
                ready.set_exception(error)

        stayed = asyncio.run_coroutine_threadsafe(stay(), self._loop)
        try:
            yield ready.result()
        finally:
            if ready.done():
                self._loop.call_soon_threadsafe(end.set)
            else:
                stayed.cancel()
            if not stayed.cancelled():
                stayed.result()


@contextmanager
def running() -> Iterator[Loop]:
    """Run an event loop in a thread until the end of the block, and until all that was begun in it has ended."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        # Ctrl-C may come between the beginning of some work and the wait for it. What was cancelled before is left in
        # peace: it ends its processes and removes its files.
        for task in others:
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="simkubelet", daemon=True)
    thread.start()
    try:
        yield Loop(started.result()[0], thread)
    finally:
        loop, end = started.result()
        loop.call_soon_threadsafe(end.set)
        thread.join()


class Plugin:
    """A plugin's process on a node; see `AsyncPlugin`."""

    def __init__(self, loop: Loop, plugin: AsyncPlugin) -> None:
        self._loop = loop
        self._plugin = plugin
        self.name = plugin.name
        self.log: Path = plugin.log

    @property
    def state(self) -> PluginState:
        """`running`, `waiting` for its restart, `stopped`, or `exited` where it has ended before it registered."""
        return self._loop.call(lambda: self._plugin.state)

    @property
    def registrations(self) -> int:
        """How often it has registered, over all its processes."""
        return self._plugin.registrations

    @property
    def restarts(self) -> int:
        """How often it was started after the first time."""
        return self._loop.call(lambda: self._plugin.restarts)

    def start(self) -> None:
        """Start it after `stop`."""
        __tracebackhide__ = True
        self._loop.run(self._plugin.start())

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL five seconds later; it stays so until `start`."""
        __tracebackhide__ = True
        self._loop.run(self._plugin.stop())

    def kill(self) -> None:
        """Kill it; it is started again as after any other end."""
        __tracebackhide__ = True
        self._loop.run(self._plugin.kill())

    def send_signal(self, name: str) -> None:
        """Send its first process a signal, such as ``HUP``; nothing happens where it has no handler."""
        __tracebackhide__ = True
        self._loop.run(self._plugin.send_signal(name))


class Node:
    """A node with a kubelet and a scheduler; see `AsyncNode`, whose methods it has, and their errors."""

    def __init__(self, loop: Loop, node: AsyncNode) -> None:
        self._loop = loop
        self._node = node
        self.name = node.name

    @property
    def plugin_folder(self) -> Path:
        """The folder of ``kubelet.sock``, in which plugins make their sockets."""
        return self._node.plugin_folder

    @property
    def pod_resources_socket(self) -> Path:
        """Where the kubelet serves the PodResources API."""
        return self._node.pod_resources_socket

    @property
    def root(self) -> Path:
        """The node's own files: ``root / "srv/seats/aisle"`` is its ``/srv/seats/aisle``."""
        return self._node.root

    @property
    def machine(self) -> Machine | None:
        """Its fake NVIDIA GPUs; None where it has none."""
        return self._node.machine

    @property
    def capacity(self) -> Mapping[str, int]:
        """Resource -> amount, as last published."""
        return self._loop.call(lambda: self._node.capacity)

    @property
    def allocatable(self) -> Mapping[str, int]:
        """Resource -> what pods may get of it, published with `capacity`."""
        return self._loop.call(lambda: self._node.allocatable)

    @property
    def trace(self) -> tuple[Entry, ...]:
        """What has happened, oldest first."""
        return self._loop.call(lambda: self._node.trace)

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of the plugins, kubelet and containers that are not empty."""
        return self._node.logs

    @property
    def happened(self) -> str:
        """The latest events and the ends of the plugins' logs, for the report of a failure."""
        return self._loop.call(lambda: self._node.happened)

    def apply(self, manifest: Mapping[str, Any]) -> Pod:
        """Create a pod; the scheduler binds it where its requests fit."""
        __tracebackhide__ = True
        return self._loop.call(lambda: self._node.apply(manifest))

    def delete(self, name: str) -> None:
        """Delete a pod, which is gone when its containers have ended."""
        __tracebackhide__ = True
        self._loop.call(lambda: self._node.delete(name))

    def pod(self, name: str) -> Pod:
        """Return a pod as it is now."""
        __tracebackhide__ = True
        return self._loop.call(lambda: self._node.pod(name))

    def devices_of(self, name: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return container -> resource -> ids of the devices that a pod holds; empty while no kubelet runs."""
        __tracebackhide__ = True
        return self._loop.call(lambda: self._node.devices_of(name))

    def options_of(self, name: str) -> Mapping[str, DeviceRunOptions]:
        """Return container -> what plugins answered for it, merged."""
        __tracebackhide__ = True
        return self._loop.call(lambda: self._node.options_of(name))

    def restart(self) -> None:
        """Restart the kubelet; containers and plugins continue."""
        __tracebackhide__ = True
        self._loop.run(self._node.restart())

    def stop(self) -> None:
        """Stop the kubelet; containers and plugins continue."""
        __tracebackhide__ = True
        self._loop.run(self._node.stop())

    def start(self) -> None:
        """Start the kubelet after `stop`."""
        __tracebackhide__ = True
        self._loop.run(self._node.start())

    def reboot(self) -> None:
        """Power-cycle the node: containers and plugins end and start again."""
        __tracebackhide__ = True
        self._loop.run(self._node.reboot())

    def advance(self, seconds: float) -> None:
        """Let node time pass."""
        __tracebackhide__ = True
        self._loop.run(self._node.advance(seconds))

    def start_plugin(
        self, *command: str | Path, name: str = "plugin", env: Mapping[str, str] | None = None, wait: bool = True
    ) -> Plugin:
        """Start a device plugin, which sees the node at a node's usual paths, and wait until it has registered."""
        __tracebackhide__ = True
        return Plugin(self._loop, self._loop.run(self._node.start_plugin(*command, name=name, env=env, wait=wait)))

    def step(self, **step: object) -> None:
        """Do a step of the story language: one verb and its keys."""
        __tracebackhide__ = True
        self._loop.run(self._node.step(**step))

    def expect(self, **expectation: object) -> None:
        """Wait until something is so: an ``expect`` of the story language."""
        __tracebackhide__ = True
        self._loop.run(self._node.expect(**expectation))

    def until(self, condition: Callable[[], bool], within_s: float = 10.0) -> None:
        """Return when a condition holds; it may read the node, and waits for nothing itself."""
        __tracebackhide__ = True
        self._loop.run(self._node.until(condition, within_s))


class Cluster:
    """A cluster as ``simkubelet up`` runs it; see `AsyncCluster`."""

    def __init__(self, loop: Loop, cluster: AsyncCluster) -> None:
        self._loop = loop
        self._cluster = cluster
        self.kubeconfig: Path = cluster.kubeconfig
        self.nodes = cluster.nodes

    @property
    def logs(self) -> Sequence[Path]:
        """The logs of the plugins, kubelets and containers that are not empty."""
        return self._cluster.logs

    @property
    def happened(self) -> str:
        """The ends of the plugins' logs, for the report of a failure."""
        return self._cluster.happened

    def machine(self, node: str) -> Machine | None:
        """Return the fake NVIDIA GPUs of a node; None where it has none."""
        return self._cluster.machine(node)

    def restart_kubelet(self, node: str) -> None:
        """Restart the kubelet of a node; containers and plugins continue."""
        __tracebackhide__ = True
        self._loop.run(self._cluster.restart_kubelet(node))

    def stop_kubelet(self, node: str) -> None:
        """Stop the kubelet of a node; containers and plugins continue."""
        __tracebackhide__ = True
        self._loop.run(self._cluster.stop_kubelet(node))

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node after it was stopped."""
        __tracebackhide__ = True
        self._loop.run(self._cluster.start_kubelet(node))

    def reboot(self, node: str) -> None:
        """Power-cycle a node: containers and plugins end and start again."""
        __tracebackhide__ = True
        self._loop.run(self._cluster.reboot(node))


@contextmanager
def running_node(spec: Mapping[str, Any] | None = None) -> Iterator[Node]:
    """A node until the end of the block; see `AsyncNode`."""
    node = AsyncNode(spec)
    with running() as loop, loop.entered(node):
        yield Node(loop, node)


@contextmanager
def running_cluster(*args: Any, **keys: Any) -> Iterator[Cluster]:
    """A cluster until the end of the block; see `AsyncCluster`."""
    cluster = AsyncCluster(*args, **keys)
    with running() as loop, loop.entered(cluster):
        yield Cluster(loop, cluster)
