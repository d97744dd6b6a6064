"""The verbs of the story language: what a step does to the world, one class each, and the list of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from ..part import Action
from . import file_action, hardware_action, node_action, plugin_action, pod_action


def _verbs_in(module: ModuleType) -> Iterator[type[Action]]:
    """The verbs that a module declares, in its order; a class that others derive from is a base of verbs."""
    classes = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Action))
    for action in classes:
        if action.__module__ == module.__name__ and not action.__subclasses__():
            yield action


_GROUPS: Final = (pod_action, node_action, plugin_action, hardware_action, file_action)
VERBS: Final[Mapping[str, type[Action]]] = {verb.verb: verb for group in _GROUPS for verb in _verbs_in(group)}
"""Key in a story -> class, in the order in which they are shown."""

__all__ = ["VERBS"]
