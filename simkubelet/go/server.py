"""gRPC servers that answer as Go's do: what cannot be read and what is not served is refused in their words.

Two things stay the library's own: the text for a message above 4 MiB, and what it takes for protobuf at the edges
(unknown groups in more than a hundred others, numbers of more than 64 bits in unknown fields, field 0 of a message
without fields).

Source: google.golang.org/grpc v1.72.1, server.go, ``processUnaryRPC``, ``handleStream``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from ..open_files import check_room
from ..version import Version
from .message import UnreadableMessageError, read_message
from .text import quoted

__all__ = ["Context", "MethodHandler", "go_server", "listen", "method_handler"]

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


def go_server(services: Mapping[str, dict[str, MethodHandler]]) -> grpc.aio.Server:
    """A server that is not started yet: service -> method -> handler."""
    server = grpc.aio.server()
    served = (grpc.method_handlers_generic_handler(service, methods) for service, methods in services.items())
    server.add_generic_rpc_handlers((*served, _UnknownCalls(services.keys())))
    return server


def listen(server: grpc.aio.Server, address: str) -> None:
    """Have a server listen.

    Raises:
        OSError: no file can be opened any more.
        RuntimeError: gRPC cannot use the address, and does not say why.
    """
    try:
        server.add_insecure_port(address)
    except RuntimeError:
        check_room()
        raise


def method_handler(request: type[Q], method: Callable[[Q, Context], Awaitable[A]], version: Version) -> MethodHandler:
    """A method with one message each way, served by a kubelet of some version."""

    async def answer(message: bytes, context: Context) -> bytes:
        try:
            asked = read_message(request, message, version)
        except UnreadableMessageError as error:
            await context.abort(grpc.StatusCode.INTERNAL, f"grpc: error unmarshalling request: {error}")
        return (await method(asked, context)).SerializeToString()

    return grpc.unary_unary_rpc_method_handler(answer)


class _UnknownCalls(grpc.GenericRpcHandler):
    """Refuses the calls that no handler takes; of a service that is served, only the method is unknown."""

    def __init__(self, services: Container[str]) -> None:
        self._services = services

    def service(self, call: grpc.HandlerCallDetails) -> MethodHandler:
        text = self._refusal(call.method)

        async def refuse(message: bytes, context: Context) -> NoReturn:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)

        return grpc.unary_unary_rpc_method_handler(refuse)

    def _refusal(self, path: str) -> str:
        service, slash, method = path.removeprefix("/").rpartition("/")
        if not slash:
            return f"malformed method name: {quoted(path)}"
        if service in self._services:
            return f"unknown method {method} for service {service}"
        return f"unknown service {service}"
