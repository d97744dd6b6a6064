"""The pods of a node that count: those that came to admission and have not ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from ..model.fit import PODS
from ..model.pod import Pod, PodUID
from ..model.resources import ResourceName

__all__ = ["ActivePods"]


class ActivePods(Set[PodUID]):
    """Ids of active pods, in the order of their admission, and what these pods ask for together.

    The sum is kept rather than made, so that a pod's admission costs the same on an empty node and on a full one.
    """

    def __init__(self) -> None:
        self._requests: dict[PodUID, Mapping[ResourceName, int]] = {}
        self._total: dict[ResourceName, int] = {PODS: 0}

    def __contains__(self, uid: object) -> bool:
        return uid in self._requests

    def __iter__(self) -> Iterator[PodUID]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, pod: Pod) -> None:
        """Count a pod; nothing happens when it is counted already."""
        if pod.uid not in self._requests:
            self._requests[pod.uid] = {PODS: 1, **pod.requests()}
            for name, amount in self._requests[pod.uid].items():
                self._total[name] = self._total.get(name, 0) + amount

    def discard(self, uid: PodUID) -> None:
        """Count a pod no longer."""
        for name, amount in self._requests.pop(uid, {}).items():
            self._total[name] -= amount

    def requested_by_others(self, uid: PodUID) -> dict[ResourceName, int]:
        """Resource -> what all pods but this one ask for together, with their number under `fit.PODS`."""
        own = self._requests.get(uid, {})
        return {name: amount - own.get(name, 0) for name, amount in self._total.items()}
