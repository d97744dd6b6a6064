"""The settings of one run of the device manager, as ``start``, ``restart`` and ``topology`` give them.

What a command leaves out stays as the last one left it, as in a kubelet that is restarted with its configuration. A
machine whose NUMA nodes no command has given has none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..model.pod import PodUID
from ..model.topology_settings import TopologySettings
from .request import Fields, RequestError

__all__ = ["RunSettings"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the device manager is started.

    Attributes:
        are_sources_ready: whether all pods of the node have been seen.
        running: (pod, container) of all that the container runtime reports as running.
        topology: the topology manager's settings, and the machine's NUMA nodes.
    """

    are_sources_ready: bool = False
    running: Collection[tuple[PodUID, str]] = ()
    topology: TopologySettings = field(default_factory=lambda: TopologySettings(numa_nodes=()))

    def changed(self, fields: Fields) -> RunSettings:
        """These settings with what the fields of ``start`` or ``restart`` give.

        Raises:
            RequestError: a field is not of its type, or distances do not fit the NUMA nodes.
            InputError: the kubelet refuses the topology manager's settings.
        """
        return RunSettings(
            fields.flag("sources_ready", self.are_sources_ready),
            _running(fields.objects("running")) if "running" in fields else self.running,
            self.with_topology(fields, prefix="topology_").topology,
        )

    def with_topology(self, fields: Fields, *, prefix: str = "") -> RunSettings:
        """These settings with what the fields say of the topology manager. Raises as `changed`."""
        old = self.topology
        nodes = fields.numa_nodes("numa") if "numa" in fields else old.numa_nodes
        distances = old.distances
        if "distances" in fields:
            distances = _distances(nodes, fields.rows("distances"))
        elif nodes != old.numa_nodes:
            distances = _distances(nodes, [[10 if one == other else 20 for other in nodes] for one in nodes])
        topology = TopologySettings(
            policy=fields.text(f"{prefix}policy", old.policy),
            scope=fields.text(f"{prefix}scope", old.scope),
            options=_texts(fields.mapping(f"{prefix}options", old.options)),
            numa_nodes=nodes,
            distances=distances,
        )
        return replace(self, topology=topology)


def _running(containers: Sequence[Fields]) -> Collection[tuple[PodUID, str]]:
    return {
        (PodUID(container.text("pod_uid")), container.text("container"))
        for container in containers
        if container.flag("running", default=True)
    }


def _texts(options: Mapping[str, object]) -> Mapping[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _distances(nodes: Sequence[int], rows: Sequence[Sequence[int]]) -> Mapping[int, Sequence[int]]:
    """Rows by place in `nodes` as rows by number, as the machine reports them."""
    if len(rows) != len(nodes) or any(len(row) != len(nodes) for row in rows):
        raise RequestError(f"distances: give one row for each of {len(nodes)} NUMA nodes, with one number for each")
    by_number: dict[int, list[int]] = {}
    for node, row in zip(nodes, rows, strict=True):
        told = by_number[node] = [0] * (max(nodes) + 1)
        for other, distance in zip(nodes, row, strict=True):
            told[other] = distance
    return by_number
