"""The resources of the node: which devices each has, and what is known of every device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from ...framework.device_plugin import DeviceID, ResourceName

__all__ = ["DXG_PATH", "NvidiaDevice", "NvidiaResource"]

DXG_PATH: Final = "/dev/dxg"
"""The one device node of all GPUs of a machine that is Windows with WSL."""


@dataclass(frozen=True, slots=True)
class NvidiaDevice:
    """One device as the kubelet may give it away: a GPU, a MIG device, or a replica of either.

    `paths` are its device nodes below ``/dev``: of a MIG device the GPU's and those of its two instances; none of a
    Tegra device. `compute_capability` is ``major.minor``, a MIG device has the GPU's.
    """

    device_id: DeviceID
    uuid: str
    index: str
    paths: tuple[str, ...]
    numa_node: int | None
    total_memory_bytes: int
    compute_capability: str
    replicas: int = 0
    """How often its GPU or MIG device is offered; 0 where it is not shared."""

    @property
    def is_mig(self) -> bool:
        """Whether this is a MIG device; its index is ``<gpu>:<mig device>``."""
        return ":" in self.index

    @property
    def is_full_gpu(self) -> bool:
        """Whether its place beside other GPUs can be known."""
        return not self.is_mig and DXG_PATH not in self.paths


class NvidiaResource(NamedTuple):
    """A resource with at least one device, in the order in which they were found.

    `is_tegra` says that there is no NVML behind it, so no health and no knowledge of links.
    """

    name: ResourceName
    devices: Mapping[DeviceID, NvidiaDevice]
    is_tegra: bool = False

    @classmethod
    def of(cls, name: ResourceName, devices: list[NvidiaDevice], *, is_tegra: bool = False) -> NvidiaResource:
        """A resource of these devices; of two with one id the later counts, in the place of the first."""
        return cls(name, MappingProxyType({device.device_id: device for device in devices}), is_tegra)
