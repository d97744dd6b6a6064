"""``simkubelet up`` behind its options: a simulated cluster in real time, until the user ends it.

It has nodes with fake GPUs and plugins, a scheduler, controllers, an API server with its kubeconfig, and a control
socket.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import click

from simkubelet.apis.yaml_text import yaml_text
from simkubelet.cluster import (
    EVENT_TTL_S,
    ApiServer,
    DaemonSetController,
    DeviceTaintEviction,
    GarbageCollector,
    NamespaceController,
    NamespaceDeletion,
    NodeLifecycle,
    NodeLogs,
    Objects,
    PodGarbageCollector,
    ResourceClaimController,
    Scheduler,
    Store,
    TaintEviction,
    WallTime,
    all_strategies,
    ensure_priority_classes,
)
from simkubelet.host import has_strangers
from simkubelet.model.errors import InputError
from simkubelet.model.version import DYNAMIC_RESOURCES, FEATURE_GATES, version
from simkubelet.model.words import number_of

from ..backends.world.folders import own_folder
from ..backends.world.node import SimNode
from ..story.specs import NodeSpec, PluginSpec
from ..trace.trace import Broadcast
from .control_socket import server_of, serving
from .controls import Controls
from .nodes import LiveNodes, keep_until_interrupted
from .running import About, claimed, control_socket, introduce, kubeconfig_path, write_secret, written

_AFTER_EXPIRY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a cluster is made of.

    Attributes:
        plugins: run on every node, see `LiveNodes`.
        images: image -> the plugin that its containers are.
        port: of the API server; a free one where it is 0.
        runtime_config: versions of groups that the API server serves or does not, other than by default.
        is_plain: the API server talks HTTP and asks for no token.
        is_watched: the terminal shows what happens.
        event_ttl_s: how long Events stay; 0 for without end.
        web_port: of the live page, a free one where it is 0; None for no page.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    plugins: tuple[PluginSpec, ...] = ()
    images: Mapping[str, PluginSpec] = field(default_factory=dict)
    port: int = 0
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    is_plain: bool = False
    is_watched: bool = False
    event_ttl_s: float = EVENT_TTL_S
    web_port: int | None = None


class LiveCluster:
    """A cluster from `__aenter__` to `__aexit__`; it owns no signal handlers and prints nothing but complaints.

    Args:
        folder: where the nodes' folders are made.

    Attributes:
        folder: The same.
        live: Its nodes.
        api: Its API server.
        controls: What can be done to the nodes.
    """

    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        self._spec = spec
        self.folder = folder
        self._group = asyncio.TaskGroup()
        self.live = LiveNodes(spec.plugins, spec.images, folder, self._group)
        self._objects = Objects(WallTime(self.live.clock))
        release, self._gates = version(spec.nodes[0].kubernetes), spec.nodes[0].feature_gates
        self._store = Store(self._objects, self.live.observe, spec.event_ttl_s, self._gates)
        self.api = ApiServer(
            self._objects,
            all_strategies(self._objects, release, self._gates),
            logs=NodeLogs(self.live.kubelets, lambda: datetime.now(UTC)),
            release=release,
            runtime_config=spec.runtime_config,
            port=spec.port,
            plain=spec.is_plain,
            name=spec.name,
        )
        self.controls = Controls(spec.name, self.live, self._store)

    @property
    def nodes(self) -> Mapping[str, SimNode]:
        """The nodes by name."""
        return self.live.by_name

    @property
    def record(self) -> Broadcast:
        """Gives what happens to who follows it."""
        return self.live.record

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
        ends = AsyncExitStack()
        ends.push_async_exit(self._group)
        # A group that is not told of a failure here would wait for what nobody ends any more.
        ends.push_async_callback(self.api.stop)
        ends.push_async_callback(self.live.close)
        await ends.__aexit__(kind, error, traceback)

    async def _start(self) -> None:
        self.live.start()
        namespaces = NamespaceController(self.api.registry, self.api.authority)
        namespaces.ensure_namespaces()
        ensure_priority_classes(self.api.registry)
        await self._serve()
        kubernetes, clock, keep = version(self._spec.nodes[0].kubernetes), self.live.clock, self.live.keep
        recorder = self._store.recorder
        keep("namespaces", namespaces.run)
        keep("deletion of namespaces", NamespaceDeletion(self.api.registry, clock, kubernetes).run)
        keep("node lifecycle", NodeLifecycle(self._store, clock).run)
        keep("taint eviction", TaintEviction(self._store, clock).run)
        keep("pod garbage collector", PodGarbageCollector(self._store, clock).run)
        keep("scheduler", Scheduler(self._store, clock, kubernetes, self._gates, in_thread=True).run)
        keep("DaemonSets", DaemonSetController(self.api.registry, clock, recorder).run)
        if FEATURE_GATES[DYNAMIC_RESOURCES].is_on(kubernetes, self._gates):
            keep("ResourceClaims", ResourceClaimController(self.api.registry, clock, recorder, kubernetes).run)
            keep("device taint eviction", DeviceTaintEviction(self._store, clock, kubernetes).run)
        keep("garbage collector", GarbageCollector(self.api.registry).run)
        keep("expiry of Events", self._expire_events)
        await self.live.add(self._spec.nodes, self._store, lambda: self.kubeconfig)

    async def _expire_events(self) -> None:
        """Remove Events in time also where none is recorded any more."""
        while (left_s := self._store.recorder.expire()) < math.inf:
            await self.live.clock.sleep(left_s + _AFTER_EXPIRY_S)

    async def _serve(self) -> None:
        try:
            await self.api.start()
        except OSError as error:
            raise InputError(f"--port {self._spec.port}: cannot be used: {error.strerror}; choose another") from None

    @property
    def kubeconfig(self) -> Path:
        """A file below the nodes' folder that lets plugins in at the API server."""
        path = self.folder / ".kubeconfig"
        if not path.exists():
            write_secret(path, json.dumps(self.api.kubeconfig()))
        return path


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
    keep_until_interrupted(_keep(spec, where))


