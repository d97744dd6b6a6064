"""What a kubelet knows of a claim of its pods: who uses it, and which devices its drivers have prepared.

Source: pkg/kubelet/cm/dra/claiminfo.go, state/state.go (kubernetes v1.34.4, v1.35.4, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..model.pod import PodUID

__all__ = ["ClaimInfo", "PreparedDevice"]


class PreparedDevice(NamedTuple):
    """A device of a claim, as its driver described it.

    Lists are None where the driver left them out, which a checkpoint keeps apart from empty ones.

    Attributes:
        pool: the driver's name for the devices that it belongs to.
        name: within the pool.
        requests: of the claim, those that it satisfies; none: all.
        cdi_ids: the devices that a container runtime adds.
        share_id: of a device that several claims share; None for others, and before 1.35.
    """

    pool: str
    name: str
    requests: Sequence[str] | None = None
    cdi_ids: Sequence[str] | None = None
    share_id: str | None = None


@dataclass(slots=True)
class ClaimInfo:
    """One claim.

    Attributes:
        pods: the pods that use it, in the order in which they came.
        drivers: driver -> its prepared devices, in the order of its answers; None before it has answered.
        is_prepared: whether all drivers have prepared it since the kubelet started.
        is_being_unprepared: whether its drivers are asked to unprepare it; see `manager.REFUSES_LEAVING_CLAIMS`.
    """

    uid: str
    name: str
    namespace: str
    pods: dict[PodUID, None] = field(default_factory=dict)
    drivers: dict[str, tuple[PreparedDevice, ...] | None] = field(default_factory=dict)
    is_prepared: bool = False
    is_being_unprepared: bool = False

    @classmethod
    def of(cls, claim: Mapping[str, Any]) -> ClaimInfo | None:
        """What is to be known of a ResourceClaim; None for one that is not allocated."""
        metadata, status = claim["metadata"], claim.get("status") or {}
        allocation = status.get("allocation")
        if allocation is None:
            return None
        results = (allocation.get("devices") or {}).get("results") or ()
        drivers: dict[str, tuple[PreparedDevice, ...] | None] = {str(one.get("driver", "")): None for one in results}
        namespace = str(metadata.get("namespace", ""))
        return cls(str(metadata.get("uid", "")), str(metadata["name"]), namespace, drivers=drivers)

    def add_devices(self, driver: str, devices: Iterable[PreparedDevice]) -> None:
        """Add to the devices that a driver has prepared; a list that stays empty is None."""
        self.drivers[driver] = (*(self.drivers.get(driver) or ()), *devices) or self.drivers.get(driver)

    def devices(self) -> Iterator[tuple[str, PreparedDevice]]:
        """Each device with its driver."""
        for driver, devices in self.drivers.items():
            for device in devices or ():
                yield driver, device

    def cdi_ids(self, request: str) -> list[str]:
        """The CDI devices that a container gets for a request of the claim; of all requests where it is empty."""
        return [
            cdi_id
            for _, device in self.devices()
            if not request or not device.requests or request in device.requests
            for cdi_id in device.cdi_ids or ()
        ]
