"""The resource ``nvidia.com/gpu``: whole GPUs, named to the container in its environment or to its runtime by CDI.

The original also writes the CDI specification that the names stand in, this one leaves it to the node's owner.

Source: internal/plugin/server.go, internal/rm/nvml_manager.go, internal/cdi (k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import ClassVar

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
from .aligned_allocation import aligned_set
from .discovery import Gpu
from .health import failing_gpus
from .link_graph import LinkGraph, LinkGraphError, read_link_graph
from .nvml import Nvml, NvmlError, session
from .settings import DeviceIdStrategy, NvidiaSettings
from .xid_policy import XidPolicy

__all__ = ["NvidiaPlugin"]

_CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
_PREFERENCE_FAILED = "error getting list of preferred allocation devices"


class NvidiaPlugin(DevicePlugin):
    """The GPUs of one discovery; a GPU that failed stays unhealthy until the next discovery."""

    resource_name: ClassVar[ResourceName] = ResourceName("nvidia.com/gpu")
    socket_name: ClassVar[str] = "nvidia-gpu.sock"
    options: ClassVar[PluginOptions] = PluginOptions(preferred_allocation_available=True, in_registration=True)

    def __init__(self, nvml: Nvml, gpus: Sequence[Gpu], settings: NvidiaSettings, xids: XidPolicy) -> None:
        self._nvml = nvml
        self._gpus = {DeviceID(gpu.uuid): gpu for gpu in gpus}
        self._settings = settings
        self._xids = xids

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """All GPUs as healthy, once no failure can be missed any more, then again after each failure."""
        unhealthy: set[str] = set()
        failures = failing_gpus(
            self._nvml, list(self._gpus.values()), self._xids, fail_on_init_error=self._settings.fail_on_init_error
        )
        async with aclosing(failures):
            async for uuids in failures:
                unhealthy |= uuids
                yield self._list(unhealthy)

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """Name the GPUs, each once, in the order asked, as the strategies say; health does not matter.

        Raises:
            AllocationRefusedError: an id is not one of ours.
        """
        for device_id in device_ids:
            if device_id not in self._gpus:
                raise AllocationRefusedError(
                    f'invalid allocation request for "{self.resource_name}": invalid request: '
                    f"unknown device: {device_id}"
                )
        names = dict.fromkeys(self._runtime_name(device_id) for device_id in device_ids)
        strategies = self._settings.device_list_strategies
        visible = {"NVIDIA_VISIBLE_DEVICES": ",".join(names)} if "envvar" in strategies else {}
        cdi = [api.CDIDevice(name=f"{_CDI_KIND}={name}") for name in names if "cdi-cri" in strategies]
        return api.ContainerAllocateResponse(envs=self._modes() | visible, cdi_devices=cdi)

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        """The aligned policy over links read anew; an unsolvable request gets an empty list.

        Raises:
            AllocationRefusedError: the links cannot be read, or an id is not one of ours.
        """
        try:
            with session(self._nvml):
                graph = read_link_graph(self._nvml)
        except NvmlError as error:
            raise AllocationRefusedError(
                f"{_PREFERENCE_FAILED}: unable to get device link information: error calling nvml.Init: {error}"
            ) from error
        except LinkGraphError as error:
            raise AllocationRefusedError(
                f"{_PREFERENCE_FAILED}: unable to get device link information: {error}"
            ) from error
        chosen = aligned_set(
            _positions(graph, available, "available"), _positions(graph, required, "required"), size, graph.scores
        )
        return [DeviceID(graph.uuids[position]) for position in chosen]

    def _list(self, unhealthy: set[str]) -> DeviceList:
        return tuple(
            Device(
                device_id,
                Health.UNHEALTHY if gpu.uuid in unhealthy else Health.HEALTHY,
                () if gpu.numa_node is None else (gpu.numa_node,),
            )
            for device_id, gpu in self._gpus.items()
        )

    def _runtime_name(self, device_id: DeviceID) -> str:
        if self._settings.device_id_strategy == DeviceIdStrategy.INDEX:
            return str(self._gpus[device_id].index)
        return device_id

    def _modes(self) -> dict[str, str]:
        modes = {
            "NVIDIA_GDRCOPY": self._settings.gdrcopy_enabled,
            "NVIDIA_GDS": self._settings.gds_enabled,
            "NVIDIA_MOFED": self._settings.mofed_enabled,
        }
        return {name: "enabled" for name, is_enabled in modes.items() if is_enabled}


def _positions(graph: LinkGraph, device_ids: Sequence[DeviceID], role: str) -> list[int]:
    positions = {uuid: position for position, uuid in enumerate(graph.uuids)}
    for device_id in device_ids:
        if device_id not in positions:
            raise AllocationRefusedError(
                f"{_PREFERENCE_FAILED}: unable to retrieve list of {role} devices: no device with uuid: {device_id}"
            )
    return [positions[device_id] for device_id in device_ids]
