"""Finds the GPUs of the node: NVML for identity, sysfs for the place in the machine.

Source: internal/rm/device_map.go, nvml_devices.go (k8s-device-plugin v0.19.0); the error texts are the original's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .nvml import GpuHandle, Nvml, NvmlError

__all__ = ["DiscoveryError", "Gpu", "discover", "visible_gpus"]

_SKIPPED_NAMES: Final = frozenset(("DGX Display", "NVIDIA DGX Display"))


class DiscoveryError(Exception):
    """The GPUs could not be listed; there is no partial list."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One whole GPU; `index` is NVML's, `numa_node` is None where the machine does not say."""

    index: int
    uuid: str
    numa_node: int | None


def discover(nvml: Nvml, sysfs: Path) -> tuple[Gpu, ...]:
    """All GPUs in NVML's order, display adapters left out; NVML must be initialised.

    Raises:
        DiscoveryError: any call failed, or a NUMA node is no number.
    """
    try:
        return tuple(_describe(nvml, index, gpu, sysfs) for index, gpu in visible_gpus(nvml))
    except DiscoveryError as error:
        raise DiscoveryError(
            "error building device map: error building device map from config.resources: "
            f"error building GPU device map: {error}"
        ) from error


def visible_gpus(nvml: Nvml) -> Iterator[tuple[int, GpuHandle]]:
    """Index and handle of each GPU that is no display adapter.

    Raises:
        DiscoveryError: any call failed.
    """
    with _failing_as("error getting device count"):
        count = nvml.gpu_count()
    for index in range(count):
        with _failing_as(f"error getting device handle for index '{index}'"):
            gpu = nvml.gpu_by_index(index)
        with _failing_as("error checking whether device is skipped: error getting device name"):
            name = nvml.name(gpu)
        if name not in _SKIPPED_NAMES:
            yield index, gpu


def _describe(nvml: Nvml, index: int, gpu: GpuHandle, sysfs: Path) -> Gpu:
    building = "error visiting device: error building Device"
    with _failing_as(f"{building}: error getting UUID device"):
        uuid = nvml.uuid(gpu)
    numa = f"{building}: error getting device NUMA node"
    with _failing_as(f"{numa}: error getting PCI Bus Info of device"):
        bus_id = nvml.pci_bus_id(gpu)
    try:
        text = (sysfs / "bus/pci/devices" / bus_id / "numa_node").read_text()
    except OSError:
        return Gpu(index, uuid, None)
    try:
        node = int(text)
    except ValueError:
        # The spelling of the first words is the original's.
        raise DiscoveryError(
            f'{numa}: eror parsing value for NUMA node: strconv.Atoi: parsing "{text.strip()}": invalid syntax'
        ) from None
    return Gpu(index, uuid, node if node >= 0 else None)


@contextmanager
def _failing_as(text: str) -> Iterator[None]:
    try:
        yield
    except NvmlError as error:
        raise DiscoveryError(f"{text}: {error}") from error
