"""``simkubelet join`` behind its options: simulated nodes in the cluster of another API server, until the user ends it.

The nodes come when the server's state has been read. At the end they are cordoned and drained, as an administrator
takes a node out of a cluster; then their kubelets end, and their objects are deleted. Nodes of a process that was
killed stay registered: the next process with the same prefix takes them over, as a kubelet does that finds its node's
object.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import click

from simkubelet.cluster import KubeletEndpoint
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.version import SUPPORTED, version
from simkubelet.model.words import number_of
from simkubelet.remote import (
    ApiClient,
    ApiError,
    RemoteCluster,
    ServerAccess,
    drain,
    items_of,
    kubelet_ports,
    read_kubeconfig,
    remove,
    serving_kubelets,
)

from ..backends.join.backend import server_version
from ..backends.world.folders import own_folder
from ..story.specs import NodeSpec, PluginSpec
from .control_socket import serving
from .controls import Controls
from .nodes import LiveNodes, complain, keep_until_interrupted
from .running import About, Server, claimed, control_socket, introduce

JOINED: Final = "simkubelet/joined"
"""The label of joined nodes, by which users choose them and the next process knows those of a killed one."""
_DRAIN_S: Final = 60.0
_REMOVE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """What joins which cluster.

    Attributes:
        name: of these nodes together, for other commands.
        kubeconfig: the cluster's.
        context: of the kubeconfig; its current one where it is None.
        nodes: what they are made of.
        address: of the nodes: where the API server reaches this process.
        follows_server: the nodes' version is that of the API server.
        plugins: run on every node, each as a process.
        images: image -> the plugin that its containers are.
        is_watched: the terminal shows what happens.
        directory: where the nodes' folders are made; None for a place of their own.
    """

    name: str
    kubeconfig: Path
    context: str | None
    nodes: tuple[NodeSpec, ...]
    address: str
    follows_server: bool
    plugins: tuple[PluginSpec, ...] = ()
    images: Mapping[str, PluginSpec] = field(default_factory=dict)
    is_watched: bool = False
    directory: Path | None = None


def join(spec: JoinSpec) -> None:
    """Keep nodes in a cluster until Ctrl-C, SIGTERM or SIGHUP.

    Raises:
        Interrupted: the user ended it; nothing is left behind, unless a warning says so.
        InputError: what the user gave cannot be used; nothing is left behind.
        HostError: the API server does not answer at the start, or the machine failed.
    """
    keep_until_interrupted(_keep(spec))


async def _keep(spec: JoinSpec) -> None:
    access = read_kubeconfig(spec.kubeconfig, spec.context)
    async with AsyncExitStack() as stack:
        own = stack.enter_context(claimed(spec.name, "--name-prefix"))
        folder = own if spec.directory is None else stack.enter_context(own_folder(spec.directory))
        specs = await _checked(spec, access)
        names = [one.name for one in specs]
        agent, say = f"simkubelet-join/{spec.name}", partial(_say_whether_up, access.url)
        client = await stack.enter_async_context(ApiClient(access, agent, say))
        group = await stack.enter_async_context(asyncio.TaskGroup())
        live = LiveNodes(spec.plugins, spec.images, folder, group)
        if spec.is_watched:
            stack.enter_context(live.shown(f"nodes '{spec.name}'"))
        live.start()
        stack.push_async_callback(_said_if_refused, partial(remove, client, names), _REMOVE_S, "stay registered")
        ports = stack.enter_context(kubelet_ports(spec.address, names if access.authority else ()))
        endpoints = {name: KubeletEndpoint(spec.address) for name in names}
        endpoints |= {name: KubeletEndpoint(spec.address, port.getsockname()[1]) for name, port in ports.items()}
        versions = {one.name: version(one.kubernetes) for one in specs}
        cluster = RemoteCluster(client, versions, live.clock, live.observe, complain, {JOINED: spec.name}, endpoints)
        await stack.enter_async_context(cluster)
        if ports:
            kubelets = serving_kubelets(ports, access.authority, client, cluster, live.kubelets, complain)
            await stack.enter_async_context(kubelets)
        stack.push_async_callback(live.close)
        await live.add(specs, cluster, lambda: spec.kubeconfig.absolute())
        stack.push_async_callback(_said_if_refused, partial(drain, client, cluster, names), _DRAIN_S, "are not drained")
        controls = Controls(spec.name, live, cluster)
        await stack.enter_async_context(serving(control_socket(own), controls.perform))
        introduce(own, About(Server(access.url, access.authority), tuple(names)))
        # Who reads that nodes have joined may label them.
        await cluster.until_sent()
        _introduce(live, specs, access.url)
        await asyncio.get_running_loop().create_future()


async def _checked(spec: JoinSpec, access: ServerAccess) -> tuple[NodeSpec, ...]:
    """Return the nodes, once it is known that they can join.

    Raises:
        InputError: the server refuses the user or is too old, or a node has one of the names.
        HostError: the server does not answer.
    """
    released = await server_version(access)
    async with ApiClient(access) as client:
        await _check_free(client, [node.name for node in spec.nodes])
    return _of_minor(spec.nodes, released) if spec.follows_server else spec.nodes


def _say_whether_up(url: str, reason: str | None) -> None:
    complain(f"{url} answers again" if reason is None else f"{url} does not answer: {reason}")


async def _check_free(client: ApiClient, names: Sequence[str]) -> None:
    """Check that no node of another kind has one of the names: it would be deleted at the end.

    Raises:
        InputError: there is one.
        HostError: the server does not answer.
    """
    try:
        nodes = items_of(await client.get("/api/v1/nodes"))
    except ApiError as error:
        raise (InputError if error.status == 403 else HostError)(f"nodes cannot be listed: {error}") from None
    for metadata in (node["metadata"] for node in nodes):
        labels = metadata.get("labels")
        if metadata["name"] in names and not (isinstance(labels, dict) and JOINED in labels):
            raise InputError(f"the cluster has a node '{metadata['name']}' of its own; choose another --name-prefix")


def _of_minor(nodes: Sequence[NodeSpec], released: str) -> tuple[NodeSpec, ...]:
    """Return nodes of the minor of a server: of the newest that is simulated, where the server is newer.

    Raises:
        InputError: the server is older than all that are.
    """
    found = re.match(r"v1\.([0-9]{1,9})(?![0-9])", released)
    minors = [int(minor.removeprefix("1.")) for minor in SUPPORTED]
    if found is None or int(found[1]) < minors[0]:
        raise InputError(f"the API server is Kubernetes {released}; nodes can join {SUPPORTED[0]} and newer")
    minor = f"1.{min(int(found[1]), minors[-1])}"
    return tuple(node.model_copy(update={"kubernetes": minor}) for node in nodes)


async def _said_if_refused(work: Callable[[], Awaitable[None]], within_s: float, what: str) -> None:
    try:
        async with asyncio.timeout(within_s):
            await work()
    except TimeoutError:
        complain(f"the nodes {what}: not done within {within_s:.0f} s")
    except ApiError as error:
        complain(f"the nodes {what}: {error}")


def _introduce(live: LiveNodes, specs: Sequence[NodeSpec], url: str) -> None:
    nodes = number_of(len(specs), "node")
    click.echo(f"{nodes} joined {url}, Kubernetes {specs[0].kubernetes}; Ctrl-C drains and deletes them")
    for line in live.introductions():
        click.echo(line)
