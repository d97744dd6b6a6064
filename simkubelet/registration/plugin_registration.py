"""One attempt of the kubelet to register a plugin that the plugin watcher found: dial, GetInfo, handler, verdict.

The handler of the type DevicePlugin passes plugins to the registration server.

Source: pluginmanager/operationexecutor/operation_generator.go, ``GenerateRegisterPluginFunc``;
devicemanager/plugin/v1beta1/handler.go (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ..apis.grpcwire.client import RpcError
from ..apis.pluginregistration import InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse
from ..model.version import Difference, Version
from .plugin_client import Locate, PluginChannel, as_it_is, path_authority
from .registration import RegistrationServer

__all__ = [
    "DevicePluginHandler",
    "NameOnNode",
    "PluginTypeHandler",
    "RegisteredPlugin",
    "RegistrationAttempt",
    "RegistrationFailedError",
]

_RETRIES_FAILED_REGISTRATIONS: Final = Difference(
    "a plugin whose registration through the plugin watcher fails is tried again; before, it counts as registered "
    "until its socket is recreated",
    {"1.26": False, "1.36": True},
    "pluginmanager/operationexecutor/operation_generator.go, ``GenerateRegisterPluginFunc`` (kubernetes v1.35.4, "
    "v1.36.3)",
)

_SERVICE: Final = "/pluginregistration.Registration"
# Real seconds, as plugins are real processes.
_GET_INFO_TIMEOUT_S: Final = 1.0
_NOTIFY_TIMEOUT_S: Final = 5.0


class PluginTypeHandler(Protocol):
    """The part of the kubelet that plugins of one type belong to."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        """Why a plugin is refused, None when it is not."""

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        """Take a plugin that was found valid; why that failed, None when it did not."""

    async def deregister(self, name: str, endpoint: str) -> None:
        """Give up a plugin whose socket is gone or new."""


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """A plugin in the books of the plugin manager.

    Attributes:
        socket: where it was found.
        generation: which of the sockets that were made at this path it is.
        handler: who was given it.
        name: its own name, for a device plugin its resource.
        endpoint: path of its service, as it gave it or `socket`.
    """

    socket: Path
    generation: int
    handler: PluginTypeHandler
    name: str
    endpoint: str


class RegistrationFailedError(Exception):
    """The plugin could not be registered; the message is the kubelet's log."""


NameOnNode = Callable[[Path], str]
"""Path of a socket on this host -> its path on the node."""


class Books(Protocol):
    """Where a plugin is entered between its validation and its registration."""

    def add(self, plugin: RegisteredPlugin) -> None: ...

    def remove(self, socket: Path) -> None: ...


class RegistrationAttempt:
    """Registers the plugin behind one socket.

    Args:
        socket: path of the plugin's registration server.
        generation: see `RegisteredPlugin`.
        handlers: plugin type -> handler.
        books: get the plugin as soon as it is valid, so that its socket's end is its end from then on.
        version: the minor it behaves as.
        within: the node's folder; nothing outside is reached.
        name_on_node: path of a socket on this host -> its path on the node.
    """

    def __init__(
        self,
        socket: Path,
        generation: int,
        *,
        handlers: Mapping[str, PluginTypeHandler],
        books: Books,
        version: Version,
        within: Path,
        name_on_node: NameOnNode,
    ) -> None:
        self._socket = socket
        self._within = within
        self._authority = path_authority(name_on_node(socket), version)
        self._generation = generation
        self._handlers = handlers
        self._books = books
        self._version = version

    async def run(self) -> None:
        """Register the plugin and notify it, or notify it why not.

        Raises:
            RegistrationFailedError: it was not registered, or could not be notified.
        """
        channel = PluginChannel(self._socket, self._version, within=self._within, authority=self._authority)
        try:
            await self._dial(channel)
            info = await self._get_info(channel)
            handler = self._handlers.get(info.type)
            if handler is None:
                text = f"no handler registered for plugin type: {info.type} at socket {self._socket}"
                raise self._unsent(await self._refuse(channel, f"RegisterPlugin error -- {text}"))
            await self._register(channel, handler, info)
        finally:
            await channel.close()

    async def _dial(self, channel: PluginChannel) -> None:
        try:
            await channel.dial()
        except TimeoutError:
            raise RegistrationFailedError(
                f"RegisterPlugin error -- dial failed at socket {self._socket}, "
                f"err: failed to dial socket {self._socket}, err: context deadline exceeded"
            ) from None

    async def _get_info(self, channel: PluginChannel) -> PluginInfo:
        try:
            return await channel.call(f"{_SERVICE}/GetInfo", InfoRequest(), PluginInfo, timeout_s=_GET_INFO_TIMEOUT_S)
        except RpcError as error:
            raise RegistrationFailedError(
                "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
                f"at socket {self._socket}, err: {error}"
            ) from None

    async def _register(self, channel: PluginChannel, handler: PluginTypeHandler, info: PluginInfo) -> None:
        endpoint, versions = info.endpoint or str(self._socket), tuple(info.supported_versions)
        refusal = handler.validate(info.name, endpoint, versions)
        if refusal is not None:
            text = f"RegisterPlugin error -- plugin validation failed with err: {refusal}"
            raise self._unsent(await self._refuse(channel, text))
        self._books.add(RegisteredPlugin(self._socket, self._generation, handler, info.name, endpoint))
        refusal = await handler.register(info.name, endpoint, versions)
        if refusal is not None:
            if _RETRIES_FAILED_REGISTRATIONS.at(self._version):
                self._books.remove(self._socket)
            text = f"RegisterPlugin error -- plugin registration failed with err: {refusal}"
            raise RegistrationFailedError(await self._refuse(channel, text))
        failure = await self._notify(channel, RegistrationStatus(plugin_registered=True))
        if failure is not None:
            if _RETRIES_FAILED_REGISTRATIONS.at(self._version):
                self._books.remove(self._socket)
                await handler.deregister(info.name, endpoint)
            raise RegistrationFailedError(
                f"RegisterPlugin error -- failed to send registration status at socket {self._socket}, err: {failure}"
            )

    async def _refuse(self, channel: PluginChannel, text: str) -> str:
        """Notify the plugin why it is not registered, whether it listens or not; return what the kubelet then logs."""
        return await self._notify(channel, RegistrationStatus(plugin_registered=False, error=text)) or text

    def _unsent(self, failure: str) -> RegistrationFailedError:
        # The kubelet takes its own bad news for a failure to send them.
        return RegistrationFailedError(
            f"RegisterPlugin error -- failed to send error at socket {self._socket}, err: {failure}"
        )

    async def _notify(self, channel: PluginChannel, status: RegistrationStatus) -> str | None:
        """Notify the plugin; return why that failed, None when it did not."""
        try:
            await channel.call(
                f"{_SERVICE}/NotifyRegistrationStatus",
                status,
                RegistrationStatusResponse,
                timeout_s=_NOTIFY_TIMEOUT_S,
            )
        except RpcError as error:
            return f"{status.error}: {error}"
        return None


class DevicePluginHandler:
    """Device plugins found by the plugin watcher, as clients of one registration server.

    Args:
        registration: connects to them.
        locate: where an endpoint that a plugin names is on this host.
    """

    def __init__(self, registration: RegistrationServer, locate: Locate = as_it_is) -> None:
        self._registration = registration
        self._locate = locate

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        return self._registration.validate_plugin(name, endpoint, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        return await self._registration.register_plugin(name, self._locate(endpoint))

    async def deregister(self, name: str, endpoint: str) -> None:
        await self._registration.deregister_plugin(name, self._locate(endpoint))
