"""What a kubelet finds around it: time, the cluster, an observer, an owner for its tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ..cluster.store.store import Store
from ..model.clock import Clock
from ..model.events import Observer

__all__ = ["Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Shared by everything on a node, and by all nodes of a cluster.

    Attributes:
        clock: the node's time.
        store: the cluster it belongs to.
        observe: told of everything that happens on the node.
        tasks: owns the loops; a failure in one ends the group.
        renews_leases: the cluster's controllers look for the nodes' leases, so kubelets write them.
    """

    clock: Clock
    store: Store
    observe: Observer
    tasks: asyncio.TaskGroup
    renews_leases: bool = False
