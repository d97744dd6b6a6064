"""The node context: what a kubelet is given from outside, namely time, cluster, observer and task group."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ..cluster_api import ClusterApi
from ..model.clock import Clock
from ..model.events import Observer

__all__ = ["NodeContext"]


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Shared by everything on a node, and by all nodes of a cluster.

    Attributes:
        clock: the node's time.
        cluster: the cluster it belongs to.
        observe: called with every event of the node.
        tasks: owns the loops; a failure in one ends the group.
        renews_leases: whether kubelets renew the leases of their nodes; only a cluster with controllers reads these.
    """

    clock: Clock
    cluster: ClusterApi
    observe: Observer
    tasks: asyncio.TaskGroup
    renews_leases: bool = False
