"""A node as the cluster knows it: what schedulers, controllers and users see of it, its status among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .node_status import NodeStatus

__all__ = ["Node", "Taint"]


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away from a node that do not tolerate it; `effect` is one of the API's words."""

    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node object; the store replaces it whole at each change.

    Attributes:
        is_unschedulable: it is cordoned.
        status: what its kubelet published last.
        manifest: the whole v1 Node as the API shows it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    is_unschedulable: bool = False
    status: NodeStatus = field(default_factory=NodeStatus)
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
