"""The resources of the node: which device belongs to which, and what is known of every device; pure.

Source: api/config/v1/resources.go, ``Matches`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from ...framework import DeviceID, ResourceName

__all__ = [
    "DXG_PATH",
    "GPU_PATTERN",
    "GPU_RESOURCE",
    "NvidiaDevice",
    "NvidiaResource",
    "ResourcePattern",
    "resource_of",
]

GPU_RESOURCE: Final = ResourceName("nvidia.com/gpu")
_ANY: Final = "*"


class ResourcePattern(NamedTuple):
    """A resource, and the names of its devices: any, or all that contain the pattern."""

    pattern: str
    name: ResourceName

    def matches(self, text: str) -> bool:
        """Whether a GPU's name or a MIG device's profile belongs here.

        The original's patterns are not anchored either: ``1g.5gb`` takes the devices of ``1g.5gb+me`` too.
        """
        return self.pattern == _ANY or self.pattern in text


GPU_PATTERN: Final = ResourcePattern(_ANY, GPU_RESOURCE)


def resource_of(patterns: Sequence[ResourcePattern], text: str) -> ResourceName | None:
    """The resource of the first pattern that matches."""
    return next((pattern.name for pattern in patterns if pattern.matches(text)), None)


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
