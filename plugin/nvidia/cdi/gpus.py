"""The GPUs and MIG devices of the node as CDI devices: a container with one of them gets its device nodes.

A GPU in MIG mode has no device of its own, its MIG devices do. Where a driver brings libnvidia-sandboxutils the
original asks that for the nodes; they are the same.

Source: pkg/nvcdi/lib-nvml.go, full-gpu-nvml.go, mig-device-nvml.go and internal/platform-support/dgpu
(nvidia-container-toolkit v1.19.0); the error texts are the original's.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from simkubelet.apis.cdi import CdiDevice, ContainerEdits, DeviceNode, Hook

from ...nvml.nvml import GpuHandle, Nvml, NvmlError, NvmlReturn
from ..config.settings import DeviceIdStrategy
from ..discovery.device_facts import (
    MIG_MINORS,
    MigMinorsError,
    capability_nodes,
    compute_instance_capability,
    gpu_instance_capability,
)
from ..discovery.discovery import (
    VISITING_GPU,
    VISITING_MIG_DEVICE,
    DiscoveryError,
    failing_as,
    mig_devices,
    mig_is_enabled,
    visible_gpus,
)
from ..discovery.node import join
from .hooks import HookMaker
from .node_files import CdiError, NodeFiles

__all__ = ["GpuDevices"]

_log = logging.getLogger(__name__)

_PCI_DEVICES: Final = "/sys/bus/pci/devices"
_EDITS: Final = "failed to get CDI device edits"
_DISCOVERER: Final = f"{_EDITS}: failed to create device discoverer"


@dataclass(frozen=True, slots=True)
class GpuDevices:
    """Describes the devices; NVML must be initialised meanwhile.

    `dev` has the files below the root of the device nodes, `names_by` says how devices are named; `tells_coherence`
    whether a GPU reports that it shares its page tables with the CPU.
    """

    nvml: Nvml
    dev: NodeFiles
    hooks: HookMaker
    names_by: str
    tells_coherence: bool = False

    def devices(self) -> tuple[CdiDevice, ...]:
        """GPUs without MIG mode, then MIG devices.

        Raises:
            CdiError: a call failed, or the capability of a MIG device is not on the node.
        """
        try:
            return (*self._gpus(), *self._mig_devices())
        except DiscoveryError as error:
            raise CdiError(str(error)) from error

    def _gpus(self) -> Iterator[CdiDevice]:
        found: list[tuple[int, GpuHandle, str]] = []
        with failing_as("failed to construct device spec generators: failed to get full GPU device editors"):
            for index, gpu in visible_gpus(self.nvml):
                with failing_as(VISITING_GPU):
                    if not mig_is_enabled(self.nvml, gpu):
                        with failing_as("failed to get device UUID"):
                            found.append((index, gpu, self.nvml.uuid(gpu)))
        for index, gpu, uuid in found:
            yield CdiDevice(self._name(str(index), uuid), self._annotations(gpu), self._gpu_edits(gpu))

    def _mig_devices(self) -> Iterator[CdiDevice]:
        found: list[tuple[str, str, GpuHandle, GpuHandle]] = []
        with failing_as("failed to construct device spec generators: failed to get MIG device editors"):
            for device in mig_devices(self.nvml):
                with failing_as(f"{VISITING_MIG_DEVICE}: failed to get MIG UUID"):
                    found.append((device.index, self.nvml.uuid(device.handle), device.gpu, device.handle))
        for index, uuid, gpu, handle in found:
            yield CdiDevice(
                self._name(index, uuid), container_edits=ContainerEdits(device_nodes=self._mig_nodes(gpu, handle))
            )

    def _name(self, index: str, uuid: str) -> str:
        return index if self.names_by == DeviceIdStrategy.INDEX else uuid

    def _annotations(self, gpu: GpuHandle) -> Mapping[str, str]:
        if not self.tells_coherence:
            return {}
        try:
            return {"gpu.nvidia.com/coherent": str(self._is_coherent(gpu)).lower()}
        except NvmlError as error:
            _log.warning("Ignoring error getting device annotations: %s", error)
            return {}

    def _is_coherent(self, gpu: GpuHandle) -> bool:
        if not self.nvml.has_function("nvmlDeviceGetAddressingMode"):
            return False
        try:
            return self.nvml.addresses_coherently(gpu)
        except NvmlError as error:
            if error.code == NvmlReturn.NOT_SUPPORTED:
                return False
            raise

    def _gpu_edits(self, gpu: GpuHandle) -> ContainerEdits:
        node = self._gpu_node(gpu)
        with failing_as(f"{_DISCOVERER}: error getting PCI info for device: error getting PCI info"):
            bus_id = self.nvml.pci_bus_id(gpu)
        drawing = self._root.find("*", (f"{_PCI_DEVICES}/{bus_id}/drm",), lambda _: True)
        nodes = self.dev.nodes([node, *(f"/dev/dri/{posixpath.basename(path)}" for path in drawing)])
        return ContainerEdits(device_nodes=nodes, hooks=self._links_by_path(bus_id, nodes))

    def _links_by_path(self, bus_id: str, nodes: tuple[DeviceNode, ...]) -> tuple[Hook, ...]:
        """The links of ``/dev/dri/by-path`` that lead to nodes of the GPU."""
        taken = {node.host_path or node.path for node in nodes}
        links = []
        for kind in ("card", "render"):
            link = join(self.dev.root, f"/dev/dri/by-path/pci-{bus_id}-{kind}")
            try:
                target = str(self.dev.seen(link).readlink())
            except OSError:
                continue
            if (target if target.startswith("/") else join(posixpath.dirname(link), target)) in taken:
                links.append(f"{target}::{link}")
        return self.hooks.symlinks(links)

    def _mig_nodes(self, gpu: GpuHandle, handle: GpuHandle) -> tuple[DeviceNode, ...]:
        nodes = self._capability_nodes()
        placement = f"{_DISCOVERER}: error getting placement info"
        with failing_as(f"{placement}: error getting GPU minor"):
            minor = self.nvml.minor_number(gpu)
        with failing_as(f"{placement}: error getting GPU Instance ID"):
            gpu_instance = self.nvml.gpu_instance_id(handle)
        with failing_as(f"{placement}: error getting Compute Instance ID"):
            compute_instance = self.nvml.compute_instance_id(handle)
        instance = f"gpu{minor}/gi{gpu_instance}"
        wanted = {
            f"GI cap device path: invalid MIG capability path {instance}/access": gpu_instance_capability(
                minor, gpu_instance
            ),
            f"CI cap device path: invalid MIG capability path {instance}/ci{compute_instance}/access": (
                compute_instance_capability(minor, gpu_instance, compute_instance)
            ),
        }
        for missing, capability in wanted.items():
            if capability not in nodes:
                raise CdiError(f"{_DISCOVERER}: failed to get {missing}")
        return self.dev.nodes([self._gpu_node(gpu), *(nodes[capability] for capability in wanted.values())])

    def _capability_nodes(self) -> dict[str, str]:
        failure = f"{_DISCOVERER}: error getting MIG capability device paths"
        if not self._root.seen(f"/{MIG_MINORS}").exists():
            raise CdiError(f"{failure}: <nil>")
        try:
            return dict(capability_nodes(self._root.seen("/")))
        except MigMinorsError as error:
            raise CdiError(f"{failure}: {error}") from error

    def _gpu_node(self, gpu: GpuHandle) -> str:
        with failing_as(f"{_DISCOVERER}: error getting device node path: error getting GPU device minor number"):
            return f"/dev/nvidia{self.nvml.minor_number(gpu)}"

    @property
    def _root(self) -> NodeFiles:
        return NodeFiles("/", self.dev.on_host)
