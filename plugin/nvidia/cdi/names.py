"""How the container runtime knows what it brings into a container: by CDI names; pure."""

from __future__ import annotations

from typing import Final

__all__ = ["CDI_VENDOR", "qualified_name"]

CDI_VENDOR: Final = "k8s.device-plugin.nvidia.com"
"""The vendor of all devices that NVIDIA's plugin names."""


def qualified_name(device_class: str, name: str) -> str:
    """A device's name with its kind."""
    return f"{CDI_VENDOR}/{device_class}={name}"
