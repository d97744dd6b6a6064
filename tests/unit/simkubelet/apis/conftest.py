"""A server whose methods do with their requests what their names say, and a channel of gRPC's own client to it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.frames import Frame, Type
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, StreamMethod, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.patience import LIMIT_S

_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
CHANNEL = [("grpc.use_local_subchannel_pool", 1), *_UNLIMITED]
SETTINGS = Frame(Type.SETTINGS, 0, 0, b"").encoded()


class Served:
    """A service: each method does with its request what its name says."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.waits = asyncio.Event()

    def server(self) -> GrpcServer:
        return GrpcServer(
            {
                "/test.Echo/Echo": UnaryMethod(api.AllocateRequest.FromString, self._echo),
                "/test.Echo/Refuse": UnaryMethod(api.Empty.FromString, self._refuse),
                "/test.Echo/Break": UnaryMethod(api.Empty.FromString, self._break),
                "/test.Echo/Long": UnaryMethod(api.Empty.FromString, self._long),
                "/test.Echo/Wait": UnaryMethod(api.Empty.FromString, self._wait),
                "/test.Echo/Each": StreamMethod(api.ContainerAllocateRequest.FromString, self._each),
                "/test.Echo/Never": StreamMethod(api.Empty.FromString, self._never),
            }
        )

    async def _echo(self, request: api.AllocateRequest) -> api.AllocateRequest:
        return request

    async def _refuse(self, request: api.Empty) -> api.Empty:
        raise CallError(Code.NOT_FOUND, "näh: 100%\n")

    async def _break(self, request: api.Empty) -> api.Empty:
        raise KeyError("a mistake")

    async def _long(self, request: api.Empty) -> api.CDIDevice:
        return api.CDIDevice(name="x" * (5 << 20))

    async def _wait(self, request: api.Empty) -> api.Empty:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("Wait")
        return request

    async def _each(self, request: api.ContainerAllocateRequest) -> AsyncGenerator[api.CDIDevice, None]:
        for device in request.devices_ids:
            yield api.CDIDevice(name=device)

    async def _never(self, request: api.Empty) -> AsyncGenerator[api.Empty, None]:
        yield api.Empty()
        self.waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("Never")


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="grpc-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Served]:
    served = Served()
    server = served.server()
    server.listen(folder / "s")
    try:
        async with asyncio.timeout(LIMIT_S):
            yield served
    finally:
        await server.stop()
        (folder / "s").unlink()


@pytest.fixture
async def served(folder: Path) -> AsyncIterator[Served]:
    async with serving(folder) as service:
        yield service


@pytest.fixture
async def channel(served: Served, folder: Path) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{folder}/s", options=CHANNEL) as connected:
        yield connected


def request_for(*ids: str) -> bytes:
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)]).SerializeToString()
