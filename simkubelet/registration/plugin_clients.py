"""Which connection the registration server means by a resource, and by a resource on a socket.

Up to 1.36 it keeps one connection a resource, the newest: what concerns another one of the resource hits that. From
1.37 on a connection is found by resource and socket path; two on one path are not told apart.

Source: devicemanager/plugin/v1beta1/handler.go, ``registerClient``, ``deregisterClient``, ``getClient`` (kubernetes
v1.36.3, v1.37.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from ..devices.plugin_endpoints import KEYS_ENDPOINTS_BY_SOCKET
from ..model.resources import ResourceName
from ..model.version import Version

__all__ = ["PluginClients", "plugin_clients"]


class _Connection(Protocol):
    @property
    def resource(self) -> ResourceName: ...

    @property
    def socket(self) -> str: ...


C = TypeVar("C", bound=_Connection)


class PluginClients(Generic[C]):
    """The newest connection of each resource."""

    def __init__(self) -> None:
        self._clients: dict[ResourceName, list[C]] = {}

    def __iter__(self) -> Iterator[C]:
        return iter([client for clients in self._clients.values() for client in clients])

    def add(self, client: C) -> None:
        self._clients[client.resource] = [client]

    def find(self, resource: ResourceName, socket: str) -> C | None:
        """The connection that is meant, which need not be on that socket."""
        return next(iter(self._clients.get(resource, ())), None)

    def remove(self, resource: ResourceName, socket: str) -> None:
        """Forget the connection that is meant, whichever it is."""
        self._clients.pop(resource, None)


class _ClientsBySocket(PluginClients[C]):
    """All connections of each resource, in the order in which they were made."""

    def add(self, client: C) -> None:
        self._clients.setdefault(client.resource, []).append(client)

    def find(self, resource: ResourceName, socket: str) -> C | None:
        return next((client for client in self._clients.get(resource, ()) if client.socket == socket), None)

    def remove(self, resource: ResourceName, socket: str) -> None:
        others = [client for client in self._clients.get(resource, ()) if client.socket != socket]
        if others:
            self._clients[resource] = others
        else:
            self._clients.pop(resource, None)


def plugin_clients(version: Version) -> PluginClients[C]:
    """The connections of a new registration server."""
    return _ClientsBySocket() if KEYS_ENDPOINTS_BY_SOCKET.at(version) else PluginClients()
