"""The headers of each kind of call that a kubelet makes to plugins: by Go's library of its minor, and by ours."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder

from simkubelet.apis.deviceplugin import Empty
from simkubelet.apis.grpcwire.client import RpcError
from simkubelet.apis.grpcwire.frames import PREFACE, Frame, FrameReader, Type
from simkubelet.dra.plugins import driver_authority
from simkubelet.model.version import version
from simkubelet.registration.plugin_client import PluginChannel, path_authority
from tests.support.patience import LIMIT_S

pytestmark = pytest.mark.oracle

RELEASE = version(os.environ.get("SIMKUBELET_ORACLE_VERSION", "1.34"))
Call = Coroutine[Any, Any, object]


@pytest.fixture(scope="session")
def client() -> str:
    path = os.environ.get("SIMKUBELET_ORACLE_CLIENT")
    if path is None:
        pytest.skip("SIMKUBELET_ORACLE_CLIENT is not set, as the nox session `oracle` does")
    return path


async def heard(socket: Path, call: Call) -> dict[str, str]:
    """The headers of a call to a server that then ends the connection; a time-out counts without its number."""
    headers: dict[str, str] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        split = FrameReader()
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        writer.write(Frame(Type.SETTINGS, 0, 0, b"").encoded())
        while not headers and (received := await reader.read(1 << 16)):
            split.feed(received)
            for frame in split.frames():
                if frame.type == Type.HEADERS:
                    headers.update((str(name), str(value)) for name, value in Decoder().decode(frame.payload))
        writer.close()

    async with asyncio.timeout(LIMIT_S), await asyncio.start_unix_server(serve, socket):
        await call
    return {name: "" if name == "grpc-timeout" else value for name, value in headers.items()}


async def real(client: str, kind: str, socket: Path) -> None:
    program = await asyncio.create_subprocess_exec(client, kind, str(socket))
    await program.wait()


async def ours(kind: str, socket: Path) -> None:
    path = str(socket)
    authority = {
        "watched": path_authority(path, RELEASE),
        "plugin": "localhost",
        "driver": driver_authority(path, RELEASE),
    }[kind]
    channel = PluginChannel(path, RELEASE, authority=authority)
    with suppress(RpcError):
        await channel.call("/service/Method", Empty(), Empty, timeout_s=LIMIT_S)
    await channel.close()


@pytest.mark.parametrize("kind", ["watched", "plugin", "driver"])
@pytest.mark.parametrize("name", ["reg.sock", "a b+@[é].sock"])
async def test_headers_are_those_of_the_library(client: str, kind: str, name: str) -> None:
    with tempfile.TemporaryDirectory(prefix="sk-") as folder:
        socket = Path(folder, name)
        expected = await heard(socket, real(client, kind, socket))

        assert expected
        assert await heard(socket, ours(kind, socket)) == expected
