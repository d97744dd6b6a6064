"""Which plugin of a resource the device manager calls, and what remains when a plugin leaves.

Up to 1.36 there is one place a resource, the newest plugin's: whoever of the resource's plugins leaves, the devices
are lost. From 1.37 on each socket has its place, and the devices are lost with the last one.

Source: devicemanager/manager.go, ``PluginConnected``, ``PluginDisconnected`` (kubernetes v1.36.3, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..apis.deviceplugin import DevicePluginOptions
from ..model.resources import ResourceName
from ..model.version import Difference, Version
from .endpoint import Endpoint

__all__ = ["KEYS_ENDPOINTS_BY_SOCKET", "AlreadyConnectedError", "PluginEndpoints", "Registered", "plugin_endpoints"]

KEYS_ENDPOINTS_BY_SOCKET: Final = Difference(
    "plugins of one resource on several sockets exist side by side; before, the newest replaces the others",
    {"1.26": False, "1.37": True},
    "devicemanager/manager.go, ``PluginConnected``, ``PluginDisconnected``; plugin/v1beta1/handler.go (kubernetes "
    "v1.36.3, v1.37.0)",
)


class AlreadyConnectedError(Exception):
    """A plugin registered on a socket whose last plugin has not left yet; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The endpoint that is called for a resource; `options` is None for one restored from a checkpoint."""

    endpoint: Endpoint
    options: DevicePluginOptions | None


class PluginEndpoints(Mapping[ResourceName, Registered]):
    """Resource -> the endpoint that is called: that of the plugin that registered last."""

    def __init__(self) -> None:
        self._called: dict[ResourceName, Registered] = {}

    def __getitem__(self, resource: ResourceName) -> Registered:
        return self._called[resource]

    def __iter__(self) -> Iterator[ResourceName]:
        return iter(self._called)

    def __len__(self) -> int:
        return len(self._called)

    def restore(self, resource: ResourceName, now: float) -> None:
        """A checkpoint names the resource: it counts as left by its plugin now."""
        self._called[resource] = Registered(Endpoint(resource, None, stop_time=now), None)

    def connect(self, registered: Registered) -> None:
        """A plugin registered.

        Raises:
            AlreadyConnectedError: its socket is taken.
        """
        self._called[registered.endpoint.resource] = registered

    def disconnect(self, resource: ResourceName, socket: str, now: float) -> bool:
        """A plugin left; whether the resource's devices are lost by it."""
        registered = self._called.get(resource)
        if registered is None:
            return False
        registered.endpoint.stop_time = now
        return True

    def forget(self, resource: ResourceName) -> None:
        """The resource's grace period is over."""
        self._called.pop(resource, None)


class _EndpointsBySocket(PluginEndpoints):
    """One place for each socket of a resource; a place stays taken until its plugin's leaving has been told."""

    def __init__(self) -> None:
        super().__init__()
        self._by_socket: dict[ResourceName, dict[str, Registered]] = {}

    def connect(self, registered: Registered) -> None:
        socket = registered.endpoint.socket
        taken = self._by_socket.setdefault(registered.endpoint.resource, {})
        if socket in taken:
            raise AlreadyConnectedError(f"device plugin already connected: {socket}")
        taken[socket] = registered
        super().connect(registered)

    def disconnect(self, resource: ResourceName, socket: str, now: float) -> bool:
        taken = self._by_socket.get(resource, {})
        left = taken.pop(socket, None)
        if left is None:
            return False
        left.endpoint.stop_time = now
        if not taken:
            del self._by_socket[resource]
            return True
        # The kubelet takes any of the others.
        self._called[resource] = next(reversed(taken.values()))
        return False


def plugin_endpoints(version: Version) -> PluginEndpoints:
    """The endpoints of a new device manager."""
    return _EndpointsBySocket() if KEYS_ENDPOINTS_BY_SOCKET.at(version) else PluginEndpoints()
