"""``simkubelet up`` behind its options: a simulated cluster in real time, until the user ends it.

It has nodes with fake GPUs and plugins, a scheduler, controllers, an API server with its kubeconfig, and a control
socket.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import click
import yaml

from simkubelet.cluster import (
    ApiServer,
    DaemonSetController,
    GarbageCollector,
    NamespaceController,
    NodeLifecycle,
    NodeLogs,
    Objects,
    PodGarbageCollector,
    Scheduler,
    Store,
    TaintEviction,
    WallTime,
    all_strategies,
    ensure_priority_classes,
)
from simkubelet.host import raise_limit
from simkubelet.kubelet import START_S, Kubelet, new_runtime
from simkubelet.model.clock import RealClock
from simkubelet.model.errors import InputError, PluginError, SimkubeletError
from simkubelet.model.events import SIMULATOR, KubeletCrashed, KubeletStopped, NodeEvent, PluginRegistered
from simkubelet.model.pod import Container, Pod
from simkubelet.model.version import version
from simkubelet.node import NodeContext

from ..backends.world.logs import KubeletLogs
from ..backends.world.node import SimNode, new_folder, removed_at_end
from ..backends.world.plugin_process import PluginProcess
from ..backends.world.plugins import SimPlugins
from ..evaluation.verdict import single_errors
from ..play.interruption import run_interruptibly
from ..story.specs import NodeSpec, PluginSpec
from ..trace.trace import Broadcast
from .controls import Controls
from .plugin_images import PluginImages
from .running import claimed, control_socket, kubeconfig_path, serving, written

_BROKEN_PLUGIN_BACKOFF_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a cluster is made of.

    Attributes:
        plugins: run on every node, each as a process.
        images: image -> the plugin that its containers are.
        port: of the API server; a free one where it is 0.
        is_plain: the API server talks HTTP and asks for no token.
        is_watched: the terminal shows what happens.
        web_port: of the live page, a free one where it is 0; None for no page.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    plugins: tuple[PluginSpec, ...] = ()
    images: Mapping[str, PluginSpec] = field(default_factory=dict)
    port: int = 0
    is_plain: bool = False
    is_watched: bool = False
    web_port: int | None = None


class LiveCluster:
    """A cluster from `__aenter__` to `__aexit__`; it owns no signal handlers and prints nothing but complaints.

    Args:
        folder: where the nodes' folders are made.

    Attributes:
        record: Gives what happens to who follows it.
        controls: What can be done to the nodes.
    """

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        self._spec = spec
        self._folder = folder
        self._clock = RealClock()
        self.record = Broadcast(self._clock.now)
        self._plugins = SimPlugins(spec.plugins, {}, self._clock, self.record)
        self._objects = Objects(WallTime(self._clock))
        self._store = Store(self._objects, self._observe)
        self._kubelets: dict[str, Kubelet] = {}
        self.api = ApiServer(
            self._objects,
            all_strategies(self._objects),
            logs=NodeLogs(self._kubelets, lambda: datetime.now(UTC)),
            version=version(spec.nodes[0].kubernetes).kubelet_version,
            port=spec.port,
            plain=spec.is_plain,
            name=spec.name,
        )
        self._logs = KubeletLogs(self._clock.now)
        self.nodes: dict[str, SimNode] = {}
        self.controls = Controls(
            spec.name, self.nodes, self._kubelets, self._plugins, self._store, self._logs, self.record, self._starting
        )
        self._group = asyncio.TaskGroup()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        try:
            await self._start()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        try:
            await self._stack.aclose()
        finally:
            await self._group.__aexit__(kind, error, traceback)

    async def _starting(self) -> None:
        await self._clock.sleep(START_S)

    async def _start(self) -> None:
        self._logs.start()
        self._stack.callback(self._logs.close)
        namespaces = NamespaceController(self.api.registry, self.api.authority)
        namespaces.ensure_namespaces()
        ensure_priority_classes(self.api.registry)
        await self._serve()
        kubernetes = version(self._spec.nodes[0].kubernetes)
        self._keep(namespaces.run())
        self._keep(NodeLifecycle(self._store, self._clock).run())
        self._keep(TaintEviction(self._store, self._clock).run())
        self._keep(PodGarbageCollector(self._store, self._clock).run())
        self._keep(Scheduler(self._store, self._clock, kubernetes).run())
        self._keep(DaemonSetController(self.api.registry, self._clock, self._store.recorder).run())
        self._keep(GarbageCollector(self.api.registry).run())
        for spec in self._spec.nodes:
            await self._add_node(SimNode(spec, self._folder / spec.name))
        for process in self._plugins.processes:
            self._keep(_kept_running(process, self._clock))

    async def _serve(self) -> None:
        try:
            await self.api.start()
        except OSError as error:
            raise InputError(f"--port {self._spec.port}: cannot be used: {error.strerror}; choose another") from None
        self._stack.push_async_callback(self.api.stop)

    @property
    def kubeconfig(self) -> Path:
        """A file below the nodes' folder that lets plugins and clients in at the API server."""
        path = self._folder / ".kubeconfig"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(json.dumps(self.api.kubeconfig()))
        return path

    async def _add_node(self, node: SimNode) -> None:
        node.create()
        self._stack.callback(node.close)
        self._logs.add_node(node.name, node.kubelet_log)
        config = node.kubelet_config()
        context = NodeContext(self._clock, self._store, self._observe, self._group, renews_leases=True)
        own = new_runtime(node.directory, config, self._clock)
        runtime = PluginImages(node, self._spec.images, own, self._clock, self._note, self.record)
        kubelet = Kubelet(node.directory, config, context, runtime)
        self._stack.push_async_callback(kubelet.close)
        with self._logs.of(node.name):
            await kubelet.start()
        self.nodes[node.name], self._kubelets[node.name] = node, kubelet
        node.kubeconfig = self.kubeconfig
        self._plugins.add_node(node)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done until the end."""
        task = self._group.create_task(work)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    def _note(self, pod: Pod, container: Container, message: str) -> None:
        self._store.record(pod, "Warning", "NotThePlugin", message, SIMULATOR, container=container.name)

    def _observe(self, event: NodeEvent) -> None:
        match event:
            case PluginRegistered():
                self._plugins.registered(event)
            case KubeletStopped(node=node):
                self._plugins.allow_restarts(node, False)
            case KubeletCrashed(node=node, reason=reason):
                self._plugins.allow_restarts(node, False)
                _complain(f"the kubelet of {node} crashed: {reason}; 'simkubelet kubelet start {node}' starts it again")
        self.record.append(event)


async def _kept_running(process: PluginProcess, clock: RealClock) -> None:
    """Run a plugin until cancelled, also one that never registers; that is reported."""
    while True:
        try:
            await process.run()
        except PluginError as error:
            _complain(f"{process.command.node}: {error}; it is started again in {_BROKEN_PLUGIN_BACKOFF_S:.0f} s")
            await clock.sleep(_BROKEN_PLUGIN_BACKOFF_S)


def _complain(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class Where:
    """Files that the user names: the nodes' folder and the kubeconfig; None for a place of the cluster's own."""

    directory: Path | None = None
    kubeconfig: Path | None = None


def run(spec: ClusterSpec, where: Where) -> None:
    """Keep a cluster until Ctrl-C, SIGTERM or SIGHUP.

    Raises:
        Interrupted: the user ended it; nothing is left behind.
        InputError: what the user gave cannot be used; nothing is left behind.
        HostError: the machine failed.
        OSError: standard output cannot be written, or the machine failed in another way.
    """
    raise_limit()
    try:
        return run_interruptibly(_keep(spec, where))
    except BaseExceptionGroup as errors:
        # Not `except*`: Python 3.11.2 puts what is raised in it into a group again.
        if (reported := errors.subgroup((SimkubeletError, OSError))) is None:
            raise
        first = next(single_errors(reported))
    # Not within `except`, where it would lose what led to it.
    raise first


async def _keep(spec: ClusterSpec, where: Where) -> None:
    async with AsyncExitStack() as stack:
        own = stack.enter_context(claimed(spec.name))
        kubeconfig = where.kubeconfig or kubeconfig_path(own)
        folder = own
        if where.directory is not None:
            folder = stack.enter_context(removed_at_end(new_folder(where.directory)))
        cluster = LiveCluster(spec, folder)
        if spec.is_watched:
            stack.enter_context(_shown(cluster, spec.name))
        page = await stack.enter_async_context(_served(cluster, spec)) if spec.web_port is not None else None
        await stack.enter_async_context(cluster)
        stack.enter_context(written(kubeconfig, yaml.safe_dump(cluster.api.kubeconfig(), sort_keys=False)))
        await stack.enter_async_context(serving(control_socket(own), cluster.controls.perform))
        _introduce(cluster, spec, kubeconfig, page)
        await asyncio.get_running_loop().create_future()


@contextmanager
def _shown(cluster: LiveCluster, name: str) -> Iterator[None]:
    """Show in the terminal what happens in a cluster that has not started."""
    # Most clusters show nothing.
    from ..play.console import console
    from ..report.live_view import LiveView

    view = LiveView(console())
    cluster.record.follow(partial(view.take, f"cluster '{name}'"))
    view.start()
    try:
        yield
    finally:
        view.stop()


def _served(cluster: LiveCluster, spec: ClusterSpec) -> AbstractAsyncContextManager[str]:
    """Serve the live page of a cluster that has not started, and give its address."""
    # Most clusters have none.
    from .buttons import live_page
    from .web import LivePage

    name = f"cluster '{spec.name}'"
    page = LivePage(name, live_page(name, spec.nodes, spec.plugins), cluster.controls.perform)
    cluster.record.follow(page.take)
    return page.serving(spec.web_port or 0)


def _introduce(cluster: LiveCluster, spec: ClusterSpec, kubeconfig: Path, page: str | None) -> None:
    nodes = "1 node" if len(spec.nodes) == 1 else f"{len(spec.nodes)} nodes"
    click.echo(f"cluster '{spec.name}' is up: {nodes}, Kubernetes {spec.nodes[0].kubernetes}; Ctrl-C ends it")
    click.echo(f"  export KUBECONFIG={kubeconfig}")
    width = max(len(node) for node in cluster.nodes)
    for name, node in cluster.nodes.items():
        gpus = "no GPUs"
        if node.machine is not None:
            own = node.machine.gpus
            gpus = f"{len(own)} x {own[0].name}; break one: fakegpu fail 0 --xid 79 --dir {node.machine.directory}"
        click.echo(f"  {name:<{width}}  {gpus}")
    if page is not None:
        click.echo(f"  live page: {page}")
