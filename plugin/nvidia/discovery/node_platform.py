"""What kind of machine this is, as far as finding GPUs goes.

Source: pkg/nvlib/info/property-extractor.go and resolver.go (go-nvlib v0.9.1).
"""

from __future__ import annotations

from ctypes import CDLL
from enum import Enum, auto
from typing import Final

from ...nvml.nvml import Nvml, NvmlError, session
from .discovery import DiscoveryError, visible_gpus
from .driver_root import DriverRoot

__all__ = ["Platform", "platform_of"]

_DXCORE: Final = "libdxcore.so"
_INTEGRATED: Final = ("(nvgpu)", "NVIDIA Thor")


class Platform(Enum):
    """Where GPUs are found."""

    NVML = auto()
    TEGRA = auto()
    WSL = auto()
    UNKNOWN = auto()


def platform_of(nvml: Nvml, driver_root: DriverRoot, *, has_nvml: bool) -> Platform:
    """The platform, from the libraries and files below the driver's root and the names of the GPUs."""
    if _has_dxcore(driver_root):
        return Platform.WSL
    if not has_nvml:
        return Platform.TEGRA if _has_tegra_files(driver_root) else Platform.UNKNOWN
    return Platform.TEGRA if _has_integrated_gpu(nvml) else Platform.NVML


def _has_dxcore(driver_root: DriverRoot) -> bool:
    try:
        CDLL(driver_root.library(_DXCORE))
    except OSError:
        return False
    return True


def _has_tegra_files(driver_root: DriverRoot) -> bool:
    if driver_root.file("etc/nv_tegra_release").is_file():
        return True
    try:
        family = driver_root.file("sys/devices/soc0/family").read_bytes()
    except OSError:
        return False
    return family.lower().startswith(b"tegra")


def _has_integrated_gpu(nvml: Nvml) -> bool:
    try:
        with session(nvml):
            names = [nvml.name(gpu) for _, gpu in visible_gpus(nvml)]
    except (NvmlError, DiscoveryError):
        return False
    return any(mark in name for name in names for mark in _INTEGRATED)
