"""The rules of every kind."""

from __future__ import annotations

from collections.abc import Mapping

from ..api.registry.strategy import Strategy
from ..objects.objects import Objects
from .basic_strategies import basic_strategies
from .daemonsets import DaemonSetStrategy
from .nodes import NodeStrategy
from .pods import PodStrategy
from .priority import PRIORITY_CLASSES
from .priority_classes import PriorityClassStrategy
from .rbac_strategies import rbac_strategies

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
