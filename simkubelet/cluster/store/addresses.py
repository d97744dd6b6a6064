"""The addresses of simulated pods: all of them loopback, so that what listens on any address is reached there.

Each node has a range of 256, as a cluster's controller manager gives them out.
"""

from __future__ import annotations

from collections.abc import Container
from ipaddress import ip_network
from itertools import count
from typing import Final

__all__ = ["NodeRanges", "free_address"]

_CLUSTER: Final = ip_network("127.64.0.0/10")
_RANGE: Final = 256
_FIRST: Final = 2


class NodeRanges:
    """Gives each new node a range; after 16,384 nodes the first one comes again."""

    def __init__(self) -> None:
        self._count = count()

    def next(self) -> str:
        """The next range, as ``127.64.0.0/24``."""
        place = next(self._count) * _RANGE % _CLUSTER.num_addresses
        return f"{_CLUSTER.network_address + place}/24"


def free_address(pod_range: str, used: Container[str]) -> str:
    """The first free address of a node's range; empty where none is left, or where the node has no range."""
    if not pod_range:
        return ""
    network = ip_network(pod_range, strict=False)
    for place in range(_FIRST, network.num_addresses - 1):
        if (address := str(network.network_address + place)) not in used:
            return address
    return ""
