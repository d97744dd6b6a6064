"""What a container is given for its GPUs: variables, mounts, device nodes, annotations and CDI names.

Each list strategy adds its part to one answer. With CDI strategies alone there is neither a variable that lists the
GPUs nor a device node, as the container runtime adds all of that.

Source: internal/plugin/server.go, ``getAllocateResponse``, and internal/rm/rm.go, ``ValidateRequest``
(k8s-device-plugin v0.19.0).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from ..framework import AllocationRefusedError, DeviceID
from ..preference import is_replica, replicated_id
from .cdi import qualified_name
from .config.settings import DeviceIdStrategy, DeviceListStrategy, NvidiaSettings, SharingStrategy
from .discovery.node import ImexChannel, join
from .discovery.resources import NvidiaResource
from .mps.mps import MpsSharing

__all__ = ["Allocator"]

_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
_IMEX_CHANNELS: Final = "NVIDIA_IMEX_CHANNELS"
_LIST_FOLDER: Final = "/var/run/nvidia-container-devices"
_CONTROL_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


@dataclass(frozen=True, slots=True)
class Allocator:
    """Answers for the devices of one resource.

    `cdi_modes` are the optional modes, such as ``gds``, that the CDI specifications have something for; `mps` is None
    where GPUs are not shared by MPS; `on_host` says where this process sees a path of the node.
    """

    resource: NvidiaResource
    settings: NvidiaSettings
    on_host: Callable[[Path], Path]
    imex_channels: tuple[ImexChannel, ...] = ()
    cdi_modes: tuple[str, ...] = ()
    mps: MpsSharing | None = None

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """What one container gets; each GPU counts once, in the order asked, and its health does not matter.

        Raises:
            AllocationRefusedError: an id is not one of ours, or several are requested where GPUs are shared and only
                one is allowed.
        """
        self._validate(device_ids)
        names = self._runtime_names(device_ids)
        response = api.ContainerAllocateResponse()
        if self.settings.any_cdi:
            self._name_for_cdi(response, names)
        if self.mps is not None:
            self.mps.add_to(response)
        response.envs.update(self._modes())
        if self.settings.only_cdi:
            return response
        strategies = self.settings.device_list_strategies
        if DeviceListStrategy.ENVVAR in strategies:
            self._list_in_variables(response, names)
        if DeviceListStrategy.VOLUME_MOUNTS in strategies:
            self._list_in_mounts(response, names)
        if self.settings.pass_device_specs:
            response.devices.extend(self._device_specs(device_ids))
        return response

    def _validate(self, device_ids: Sequence[DeviceID]) -> None:
        for device_id in device_ids:
            if device_id not in self.resource.devices:
                raise self._refusal(f"unknown device: {device_id}")
        sharing = self.settings.sharing
        if (
            len(device_ids) > 1
            and sharing.strategy is not SharingStrategy.NONE
            and sharing.fail_requests_greater_than_one
            and any(map(is_replica, device_ids))
        ):
            raise self._refusal(f"maximum request size for shared resources is 1; found {len(device_ids)}")

    def _refusal(self, reason: str) -> AllocationRefusedError:
        return AllocationRefusedError(
            f'invalid allocation request for "{self.resource.name}": invalid request: {reason}'
        )

    def _runtime_names(self, device_ids: Sequence[DeviceID]) -> list[str]:
        """How the container runtime knows the GPUs, each once."""
        if self.settings.device_id_strategy == DeviceIdStrategy.INDEX:
            return list(dict.fromkeys(self.resource.devices[device_id].index for device_id in device_ids))
        return list(dict.fromkeys(map(replicated_id, device_ids)))

    def _name_for_cdi(self, response: api.ContainerAllocateResponse, names: Sequence[str]) -> None:
        qualified = [
            *(qualified_name("gpu", name) for name in names),
            *(qualified_name("imex-channel", channel.channel_id) for channel in self.imex_channels),
            *(qualified_name(mode, "all") for mode in self.cdi_modes),
        ]
        if not qualified:
            return
        strategies = self.settings.device_list_strategies
        if DeviceListStrategy.CDI_ANNOTATIONS in strategies:
            key = f"{self.settings.cdi_annotation_prefix}nvidia-device-plugin_{uuid.uuid4()}"
            response.annotations[key] = ",".join(qualified)
        if DeviceListStrategy.CDI_CRI in strategies:
            response.cdi_devices.extend(api.CDIDevice(name=name) for name in qualified)

    def _modes(self) -> dict[str, str]:
        modes = {
            "NVIDIA_GDRCOPY": self.settings.gdrcopy_enabled,
            "NVIDIA_GDS": self.settings.gds_enabled,
            "NVIDIA_MOFED": self.settings.mofed_enabled,
        }
        return {name: "enabled" for name, is_enabled in modes.items() if is_enabled}

    def _list_in_variables(self, response: api.ContainerAllocateResponse, names: Sequence[str]) -> None:
        response.envs[_VISIBLE_DEVICES] = ",".join(names)
        if self.imex_channels:
            response.envs[_IMEX_CHANNELS] = ",".join(channel.channel_id for channel in self.imex_channels)

    def _list_in_mounts(self, response: api.ContainerAllocateResponse, names: Sequence[str]) -> None:
        response.envs[_VISIBLE_DEVICES] = _LIST_FOLDER
        folders = [*names, *(f"imex/{channel.channel_id}" for channel in self.imex_channels)]
        response.mounts.extend(
            api.Mount(host_path="/dev/null", container_path=join(_LIST_FOLDER, folder)) for folder in folders
        )

    def _device_specs(self, device_ids: Sequence[DeviceID]) -> Iterator[api.DeviceSpec]:
        for path in (*self._control_nodes(), *self._paths(device_ids), *(node.path for node in self.imex_channels)):
            yield api.DeviceSpec(
                container_path=path, host_path=join(self.settings.nvidia_dev_root, path), permissions="rw"
            )

    def _control_nodes(self) -> Iterator[str]:
        """Those that this process sees; the dev root counts for their host paths only, as in the original."""
        if not self.resource.is_tegra:
            yield from (path for path in _CONTROL_NODES if self.on_host(Path(path)).exists())

    def _paths(self, device_ids: Sequence[DeviceID]) -> Iterator[str]:
        if not self.resource.is_tegra:
            for device_id in dict.fromkeys(device_ids):
                yield from self.resource.devices[device_id].paths
