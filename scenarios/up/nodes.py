"""Nodes on the real clock, of whatever cluster: their folders and fake GPUs, kubelets and plugins."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from simkubelet.cluster_api import ClusterApi
from simkubelet.host import Door, contain_failures, one_line, raise_limit
from simkubelet.kubelet import START_S, Kubelet, new_runtime
from simkubelet.model.clock import RealClock
from simkubelet.model.errors import HostError, PluginError, SimkubeletError
from simkubelet.model.events import (
    SIMULATOR,
    DriverConnected,
    KubeletCrashed,
    KubeletStopped,
    NodeEvent,
    PluginRegistered,
)
from simkubelet.model.pod import Container, Pod
from simkubelet.node import NodeContext
from simkubelet.runtime import check_containers

from ..backends.world.logs import KubeletLogs
from ..backends.world.node import SimNode
from ..backends.world.plugin_forks import PluginForks
from ..backends.world.plugin_process import PluginProcess
from ..backends.world.plugins import SimPlugins
from ..evaluation.verdict import single_errors
from ..play.interruption import run_interruptibly
from ..story.specs import NodeSpec, PluginSpec, Runtime
from ..story.stub_spec import Serves
from ..trace.snapshot import hardware_of
from ..trace.trace import Broadcast
from .memory import return_memory, use_c_allocator
from .plugin_images import PluginImages

_EVENT: Final = Door("event of a node")
_PLUGIN: Final = Door("supervision of a plugin", PluginError)
_LOOP: Final = Door("part of the control plane")
_REMEMBERED_FAILURES: Final = 1000
_BROKEN_PLUGIN_BACKOFF_S: Final = 10.0
_COLLECT_AFTER: Final = 20_000
_TURNS_OF_A_REGISTRATION: Final = 40
"""Turns of the event loop from the start of a stub that is a task to its registration, with room."""


class LiveNodes:
    """Nodes and their plugins, from `start` to `close`; it prints nothing but complaints.

    Args:
        plugins: Run on every node, each as a process, a bundled one forked; a stub as a task of this one.
        images: Image -> the plugin that its containers are.
        folder: Where the nodes' folders are made.
        group: Owns what runs.

    Attributes:
        clock: The nodes' time.
        record: Gives what happens to who follows it.
        by_name: The nodes.
        kubelets: Node -> its kubelet.
        plugins: Those of all nodes.
        logs: Of the kubelets.
    """

    def __init__(
        self, plugins: tuple[PluginSpec, ...], images: Mapping[str, PluginSpec], folder: Path, group: asyncio.TaskGroup
    ) -> None:
        self.clock = RealClock()
        self.record = Broadcast(self.clock.now)
        self.by_name: dict[str, SimNode] = {}
        self.kubelets: dict[str, Kubelet] = {}
        self._gpu_names: dict[str, dict[str, str]] = {}
        stubs = {one.name: one.serves or Serves() for one in plugins if one.is_stub}
        self._stubs_devices = [f"{len(one.devices)} x {one.resource}" for one in stubs.values()]
        self._forks = PluginForks()
        self._has_foreign = any(one.builtin is None for one in (*plugins, *images.values()))
        self.plugins = SimPlugins(
            plugins,
            {},
            self.clock,
            self.record,
            tasks=stubs.keys(),
            spawn=self._forks.spawn,
            has_foreign=self._has_foreign,
        )
        self.logs = KubeletLogs(self.clock.now)
        self._images = images
        self._folder = folder
        self._group = group
        self._supervisors: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()
        # What is forked ends with the server: containers that are plugins have their time to end before.
        self._stack.push_async_callback(self._forks.close)

    def start(self) -> None:
        """Take what is logged from now on in this task, and in those that it starts; go on after failures in them."""
        contain_failures(complain_once())
        self.logs.start()
        self._stack.callback(self.logs.close)
        self.keep("memory", lambda: return_memory(self.clock.sleep))

    async def add(self, specs: Iterable[NodeSpec], cluster: ClusterApi, kubeconfig: Callable[[], Path]) -> None:
        """Start the nodes of a cluster, each with its plugins.

        A stub that is a task registers before the next node is made: of a thousand that begin at once each would wait
        so long for its turn that its call is given up.

        Args:
            specs: What they are made of.
            cluster: Theirs.
            kubeconfig: Returns a file that lets plugins in at the API server.

        Raises:
            InputError: A folder cannot hold sockets, or there is no such GPU.
            HostError: The machine cannot do it.
        """
        specs = tuple(specs)
        if any(spec.runtime is Runtime.PROCESS for spec in specs) and (
            line := await asyncio.to_thread(check_containers)
        ):
            complain(line)
        for spec in specs:
            node = SimNode(spec, self._folder / spec.name)
            await self._add(node, cluster, kubeconfig)
            for process in self.plugins.add_node(node):
                self._supervisors.append(self._group.create_task(_kept_running(process, self.clock)))
            for _ in range(_TURNS_OF_A_REGISTRATION):
                await asyncio.sleep(0)

    async def close(self) -> None:
        """End plugins, then kubelets and containers, and let go of the nodes' files; may be called twice."""
        for task in self._supervisors:
            task.cancel()
        await asyncio.gather(*self._supervisors, return_exceptions=True)
        await self._stack.aclose()

    def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Have a part of the control plane work until the end; one that fails is started again."""
        task = self._group.create_task(_LOOP.again_until_done(name, work, self.clock.sleep), name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def until_published(self) -> None:
        """Wait as long as a kubelet takes from its socket to the node's status."""
        await self.clock.sleep(START_S)

    def observe(self, event: NodeEvent) -> None:
        """Take what happens on a node or in its cluster."""
        with _EVENT(event.kind):
            self._take(event)
        self.record.append(event)

    def _take(self, event: NodeEvent) -> None:
        match event:
            case PluginRegistered() | DriverConnected():
                self.plugins.registered(event)
            case KubeletStopped(node=node):
                self.plugins.allow_restarts(node, False)
            case KubeletCrashed(node=node, reason=reason):
                self.plugins.allow_restarts(node, False)
                complain(f"the kubelet of {node} crashed: {reason}; 'simkubelet kubelet start {node}' starts it again")

    def device_name(self, node: str, device: str) -> str:
        """What people call a device of a node: ``GPU 3`` for a fake GPU, ``GPU 3::1`` for a replica; else its id."""
        uuid = hardware_of(device)
        if node not in self._gpu_names and (of_node := self.by_name.get(node)) is not None:
            gpus = of_node.machine.gpus if of_node.machine is not None else ()
            self._gpu_names[node] = {gpu.uuid: f"GPU {gpu.index}" for gpu in gpus}
        return self._gpu_names.get(node, {}).get(uuid, uuid) + device[len(uuid) :]

    def introductions(self) -> Iterator[str]:
        """A line for each node, about its GPUs and the devices of its stubs."""
        width = max(map(len, self.by_name))
        for name, node in self.by_name.items():
            devices = list(self._stubs_devices)
            if node.machine is not None:
                own = node.machine.gpus
                break_one = f"break one: fakegpu fail 0 --xid 79 --dir {node.machine.directory}"
                devices.append(f"{len(own)} x {own[0].name}; {break_one}")
            yield f"  {name:<{width}}  {', '.join(devices) or 'no GPUs'}"

    @contextmanager
    def shown(self, title: str) -> Iterator[None]:
        """Show in the terminal what happens from here on."""
        # Most users show nothing.
        from ..play.console import console
        from ..report.live_view import LiveView

        view = LiveView(console())
        self.record.follow(partial(view.take, title))
        view.start()
        try:
            yield
        finally:
            view.stop()

    async def _add(self, node: SimNode, cluster: ClusterApi, kubeconfig: Callable[[], Path]) -> None:
        def note(pod: Pod, container: Container, message: str) -> None:
            cluster.record(pod, "Warning", "NotThePlugin", message, SIMULATOR, container=container.name)

        node.create()
        self._stack.push_async_callback(node.close)
        self.logs.add_node(node.name, node.kubelet_log)
        config = node.kubelet_config()
        context = NodeContext(self.clock, cluster, self.observe, self._group, renews_leases=True)
        own = new_runtime(node.directory, config, self.clock)
        parts = node, self._images, own, self.clock, note, self.record, self._forks.spawn
        runtime = PluginImages(*parts, has_foreign=self._has_foreign)
        kubelet = Kubelet(node.directory, config, context, runtime)
        self._stack.push_async_callback(kubelet.close)
        with self.logs.of(node.name):
            await kubelet.start()
        self.by_name[node.name], self.kubelets[node.name] = node, kubelet
        node.kubeconfig = kubeconfig()


