"""The public names of this package, which users import from `simkubelet.testing`."""

from __future__ import annotations

from .blocking import Cluster, Node, Plugin, running_cluster, running_node
from .cluster import AsyncCluster
from .failure import ExpectationError
from .machine import running_machine
from .node import AsyncNode
from .plugin import AsyncPlugin
from .story import PlayedStory

__all__ = [
    "AsyncCluster",
    "AsyncNode",
    "AsyncPlugin",
    "Cluster",
    "ExpectationError",
    "Node",
    "PlayedStory",
    "Plugin",
    "running_cluster",
    "running_machine",
    "running_node",
]
