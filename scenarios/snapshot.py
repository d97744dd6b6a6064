"""What a story's world looks like at one moment: the observations that every backend offers, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PluginState(StrEnum):
    """What a plugin's supervisor says about its process."""

    RUNNING = "running"
    WAITING = "waiting"
    """Ended, and to be started again when its back-off is over."""
    EXITED = "exited"
    """Ended for good."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node's published status; a resource that the status does not name is absent, which is not 0."""

    name: str
    kubernetes: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A Kubernetes Event about a pod."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod object and what its containers were given.

    Attributes:
        node: Where it is bound; empty while it is not.
        devices: Container -> resource -> sorted device ids.
        env: Container -> name -> value, as far as plugins added them.
        events: Oldest first.
    """

    name: str
    phase: str
    reason: str
    message: str
    node: str
    devices: Mapping[str, Mapping[str, tuple[str, ...]]]
    env: Mapping[str, Mapping[str, str]]
    events: tuple[PodEvent, ...]

    def held(self) -> dict[str, tuple[str, ...]]:
        """Resource -> sorted ids that the pod's containers hold together; resources without a device are left out."""
        together: dict[str, set[str]] = {}
        for resources in self.devices.values():
            for resource, ids in resources.items():
                together.setdefault(resource, set()).update(ids)
        return {resource: tuple(sorted(ids)) for resource, ids in sorted(together.items()) if ids}


@dataclass(frozen=True, slots=True)
class PluginView:
    """A plugin seen by its supervisor: starts after the first one, and Register calls accepted over all its lives."""

    name: str
    node: str
    state: PluginState
    restarts: int
    registrations: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that can be observed at one moment: nodes and pods by name, and each plugin once for each node."""

    nodes: Mapping[str, NodeView]
    pods: Mapping[str, PodView]
    plugins: tuple[PluginView, ...]