async def _kept_running(process: PluginProcess, clock: RealClock) -> None:
    """Run a plugin until cancelled, also one that never registers; that is reported.

    Raises:
        HostError: it cannot be started for the first time. Later that is reported, too: a program of its node may be
            why, as where it puts a link in the place of the plugin's log.
    """
    about = f"{process.command.node} {process.command.name}"
    while True:
        try:
            await _PLUGIN.again_until_done(about, process.run, clock.sleep)
        except (PluginError, HostError) as error:
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
            if isinstance(error, HostError) and process.starts == 1:
                raise
            complain(f"{process.command.node}: {error}; it is started again in {_BROKEN_PLUGIN_BACKOFF_S:.0f} s")
            await clock.sleep(_BROKEN_PLUGIN_BACKOFF_S)


def complain_once() -> Callable[[str], None]:
    """Print warnings of which each may come again and again; the latest thousand are known."""
    known: dict[str, None] = {}

    def report(text: str) -> None:
        is_new = text not in known
        known.pop(text, None)
        known[text] = None
        if len(known) > _REMEMBERED_FAILURES:
            del known[next(iter(known))]
        if is_new:
            complain(text)

    return report


def complain(text: str) -> None:
    """Print a warning for the user of a cluster."""
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


def keep_until_interrupted(main: Coroutine[Any, Any, None]) -> None:
    """Run what keeps nodes, until Ctrl-C, SIGTERM or SIGHUP.

    Raises:
        Interrupted: the user ended it.
        SimkubeletError: the first that ended it.
        OSError: standard output cannot be written, or the machine failed in another way.
    """
    raise_limit()
    use_c_allocator()
    # What is loaded stays, and what many nodes and pods are made of does not become garbage soon.
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)
    try:
        return run_interruptibly(main, needs_reader=False)
    except BaseExceptionGroup as errors:
        # Not `except*`: Python 3.11.2 puts what is raised in it into a group again.
        if (reported := errors.subgroup((SimkubeletError, OSError))) is None:
            raise
        first = next(single_errors(reported))
    # Not within `except`, where it would lose what led to it.
    raise first
