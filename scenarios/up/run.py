"""``simkubelet up`` behind its options: a cluster, its kubeconfig and its control socket, until the user ends it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from simkubelet.host import raise_limit
from simkubelet.model.errors import SimkubeletError

from ..backends.world.node import new_folder, removed_at_end
from ..evaluation.verdict import single_errors
from ..interruption import run_interruptibly
from . import place
from .cluster import ClusterSpec, LiveCluster
from .control import serving

__all__ = ["Where", "run"]


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
        if (told := errors.subgroup((SimkubeletError, OSError))) is None:
            raise
        first = next(single_errors(told))
    # Not within `except`, where it would lose what led to it.
    raise first


async def _keep(spec: ClusterSpec, where: Where) -> None:
    async with AsyncExitStack() as stack:
        own = stack.enter_context(place.claimed(spec.name))
        kubeconfig = where.kubeconfig or place.kubeconfig(own)
        folder = own
        if where.directory is not None:
            folder = stack.enter_context(removed_at_end(new_folder(where.directory)))
        cluster = await stack.enter_async_context(LiveCluster(spec, folder))
        stack.enter_context(place.written(kubeconfig, yaml.safe_dump(cluster.api.kubeconfig(), sort_keys=False)))
        await stack.enter_async_context(serving(place.control_socket(own), cluster.perform))
        _introduce(cluster, spec, kubeconfig)
        await asyncio.get_running_loop().create_future()


def _introduce(cluster: LiveCluster, spec: ClusterSpec, kubeconfig: Path) -> None:
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
