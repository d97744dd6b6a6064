"""Why a pod cannot go to a node."""

from __future__ import annotations

from dataclasses import dataclass

from .plugins import Plugin

__all__ = ["Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A plugin's no.

    Attributes:
        reasons: in the words of users' events.
        is_resolvable: fewer pods on the node could turn it into a yes.
    """

    plugin: Plugin
    reasons: tuple[str, ...]
    is_resolvable: bool = False
