"""One resource of AMD GPUs: its devices, their health, their device files.

Health is looked at in beats. All resources share one row of them, a channel that all read in the original: each beat
reaches one resource, and they take turns.

Source: ROCm/k8s-device-plugin, internal/pkg/plugin/plugin.go and cmd/k8s-device-plugin/main.go (August 2026).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path

from simkubelet.apis import deviceplugin as api

from ..framework import (
    AllocationRefusedError,
    Device,
    DeviceID,
    DeviceList,
    DevicePlugin,
    Health,
    PluginOptions,
    ResourceName,
)
from .discovery import (
    NAMESPACE,
    AmdGpu,
    NamingStrategy,
    devices_of,
    find_gpus,
    has_gpu,
    has_kfd,
    read_links,
    resource_names,
)
from .exporter import exported_health
from .preference import PreferenceError, pair_weights, preferred_devices

__all__ = ["AmdNode", "AmdPlugin", "Heartbeat", "plugins_of"]

_log = logging.getLogger(__name__)


class AmdNode:
    """What all resources of a node share.

    Args:
        system: What stands for ``/sys``.
        exporter: The socket of AMD's metrics exporter, which need not be there.
        pulse_s: Seconds between looks at health; 0: none.
        on_disconnect: Called when a stream to the kubelet is over, from either side.
    """

    def __init__(self, system: Path, exporter: Path, pulse_s: int, on_disconnect: Callable[[], None]) -> None:
        self.system = system
        self.exporter = exporter
        self.heartbeat = Heartbeat(pulse_s)
        self.on_disconnect = on_disconnect


def plugins_of(node: AmdNode, strategy: NamingStrategy) -> list[AmdPlugin]:
    """One plugin for each resource; none on a node without KFD or without GPUs.

    Raises:
        FatalError: the driver is not there, or the strategy has no name for the devices.
    """
    if not has_kfd(node.system):
        return []
    gpus = find_gpus(node.system)
    weights = pair_weights(gpus.values(), read_links(node.system)) if gpus else {}
    if gpus and not weights:
        _log.error("allocator init failed. Falling back to kubelet default allocation.")
    return [AmdPlugin(name, node, gpus, weights) for name in resource_names(strategy, gpus.values())]


class AmdPlugin(DevicePlugin):
    """The devices of one resource.

    Args:
        name: Of the resource, behind ``amd.com/``.
        node: Where the devices are.
        gpus: All of the node.
        weights: Of their pairs, see `preference`; without any the kubelet chooses.
    """

    def __init__(
        self, name: str, node: AmdNode, gpus: Mapping[DeviceID, AmdGpu], weights: Mapping[tuple[int, int], int]
    ) -> None:
        self.resource_name = ResourceName(f"{NAMESPACE}/{name}")
        self.socket_name = f"{NAMESPACE}_{name}"
        self.options = PluginOptions(preferred_allocation_available=bool(weights), in_registration=True)
        self._name = name
        self._node = node
        self._known = gpus
        self._weights = weights
        self._listed: Mapping[DeviceID, AmdGpu] = {}

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """The devices found at the start, all healthy; then with each beat the same with their health."""
        self._listed = find_gpus(self._node.system)
        gpus = devices_of(self._name, self._listed.values())
        yield tuple(_device(gpu, Health.HEALTHY) for gpu in gpus)
        while True:
            await self._node.heartbeat.beat()
            otherwise = Health.HEALTHY if has_gpu(self._node.system) else Health.UNHEALTHY
            exported = await exported_health(self._node.exporter)
            yield tuple(_device(gpu, exported.get(gpu.device_id, otherwise)) for gpu in gpus)

    def stream_ended(self) -> None:
        """Report it."""
        self._node.on_disconnect()

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """Give ``/dev/kfd`` and the files of the devices; one that is not known adds nothing."""
        paths = ["/dev/kfd"]
        for device_id in device_ids:
            if (gpu := self._listed.get(device_id)) is not None:
                paths += [f"/dev/dri/card{gpu.card}", f"/dev/dri/renderD{gpu.render}"]
        specs = [api.DeviceSpec(host_path=path, container_path=path, permissions="rw") for path in paths]
        return api.ContainerAllocateResponse(devices=specs)

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> Sequence[api.ContainerAllocateResponse]:
        """One answer for each container, as `allocate` gives it, though all are the last one's, as in the original."""
        answers = [self.allocate(device_ids) for device_ids in requests]
        return [answers[-1] for _ in answers]

    def preferred(self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int) -> Sequence[DeviceID]:
        """The devices that are nearest to each other."""
        try:
            return preferred_devices(self._known, self._weights, available, required, size)
        except PreferenceError as error:
            raise AllocationRefusedError(f"unable to get preferred allocation list. Error:{error}") from error


def _device(gpu: AmdGpu, health: Health) -> Device:
    return Device(gpu.device_id, health, (gpu.numa_node,))


class Heartbeat:
    """Beats every `period_s` seconds; never with 0."""

    def __init__(self, period_s: int) -> None:
        self._period_s = period_s
        self._turn = asyncio.Lock()

    async def beat(self) -> None:
        """Wait for the next beat that nobody else takes; who has waited longest gets it."""
        if not self._period_s:
            await asyncio.Event().wait()
        async with self._turn:
            await asyncio.sleep(self._period_s)
