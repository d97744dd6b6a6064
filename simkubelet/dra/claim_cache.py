"""The claims that a kubelet knows, by namespace and name.

Nothing here waits or does I/O. A claim is in the cache from the moment before its drivers are asked to prepare it until
they have unprepared it for its last pod.

Source: pkg/kubelet/cm/dra/claiminfo.go (kubernetes v1.34.4, v1.35.4, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..model.pod import PodUID
from .claim_info import ClaimInfo
from .claim_text import UnreadClaim

__all__ = ["ClaimInfoCache"]


class ClaimInfoCache:
    """The claims by namespace and name; one that has not been read is read when it is asked for."""

    def __init__(self, claims: Iterable[ClaimInfo | UnreadClaim] = ()) -> None:
        self._claims = {(claim.namespace, claim.name): claim for claim in claims}

    def __iter__(self) -> Iterator[ClaimInfo]:
        for key, claim in self._claims.items():
            yield self._read(key, claim) if isinstance(claim, UnreadClaim) else claim

    def as_they_are(self) -> Collection[ClaimInfo | UnreadClaim]:
        """The claims, read or not."""
        return self._claims.values()

    def add(self, info: ClaimInfo) -> None:
        self._claims[info.namespace, info.name] = info

    def find(self, namespace: str, name: str) -> ClaimInfo | None:
        claim = self._claims.get((namespace, name))
        return self._read((namespace, name), claim) if isinstance(claim, UnreadClaim) else claim

    def _read(self, key: tuple[str, str], claim: UnreadClaim) -> ClaimInfo:
        info = self._claims[key] = claim.read()
        return info

    def remove(self, namespace: str, name: str) -> None:
        """Forget a claim; one that is not there may be named."""
        self._claims.pop((namespace, name), None)

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
