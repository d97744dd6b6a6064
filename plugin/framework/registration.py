"""The plugin's first call on ``kubelet.sock``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simkubelet.apis import deviceplugin as api

from .device_plugin import DevicePlugin, StartError
from .grpc_client import DialError, RpcError, call_once

__all__ = ["RegistrationError", "register", "send"]

_REGISTER: Final = "/v1beta1.Registration/Register"
_DIAL_TIMEOUT_S: Final = 5.0


class RegistrationError(StartError):
    """The kubelet was not reached or refused; the message reads as a Go plugin would log it."""


async def register(plugin: DevicePlugin, kubelet_socket: Path) -> None:
    """Register a plugin that already serves with the kubelet.

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
    try:
        await call_once(kubelet_socket, _REGISTER, request.SerializeToString(), _DIAL_TIMEOUT_S)
    except DialError:
        raise RegistrationError("context deadline exceeded") from None
    except RpcError as error:
        raise RegistrationError(str(error)) from None
