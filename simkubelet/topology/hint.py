"""A topology hint: NUMA nodes on which a request could be served, and whether that would be as good as possible.

Source: topologymanager/topology_manager.go, ``TopologyHint`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..model.resources import ResourceName
from .numa_mask import NumaMask

__all__ = ["NO_HINT", "ProviderHints", "TopologyHint"]


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """What a provider proposes, and in merged form what a container is given.

    Attributes:
        nodes: the NUMA nodes; None for no preference.
        preferred: no smaller set of nodes could serve the request.
    """

    nodes: NumaMask | None = None
    preferred: bool = False


NO_HINT: Final = TopologyHint()
"""What a container has that was given no hint."""

ProviderHints = Mapping[ResourceName, Sequence[TopologyHint] | None]
"""What one provider knows of one request: resource -> hints.

None is a resource without preference, no hints at all (an empty sequence) one that no set of NUMA nodes can serve.
"""
