"""The rules of every kind."""

from __future__ import annotations

from collections.abc import Mapping

from ..api.basic_strategies import basic_strategies
from ..api.rbac_strategies import rbac_strategies
from ..api.strategy import Strategy
from ..daemonsets.strategy import DaemonSetStrategy
from ..objects import Objects
from .nodes import NodeStrategy
from .pods import PodStrategy
from .priority import PRIORITY_CLASSES
from .priority_classes import PriorityClassStrategy

__all__ = ["strategies"]


def strategies(objects: Objects) -> Mapping[str, Strategy]:
    """The rules of one cluster's kinds, by the text of `Kind.resource`; admission looks into its objects."""
    return {
        **basic_strategies(),
        **rbac_strategies(),
        "daemonsets.apps": DaemonSetStrategy(),
        "nodes": NodeStrategy(),
        "pods": PodStrategy(objects),
        PRIORITY_CLASSES: PriorityClassStrategy(objects),
    }