async def _keep(spec: ClusterSpec, where: Where) -> None:
    async with AsyncExitStack() as stack:
        own = stack.enter_context(claimed(spec.name))
        kubeconfig = where.kubeconfig or kubeconfig_path(own)
        folder = own
        if where.directory is not None:
            folder = stack.enter_context(own_folder(where.directory))
        cluster = LiveCluster(spec, folder)
        if spec.is_watched:
            stack.enter_context(cluster.live.shown(f"cluster '{spec.name}'"))
        page = await stack.enter_async_context(_served(cluster, spec)) if spec.web_port is not None else None
        await stack.enter_async_context(cluster)
        access = cluster.api.kubeconfig()
        stack.enter_context(written(kubeconfig, yaml_text(access)))
        await stack.enter_async_context(serving(control_socket(own), cluster.controls.perform))
        introduce(own, About(server_of(access["clusters"][0]["cluster"], own), tuple(cluster.nodes)))
        _introduce(cluster, spec, kubeconfig, page)
        await asyncio.get_running_loop().create_future()


def _served(cluster: LiveCluster, spec: ClusterSpec) -> AbstractAsyncContextManager[str]:
    """Serve the live page of a cluster that has not started, and give its address."""
    # Most clusters have none.
    from .buttons import live_page
    from .cards import Shown
    from .web import LivePage

    name = f"cluster '{spec.name}'"
    shown = Shown(
        [node.name for node in spec.nodes], [plugin.name for plugin in spec.plugins], cluster.live.device_name
    )
    page = LivePage(name, live_page(name, spec.nodes, spec.plugins), cluster.controls.perform, shown)
    cluster.record.follow(page.take)
    return page.serving(spec.web_port or 0)


def _introduce(cluster: LiveCluster, spec: ClusterSpec, kubeconfig: Path, page: str | None) -> None:
    nodes = number_of(len(spec.nodes), "node")
    click.echo(f"cluster '{spec.name}' is up: {nodes}, Kubernetes {spec.nodes[0].kubernetes}; Ctrl-C ends it")
    click.echo(f"  export KUBECONFIG={kubeconfig}")
    for line in cluster.live.introductions():
        click.echo(line)
    if page is not None:
        click.echo(f"  live page: {page}")
    # Last, where it is seen below many nodes; what comes before is the same for each user, as the pages show it.
    if os.geteuid() == 0:
        click.echo(f"  as root: {_rights(cluster.folder)}")


def _rights(folder: Path) -> str:
    """What the plugins and containers of a root user may do on the host."""
    if has_strangers(folder):
        return "foreign plugins and containers run as a user of their own, who has no rights on this machine"
    return (
        "foreign plugins and containers are root on this machine, without most capabilities, as user namespaces or "
        f"idmapped mounts do not work in {folder}; run as a user, or choose another --dir"
    )
