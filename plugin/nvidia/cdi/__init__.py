"""CDI specifications: how a container runtime gives GPUs, the driver and what helps them to a container.

Every plugin names its devices by `qualified_name`; the modules below write the specifications, and only a node with a
CDI strategy loads them.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CDI_VENDOR", "qualified_name"]

CDI_VENDOR: Final = "k8s.device-plugin.nvidia.com"
"""The vendor of all devices that NVIDIA's plugin names."""


def qualified_name(device_class: str, name: str) -> str:
    """Return a device's name with its kind."""
    return f"{CDI_VENDOR}/{device_class}={name}"
