"""What is known of each device: identity and nodes from NVML, its place in the machine from sysfs.

The nodes that let a process use a MIG device are those that the driver's list of minor numbers gives.

Source: internal/rm/devices.go, ``BuildDevice``, nvml_devices.go, wsl_devices.go and internal/mig/mig-dp.go
(k8s-device-plugin v0.19.0); the error texts are the original's.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ...framework import DeviceID
from ...nvml.nvml import GpuHandle, Nvml, NvmlError
from .discovery import DiscoveryError, MigDevice, failing_as
from .resources import DXG_PATH, NvidiaDevice

__all__ = [
    "MIG_MINORS",
    "DeviceFacts",
    "MigMinorsError",
    "capability_nodes",
    "compute_instance_capability",
    "gpu_instance_capability",
]

_log = logging.getLogger(__name__)


MIG_MINORS: Final = Path("proc/driver/nvidia-caps/mig-minors")
"""Below the node's root; there is none on a machine without MIG."""

_CAPABILITIES: Final = "/proc/driver/nvidia/capabilities"
_NODE: Final = "/dev/nvidia-caps/nvidia-cap"
_ACCESS: Final = re.compile(r"gpu([0-9]+)/gi([0-9]+)(?:/ci([0-9]+))?/access\s+([0-9]+)")
_GLOBAL: Final = re.compile(r"(config|monitor)\s+([0-9]+)")


class MigMinorsError(Exception):
    """The list cannot be read; the message is the original's."""


def capability_nodes(root: Path) -> Mapping[str, str]:
    """Path of a capability → its device node; nothing where there is no list. Lines of no known form are passed over.

    Raises:
        MigMinorsError: the list is there but cannot be read.
    """
    try:
        lines = (root / MIG_MINORS).read_text().splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise MigMinorsError(
            f"error opening MIG minors file: open /{MIG_MINORS}: {(error.strerror or '').lower()}"
        ) from error
    return dict(filter(None, map(_parsed, lines)))


def gpu_instance_capability(minor: int, gpu_instance: int) -> str:
    """The path of the capability to use a GPU instance of the GPU with this minor number."""
    return f"{_CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/access"


def compute_instance_capability(minor: int, gpu_instance: int, compute_instance: int) -> str:
    """The path of the capability to use a compute instance."""
    return f"{_CAPABILITIES}/gpu{minor}/mig/gi{gpu_instance}/ci{compute_instance}/access"


def _parsed(line: str) -> tuple[str, str] | None:
    if found := _ACCESS.match(line):
        gpu, gpu_instance, compute_instance, minor = found.groups()
        if compute_instance is None:
            return gpu_instance_capability(int(gpu), int(gpu_instance)), f"{_NODE}{int(minor)}"
        path = compute_instance_capability(int(gpu), int(gpu_instance), int(compute_instance))
        return path, f"{_NODE}{int(minor)}"
    if found := _GLOBAL.match(line):
        name, minor = found.groups()
        return f"{_CAPABILITIES}/mig/{name}", f"{_NODE}{int(minor)}"
    _log.error("Skipping line in MIG minors file: unparsable line: %s", line)
    return None


_BUILDING: Final = "error building Device"
_MINOR: Final = "error getting GPU device minor number"


