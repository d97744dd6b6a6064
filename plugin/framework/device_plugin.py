"""What a vendor writes: the devices of one resource, what allocates them, and the resource's options."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from difflib import get_close_matches
from enum import StrEnum
from inspect import isfunction, unwrap
from types import MappingProxyType
from typing import Final, NamedTuple, NewType, TypeAlias

from simkubelet.apis import deviceplugin as api

from ..errors import UsageError

__all__ = [
    "AllocationRefusedError",
    "Device",
    "DeviceID",
    "DeviceList",
    "DevicePlugin",
    "Health",
    "PluginOptions",
    "ResourceName",
    "StartError",
    "check_methods",
]

DeviceID = NewType("DeviceID", str)
ResourceName = NewType("ResourceName", str)


class Health(StrEnum):
    """Whether the kubelet may give the device to a new container; the values are the wire's."""

    HEALTHY = api.HEALTHY
    UNHEALTHY = api.UNHEALTHY


class Device(NamedTuple):
    """A device with its health; `numa_nodes` is empty when nothing is known about its place in the machine."""

    device_id: DeviceID
    health: Health = Health.HEALTHY
    numa_nodes: tuple[int, ...] = ()

    def to_message(self) -> api.Device:
        """The device as it goes into ListAndWatch; without NUMA nodes it has no topology at all."""
        message = api.Device(ID=self.device_id, health=self.health)
        if self.numa_nodes:
            message.topology.nodes.extend(api.NUMANode(ID=node) for node in self.numa_nodes)
        return message


DeviceList: TypeAlias = tuple[Device, ...]
"""All devices of one resource at one moment, in the order in which they are listed."""


class AllocationRefusedError(Exception):
    """The plugin will not allocate; the message reaches the kubelet with gRPC code UNKNOWN, as from a Go plugin."""


class StartError(Exception):
    """The plugin cannot start at present; its `RestartPolicy` says what follows."""


class PluginOptions(NamedTuple):
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

    resource_name: ResourceName
    socket_name: str = ""
    """Where it serves, in the kubelet's folder; without one each start has a name of its own.

    From 1.37 on a kubelet refuses a second instance on a name that is connected, which an update of a DaemonSet brings.
    """
    options: PluginOptions = PluginOptions()
    last_list: DeviceList | None = None
    """What every stream gets when the plugin stops, before the stream ends; without one streams break off."""

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """What stands around serving: entered before the socket is made, left when it is gone, as a rule by cancelling.

        Raises:
            StartError: the plugin cannot start at present.
            FatalError: it never will.
        """
        return nullcontext()

    @abstractmethod
    def devices(self) -> AsyncGenerator[DeviceList, None]:
        """Yield every list of devices that the kubelet should know, the first one at once.

        Iterated once; closed when the plugin stops. An error that it raises ends the plugin.
        """

    async def allocate_all(self, requests: Sequence[Sequence[DeviceID]]) -> Sequence[api.ContainerAllocateResponse]:
        """What the containers of one Allocate call need, one answer for each, in order; a kubelet asks for one.

        Raises:
            AllocationRefusedError: the devices cannot be given; the pod fails at admission.
        """
        return [self.allocate(device_ids) for device_ids in requests]

    def allocate(self, device_ids: Sequence[DeviceID]) -> api.ContainerAllocateResponse:
        """What one container needs to use the devices, which come in the kubelet's order.

        Raises:
            AllocationRefusedError: the devices cannot be given; the pod fails at admission.
        """
        raise NotImplementedError

    def preferred(
        self, available: Sequence[DeviceID], required: Sequence[DeviceID], size: int
    ) -> Sequence[DeviceID] | None:
        """Which `size` of the available devices fit best together; None: no answer for any container.

        Called in a thread other than the event loop's, several calls at once where the kubelet makes several.

        Raises:
            AllocationRefusedError: the question cannot be answered; the pod fails at admission.
        """
        return None

    async def pre_start(self, device_ids: Sequence[DeviceID]) -> None:
        """Get devices ready for a container that is about to start, each time that it starts.

        Asked where `options` has ``pre_start_required``; the kubelet waits 30 s.

        Raises:
            AllocationRefusedError: they cannot be; the container does not start, and the kubelet tries again.
        """
        return

    def stream_ended(self) -> None:
        """A ListAndWatch stream of this plugin is over, from either side."""
        return


_CALLS: Final = MappingProxyType(
    {
        "listandwatch": "devices",
        "getdevicepluginoptions": "options",
        "getpreferredallocation": "preferred",
        "prestartcontainer": "pre_start",
    }
)
"""The kubelet's calls, as methods would be named after them -> what stands for them here."""


def check_methods(plugin: DevicePlugin) -> None:
    """Refuse methods that somebody may take for hooks, and that nothing calls; others are the plugin's own affair.

    Raises:
        UsageError: There is one, of the plugin's own class or of one between that and `DevicePlugin`.
    """
    for kind in type(plugin).__mro__:
        if kind is DevicePlugin:
            return
        for name, method in vars(kind).items():
            if isfunction(method) and (meant := _meant(name)):
                code = unwrap(method).__code__
                raise UsageError(
                    f"{code.co_filename}:{code.co_firstlineno}: nothing calls {kind.__name__}.{name}: is it to be "
                    f"'{meant}'? begin the names of methods of your own with an underscore"
                )


def _meant(name: str) -> str | None:
    """The hook that an unknown public method is probably meant to be."""
    hooks = [hook for hook, method in vars(DevicePlugin).items() if isfunction(method)]
    if name in hooks or name.startswith("_"):
        return None
    word = name.lower().replace("_", "")
    # Without `devices` there is no plugin, so that a method of a similar name is another.
    similar = get_close_matches(word, [hook for hook in hooks if hook != "devices"])
    return _CALLS.get(word) or next(iter(similar), None)
