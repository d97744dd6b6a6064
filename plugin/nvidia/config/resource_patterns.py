"""Which resource a device belongs to; pure.

Source: api/config/v1/resources.go, ``Matches`` (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...framework.device_plugin import ResourceName

__all__ = ["GPU_PATTERN", "GPU_RESOURCE", "ResourcePattern", "resource_of"]

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
