"""Commands about NUMA nodes: the topology manager's settings, the device manager's hints, what follows from both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..model.pod import PodUID
from ..topology.hint import ProviderHints, TopologyHint
from ..topology.numa_mask import nodes_in, numa_mask
from .command import Answer, CommandTable
from .node import Node
from .request import Fields

__all__ = ["commands"]

commands: Final = CommandTable()


@commands.add("policy", "scope", "options", "numa", "distances", needs_manager=False)
async def do_topology(node: Node, fields: Fields) -> Answer:
    """The topology manager's settings for the next start: start's own fields under short names."""
    node.settings = node.settings.with_topology(fields)
    return {}


@commands.add("pod", "container")
async def do_topology_hints(node: Node, fields: Fields) -> Answer:
    """On which NUMA nodes a container's devices could be, by resource; null for one that does not care."""
    pod, container = node.pods.container(fields.text("pod"), fields.text("container"))
    return {"hints": _hints(node.manager.hints.container_hints(pod, container))}


@commands.add("pod")
async def do_pod_topology_hints(node: Node, fields: Fields) -> Answer:
    """The same for all that a pod asks for at one time."""
    return {"hints": _hints(node.manager.hints.pod_hints(node.pods.pod(fields.text("pod"))))}


@commands.add("pod", "container", "nodes", "preferred", needs_manager=False)
async def do_set_affinity(node: Node, fields: Fields) -> Answer:
    """Say on which NUMA nodes a container's devices should be, whatever the topology manager says; null for any."""
    nodes = numa_mask(fields.numa_nodes("nodes")) if "nodes" in fields else None
    hint = TopologyHint(nodes, preferred=fields.flag("preferred", default=False))
    node.set_affinity(PodUID(fields.text("pod")), fields.text("container"), hint)
    return {}


@commands.add("pod", "container")
async def do_get_affinity(node: Node, fields: Fields) -> Answer:
    """On which NUMA nodes a container's devices should be; nodes is null for any."""
    return _hint(node.manager.affinities.get_affinity(PodUID(fields.text("pod")), fields.text("container")))


def _hints(hints: ProviderHints) -> dict[str, Any]:
    return {name: None if of_resource is None else _sorted(of_resource) for name, of_resource in hints.items()}


def _sorted(hints: Sequence[TopologyHint]) -> list[Answer]:
    # By their text, as [0,1] before [0].
    return sorted((_hint(hint) for hint in hints), key=lambda hint: f"{hint['nodes']},".replace(" ", ""))


def _hint(hint: TopologyHint) -> Answer:
    nodes = None if hint.nodes is None else list(nodes_in(hint.nodes))
    return {"nodes": nodes, "preferred": hint.preferred}
