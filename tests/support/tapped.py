"""A tap under test: a kubelet's folder, a plugin's, the tap between them, and gRPC servers and clients of bytes."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest

from scenarios.tap.tap import Tap
from tests.support.patience import until
from tests.support.short_paths import short_place

PLUGIN: Final = "/v1beta1.DevicePlugin/"
REGISTER: Final = "/v1beta1.Registration/Register"
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
)

Context = grpc.aio.ServicerContext[Any, Any]
Answer = Callable[[bytes, Context], Any]


class ByteServer(grpc.GenericRpcHandler):
    """Serves every method on a socket: `answers` has what is done, a unary answer where there is none is the request.

    An answer that is an async generator function makes a stream.
    """

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.answers: dict[str, Answer] = {}
        self.streams: set[str] = {f"{PLUGIN}ListAndWatch"}
        self.metadata: list[tuple[str, Any]] = []
        self.seen: list[tuple[str, bytes]] = []
        self.given_up = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        if call.method in self.streams:
            return grpc.unary_stream_rpc_method_handler(partial(self._stream, call))
        return grpc.unary_unary_rpc_method_handler(partial(self._answer, call))

    async def start(self) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        await self._server.start()

    async def stop(self, grace_s: float | None = None) -> None:
        if self._server is not None:
            await self._server.stop(grace_s)

    def _note(self, call: grpc.HandlerCallDetails, request: bytes) -> None:
        self.seen.append((call.method, request))
        self.metadata = sorted((key, value) for key, value in call.invocation_metadata)

    async def _answer(self, call: grpc.HandlerCallDetails, request: bytes, context: Context) -> bytes:
        self._note(call, request)
        answer = self.answers.get(call.method)
        try:
            return request if answer is None else await answer(request, context)
        except asyncio.CancelledError:
            self.given_up.set()
            raise

    async def _stream(self, call: grpc.HandlerCallDetails, request: bytes, context: Context) -> AsyncIterator[bytes]:
        self._note(call, request)
        try:
            async for message in self.answers[call.method](request, context):
                yield message
        except asyncio.CancelledError:
            self.given_up.set()
            raise


def channel(socket: Path) -> Any:
    """A channel of bytes; without a type, as gRPC's know no bytes."""
    return grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)


@dataclass
class Between:
    """A tap between a plugin and a kubelet; `reports` has its reports of calls, `links` those of connections.

    What it says of the messages themselves is in `judged`.
    """

    folder: Path
    reports: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    judged: list[dict[str, Any]] = field(default_factory=list)
    servers: list[ByteServer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.of_plugin, self.of_kubelet = self.folder / "p", self.folder / "k"
        self.of_kubelet.mkdir()
        self.tap = Tap(self.of_plugin, self.of_kubelet, self._record)

    def _record(self, report: Mapping[str, Any]) -> None:
        is_of_links = not {"process", "connections"}.isdisjoint(report)
        is_judgement = not {"options", "breach"}.isdisjoint(report)
        (self.links if is_of_links else self.judged if is_judgement else self.reports).append(dict(report))

    async def serve(self, socket: Path) -> ByteServer:
        """Serve a socket, and wait until the tap mirrors it."""
        server = ByteServer(socket)
        self.servers.append(server)
        await server.start()
        await until(self.mirror_of(socket).exists)
        return server

    async def plugin(self, name: str = "p.sock") -> ByteServer:
        return await self.serve(self.of_plugin / name)

    async def kubelet(self) -> ByteServer:
        return await self.serve(self.of_kubelet / "kubelet.sock")

    def mirror_of(self, socket: Path) -> Path:
        return (self.of_kubelet if socket.parent == self.of_plugin else self.of_plugin) / socket.name

    def channel_to(self, server: ByteServer) -> Any:
        """A channel through the tap."""
        return channel(self.mirror_of(server.socket))

    async def close(self) -> None:
        await self.tap.close()
        for server in self.servers:
            await server.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tap-", dir=short_place()))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def between(folder: Path) -> AsyncIterator[Between]:
    made = Between(folder)
    made.tap.start()
    yield made
    await made.close()
