"""Both ends of the kubelet's gRPC services for tests: a server of a fake's methods, and a client with the calls.

A fake has a method of the name of each call, which takes the request and a `Context`. `RealServer` and `real_stub` are
ends of the grpc library, for tests whose point is that it understands ours, or that need what only it reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from simkubelet.apis import deviceplugin, pluginregistration, podresources, podresources_v1alpha1
from simkubelet.apis.grpcwire.client import ClientConnection, RpcError
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method, StreamMethod, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.patience import LIMIT_S

__all__ = [
    "DEVICE_PLUGIN",
    "POD_RESOURCES",
    "POD_RESOURCES_V1ALPHA1",
    "REGISTRATION",
    "WATCHED_REGISTRATION",
    "Answers",
    "Calls",
    "Context",
    "RealServer",
    "calls",
    "connected",
    "methods_of",
    "real_stub",
    "serve",
]


def _service(message: Any, name: str) -> ServiceDescriptor:
    found: ServiceDescriptor = message.DESCRIPTOR.file.services_by_name[name]
    return found


DEVICE_PLUGIN: Final = _service(deviceplugin.Empty, "DevicePlugin")
REGISTRATION: Final = _service(deviceplugin.Empty, "Registration")
WATCHED_REGISTRATION: Final = _service(pluginregistration.InfoRequest, "Registration")
POD_RESOURCES: Final = _service(podresources.PodResources, "PodResourcesLister")
POD_RESOURCES_V1ALPHA1: Final = _service(podresources_v1alpha1.PodResources, "PodResourcesLister")


class Context(Protocol):
    """What a method of a fake is given beside the request."""

    async def abort(self, code: Any, details: str = "") -> NoReturn:
        """Answer the call with an error."""


class _Context:
    async def abort(self, code: Code, details: str = "") -> NoReturn:
        raise CallError(code, details)


def methods_of(fake: object, service: ServiceDescriptor) -> dict[str, Method]:
    """Return the methods that a fake has of a service, by path."""
    return {_path(method): _method(fake, method) for method in service.methods}


async def serve(methods: Mapping[str, Method], path: Path) -> GrpcServer:
    """Return a server that listens."""
    server = GrpcServer(methods)
    server.listen(path)
    return server


def _path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


def _class(message: Descriptor) -> Any:
    return GetMessageClass(message)


def _method(fake: object, method: MethodDescriptor) -> Method:
    answer: Callable[[Any, Context], Any] = getattr(fake, method.name)
    read = _class(method.input_type).FromString
    if method.server_streaming:
        return StreamMethod(read, lambda request: answer(request, _Context()))
    return UnaryMethod(read, lambda request: answer(request, _Context()))


class Answers:
    """The answers of a call that has any number of them."""

    def __init__(self, answers: AsyncGenerator[Any, None]) -> None:
        self._answers = answers
        self._reading: asyncio.Task[Any] | None = None

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._answers

    async def read(self) -> Any:
        """Return the next answer, or None where the call has ended well."""
        self._reading = asyncio.ensure_future(anext(self._answers, None))
        return await self._reading

    async def cancel(self) -> None:
        """End the call."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self._answers.aclose()


class Calls:
    """The calls of a service on one connection, each a method of its name that takes a request and a timeout."""

    def __init__(self, connection: ClientConnection, service: ServiceDescriptor) -> None:
        self._connection = connection
        self._service = service

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = self._service.methods_by_name[name]
        return partial(self._stream if method.server_streaming else self._call, method)

    async def _call(self, method: MethodDescriptor, request: Any, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as in the grpc library
        received = await self._connection.call(_path(method), request.SerializeToString(), timeout)
        return _class(method.output_type).FromString(received)

    def _stream(self, method: MethodDescriptor, request: Any) -> Answers:
        return Answers(self._answers(method, request))

    async def _answers(self, method: MethodDescriptor, request: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(self._connection.stream(_path(method), request.SerializeToString())) as messages:
            async for message in messages:
                yield _class(method.output_type).FromString(message)


@asynccontextmanager
async def connected(path: Path, *, waits: bool = False) -> AsyncIterator[ClientConnection]:
    """Connect to a server, if asked for as soon as it listens.

    Raises:
        RpcError: Nobody listens.
    """
    connection = ClientConnection(str(path))
    try:
        async with asyncio.timeout(LIMIT_S):
            while not connection.is_usable:
                try:
                    await connection.open()
                except RpcError:
                    if not waits:
                        raise
                    # The other side is a process: it reports no event.
                    await asyncio.sleep(0.02)
                    connection = ClientConnection(str(path))
        yield connection
    finally:
        connection.close()
        # The socket is closed in the next turn of the event loop.
        await asyncio.sleep(0)


@asynccontextmanager
async def calls(path: Path, service: ServiceDescriptor, *, waits: bool = False) -> AsyncIterator[Calls]:
    """Give the calls of a service on a connection of their own; see `connected`."""
    async with connected(path, waits=waits) as connection:
        yield Calls(connection, service)


def real_stub(channel: Any, service: ServiceDescriptor) -> Any:
    """Return the calls of a service on a channel of the grpc library, by name."""
    stub = type("Stub", (), {})()
    for method in service.methods:
        call = channel.unary_stream if method.server_streaming else channel.unary_unary
        request, answer = _class(method.input_type), _class(method.output_type)
        setattr(stub, method.name, call(_path(method), request.SerializeToString, answer.FromString))
    return stub


class RealServer:
    """A server of the grpc library; it tells a method more about its call, as its deadline."""

    def __init__(self, fake: object, service: ServiceDescriptor) -> None:
        import grpc

        handlers = {}
        for method in service.methods:
            kind = "unary_stream" if method.server_streaming else "unary_unary"
            handler = getattr(grpc, f"{kind}_rpc_method_handler")
            read = _class(method.input_type).FromString
            handlers[method.name] = handler(getattr(fake, method.name), read, lambda answer: answer.SerializeToString())
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    async def listen(self, path: Path) -> None:
        self._server.add_insecure_port(f"unix:{path}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