class DeviceFacts:
    """Describes devices of one node; NVML must be initialised meanwhile.

    `root` is where the node's root file system is seen. With `is_wsl` all GPUs share one device node.
    """

    def __init__(self, nvml: Nvml, root: Path, *, is_wsl: bool) -> None:
        self._nvml = nvml
        self._root = root
        self._is_wsl = is_wsl

    def of_gpu(self, index: int, gpu: GpuHandle) -> NvidiaDevice:
        """A whole GPU.

        Raises:
            DiscoveryError: a call failed, or the NUMA node is no number.
        """
        return self._describe(
            str(index),
            gpu,
            paths=lambda: self._gpu_paths(gpu),
            numa_node=lambda: self._numa_node(gpu),
            capability=lambda: self._capability(gpu),
        )

    def of_mig_device(self, device: MigDevice) -> NvidiaDevice:
        """A MIG device, which has its GPU's NUMA node and compute capability.

        Raises:
            DiscoveryError: a call failed, the NUMA node is no number, or the node has no capability of its instances.
        """
        return self._describe(
            device.index,
            device.handle,
            paths=lambda: self._mig_paths(device.handle),
            numa_node=lambda: self._numa_node(
                self._parent(device.handle, "error getting parent GPU device from MIG device")
            ),
            capability=lambda: self._capability(self._parent(device.handle, "failed to get parent device")),
        )

    def _describe(
        self,
        index: str,
        handle: GpuHandle,
        *,
        paths: Callable[[], tuple[str, ...]],
        numa_node: Callable[[], int | None],
        capability: Callable[[], str],
    ) -> NvidiaDevice:
        with failing_as(f"{_BUILDING}: error getting UUID device"):
            uuid = self._nvml.uuid(handle)
        with failing_as(f"{_BUILDING}: error getting device paths"):
            found_paths = paths()
        with failing_as(f"{_BUILDING}: error getting device NUMA node"):
            found_node = numa_node()
        try:
            total_memory_bytes = self._nvml.total_memory_bytes(handle)
        except NvmlError as error:
            _log.warning("Ignoring error getting device memory: %s", error)
            total_memory_bytes = 0
        with failing_as(f"{_BUILDING}: error getting device compute capability"):
            found_capability = capability()
        return NvidiaDevice(DeviceID(uuid), uuid, index, found_paths, found_node, total_memory_bytes, found_capability)

    def _parent(self, mig: GpuHandle, failure: str) -> GpuHandle:
        with failing_as(failure):
            return self._nvml.parent(mig)

    def _gpu_paths(self, gpu: GpuHandle) -> tuple[str, ...]:
        if self._is_wsl:
            return (DXG_PATH,)
        with failing_as(_MINOR):
            return (f"/dev/nvidia{self._nvml.minor_number(gpu)}",)

    def _mig_paths(self, mig: GpuHandle) -> tuple[str, ...]:
        try:
            nodes = capability_nodes(self._root)
        except MigMinorsError as error:
            raise DiscoveryError(f"error getting MIG capability device paths: {error}") from error
        with failing_as("error getting GPU Instance ID"):
            gpu_instance = self._nvml.gpu_instance_id(mig)
        with failing_as("error getting Compute Instance ID"):
            compute_instance = self._nvml.compute_instance_id(mig)
        parent = self._parent(mig, "error getting parent device")
        with failing_as(_MINOR):
            minor = self._nvml.minor_number(parent)
        first = gpu_instance_capability(minor, gpu_instance)
        second = compute_instance_capability(minor, gpu_instance, compute_instance)
        if first not in nodes or second not in nodes:
            # The original names the GPU instance in either case.
            raise DiscoveryError(f"missing MIG GPU instance capability path: {first}")
        return (f"/dev/nvidia{minor}", nodes[first], nodes[second])

    def _numa_node(self, gpu: GpuHandle) -> int | None:
        with failing_as("error getting PCI Bus Info of device"):
            bus_id = self._nvml.pci_bus_id(gpu)
        try:
            text = (self._root / "sys/bus/pci/devices" / bus_id / "numa_node").read_text().strip()
        except OSError:
            return None
        if not re.fullmatch("[+-]?[0-9]+", text):
            # The spelling of the first words is the original's.
            raise DiscoveryError(f'eror parsing value for NUMA node: strconv.Atoi: parsing "{text}": invalid syntax')
        node = int(text)
        return node if node >= 0 else None

    def _capability(self, gpu: GpuHandle) -> str:
        major, minor = self._nvml.compute_capability(gpu)
        return f"{major}.{minor}"
