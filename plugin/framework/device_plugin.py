"""What a vendor writes: the device source, the allocator and the options of one resource."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from simkubelet.apis import deviceplugin as api

from .device import DeviceID, DeviceList, ResourceName

__all__ = ["AllocationRefusedError", "DevicePlugin", "PluginOptions"]


class AllocationRefusedError(Exception):
    """The plugin will not allocate; the message reaches the kubelet with gRPC code UNKNOWN, as from a Go plugin."""


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Which optional calls the kubelet makes.

    `in_registration` says whether RegisterRequest carries the options too; the kubelet ignores them there.
    """

    pre_start_required: bool = False
    preferred_allocation_available: bool = False
    in_registration: bool = False

    def to_message(self) -> api.DevicePluginOptions:
        """The options as GetDevicePluginOptions answers them."""
        return api.DevicePluginOptions(
            pre_start_required=self.pre_start_required,
            get_preferred_allocation_available=self.preferred_allocation_available,
        )


class DevicePlugin(ABC):
    """One resource of one node, for one registration: after a restart a new object takes over."""

    resource_name: ClassVar[ResourceName]
    socket_name: ClassVar[str]
    options: ClassVar[PluginOptions] = PluginOptions()

    @abstractmethod
    def devices(self) -> AsyncGenerator[DeviceList, None]:
        """Every list of devices that the kubelet shall know, the first one at once.

        Iterated once; closed when the plugin stops. An error that it raises ends the plugin.
        """

    @abstractmethod
    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """What one container needs to use the devices, which come in the kubelet's order.

        Raises:
            AllocationRefusedError: the devices cannot be given; the pod fails at admission.
        """

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        """Which `size` of the available devices fit best together; None: no answer for any container.

        Called in a thread other than the event loop's, several calls at once where the kubelet makes several.

        Raises:
            AllocationRefusedError: the question cannot be answered; the pod fails at admission.
        """
        return None
