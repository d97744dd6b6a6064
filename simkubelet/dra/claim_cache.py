"""The claims that a kubelet knows, by namespace and name.

Nothing here waits or does I/O. A claim is in the cache from the moment before its drivers are asked to prepare it until
they have unprepared it for its last pod.

Source: pkg/kubelet/cm/dra/claiminfo.go (kubernetes v1.34.4, v1.35.4, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..model.pod import PodUID
from .claim_info import ClaimInfo

__all__ = ["ClaimInfoCache"]


class ClaimInfoCache:
    """The claims by namespace and name."""

    def __init__(self, infos: Iterable[ClaimInfo] = ()) -> None:
        self._infos = {(info.namespace, info.name): info for info in infos}

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(self._infos.values())

    def add(self, info: ClaimInfo) -> None:
        self._infos[info.namespace, info.name] = info

    def find(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._infos.get((namespace, name))

    def remove(self, namespace: str, name: str) -> None:
        """Forget a claim; one that is not there may be named."""
        self._infos.pop((namespace, name), None)

    def of_pod(self, pod: PodUID) -> list[ClaimInfo]:
        """The claims that a pod uses."""
        return [info for info in self if pod in info.pods]

    def pods_with_devices(self, driver: str, devices: Iterable[tuple[str, str]]) -> list[PodUID]:
        """The pods that use one of these devices (pool, name) of a driver; sorted."""
        changed = set(devices)
        return sorted(
            {
                pod
                for info in self
                if any(owner == driver and (one.pool, one.name) in changed for owner, one in info.devices())
                for pod in info.pods
            }
        )
