"""Walks the GPUs and MIG devices that NVML shows.

Source: pkg/nvlib/device/device.go (go-nvlib v0.9.1), as k8s-device-plugin v0.19.0 uses it; the error texts are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ...nvml.nvml import GpuHandle, Nvml, NvmlError, NvmlReturn

__all__ = [
    "VISITING_GPU",
    "VISITING_MIG_DEVICE",
    "DiscoveryError",
    "MigDevice",
    "failing_as",
    "has_mig_mode",
    "mig_devices",
    "mig_devices_of",
    "mig_is_enabled",
    "visible_gpus",
]

VISITING_GPU: Final = "error visiting device"
VISITING_MIG_DEVICE: Final = (
    "error visiting devices: error visiting device: error visiting device: "
    "error visiting MIG device: error visiting MIG device"
)
"""What goes before an error about one of `mig_devices`."""

_SKIPPED_NAMES: Final = frozenset(("DGX Display", "NVIDIA DGX Display"))
_NO_SUCH_MIG_DEVICE: Final = (NvmlReturn.NOT_FOUND, NvmlReturn.INVALID_ARGUMENT)


class DiscoveryError(Exception):
    """The devices could not be listed; there is no partial list."""


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device, the `mig_index`-th of its GPU; an index may have none, so indices have gaps."""

    gpu: GpuHandle
    gpu_index: int
    handle: GpuHandle
    mig_index: int

    @property
    def index(self) -> str:
        """Both indices, as the device list has them."""
        return f"{self.gpu_index}:{self.mig_index}"


def visible_gpus(nvml: Nvml) -> Iterator[tuple[int, GpuHandle]]:
    """Yield index and handle of each GPU that is not a display adapter; NVML must be initialised.

    Raises:
        DiscoveryError: any call failed.
    """
    with failing_as("error getting device count"):
        count = nvml.gpu_count()
    for index in range(count):
        with failing_as(f"error getting device handle for index '{index}'"):
            gpu = nvml.gpu_by_index(index)
        with failing_as("error checking whether device is skipped: error getting device name"):
            name = nvml.name(gpu)
        if name not in _SKIPPED_NAMES:
            yield index, gpu


def mig_devices(nvml: Nvml) -> Iterator[MigDevice]:
    """The MIG devices of all visible GPUs.

    Raises:
        DiscoveryError: any call failed.
    """
    with failing_as("error visiting devices"):
        for index, gpu in visible_gpus(nvml):
            with failing_as(f"{VISITING_GPU}: {VISITING_GPU}"):
                for mig_index, handle in mig_devices_of(nvml, gpu):
                    yield MigDevice(gpu, index, handle, mig_index)


def mig_devices_of(nvml: Nvml, gpu: GpuHandle) -> Iterator[tuple[int, GpuHandle]]:
    """Index and handle of each MIG device of one GPU.

    Raises:
        DiscoveryError: any call failed.
    """
    with failing_as("error checking if GPU is MIG capable"):
        is_capable = has_mig_mode(nvml, gpu)
    if not is_capable:
        return
    with failing_as("error getting max MIG device count"):
        count = nvml.max_mig_device_count(gpu)
    for index in range(count):
        try:
            handle = nvml.mig_device_by_index(gpu, index)
        except NvmlError as error:
            if error.code in _NO_SUCH_MIG_DEVICE:
                continue
            raise DiscoveryError(f"error getting MIG device handle at index '{index}': {error}") from error
        wrapping = "error creating new MIG device wrapper"
        with failing_as(f"{wrapping}: error checking if device is a MIG device"):
            is_mig_device = nvml.is_mig_device(handle)
        if not is_mig_device:
            raise DiscoveryError(f"{wrapping}: not a MIG device")
        yield index, handle


def has_mig_mode(nvml: Nvml, gpu: GpuHandle) -> bool:
    """Whether a GPU can be partitioned, be its MIG mode on or off.

    Raises:
        DiscoveryError: the call failed.
    """
    return _mig_mode(nvml, gpu) is not None


def mig_is_enabled(nvml: Nvml, gpu: GpuHandle) -> bool:
    """Whether a GPU's MIG mode is on; one that has none, or a library that knows none, counts as off.

    Raises:
        DiscoveryError: the call failed.
    """
    return bool(_mig_mode(nvml, gpu))


def _mig_mode(nvml: Nvml, gpu: GpuHandle) -> bool | None:
    if not nvml.has_function("nvmlDeviceGetMigMode"):
        return None
    try:
        return nvml.mig_is_enabled(gpu)
    except NvmlError as error:
        if error.code == NvmlReturn.NOT_SUPPORTED:
            return None
        raise DiscoveryError(f"error getting MIG mode: {error}") from error


@contextmanager
def failing_as(text: str) -> Iterator[None]:
    """Put `text` before the message of an error, which becomes a `DiscoveryError`."""
    try:
        yield
    except (NvmlError, DiscoveryError) as error:
        raise DiscoveryError(f"{text}: {error}") from error
