"""The plugin's first call on ``kubelet.sock``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import grpc

from simkubelet.apis import deviceplugin as api

from .device_plugin import DevicePlugin

__all__ = ["RegistrationError", "register", "send"]

_DIAL_TIMEOUT_S: Final = 5.0
# A new kubelet listens on the path of the dead one: a connection shared by path would wait out its back-off. The socket
# may be seen a moment before it accepts, so the first pause between attempts is gRPC's shortest.
_CHANNEL_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.default_authority", "localhost"),
)


class RegistrationError(Exception):
    """The kubelet was not reached or refused; the message reads as a Go plugin would log it."""


async def register(plugin: DevicePlugin, kubelet_socket: Path) -> None:
    """Tell the kubelet of a plugin that already serves.

    Raises:
        RegistrationError: no kubelet, or it refused.
    """
    request = api.RegisterRequest(
        version=api.VERSION, endpoint=plugin.socket_name, resource_name=str(plugin.resource_name)
    )
    if plugin.options.in_registration:
        request.options.CopyFrom(plugin.options.to_message())
    await send(request, kubelet_socket)


async def send(request: api.RegisterRequest, kubelet_socket: Path) -> None:
    """Make one Register call; wait 5 s at most until the kubelet accepts a connection.

    The call itself has no time limit: the kubelet dials back before it answers.

    Raises:
        RegistrationError: no kubelet, or it refused.
    """
    async with grpc.aio.insecure_channel(f"unix:{kubelet_socket}", options=_CHANNEL_OPTIONS) as channel:
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT_S):
                await channel.channel_ready()
        except TimeoutError:
            raise RegistrationError("context deadline exceeded") from None
        try:
            await api.RegistrationStub(channel).Register(request)
        except grpc.aio.AioRpcError as error:
            code = "".join(word.capitalize() for word in error.code().name.split("_"))
            raise RegistrationError(f"rpc error: code = {code} desc = {error.details()}") from None
