"""What a kubelet's calls to plugins say in their headers; tests/oracle compares with Go's library."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest
from hpack import Decoder

from simkubelet.apis.grpcwire.frames import PREFACE, Frame, FrameReader, Type
from simkubelet.model.clock import RealClock
from simkubelet.model.version import version
from simkubelet.node_tree import name_on_node
from simkubelet.registration.plugin_client import path_authority
from simkubelet.registration.plugin_manager import PluginManager
from tests.support.patience import LIMIT_S


async def headers_of_get_info(folder: Path, release: str, name: str = "x-reg.sock") -> dict[str, str]:
    """The headers of the first call to a socket in ``plugins_registry``."""
    heard: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        split = FrameReader()
        await reader.readexactly(len(PREFACE))
        writer.write(Frame(Type.SETTINGS, 0, 0, b"").encoded())
        while not heard.done():
            split.feed(await reader.read(1 << 16))
            for frame in split.frames():
                if frame.type == Type.HEADERS:
                    decoded = Decoder().decode(frame.payload, raw=True)
                    heard.set_result({os.fsdecode(key): os.fsdecode(value) for key, value in decoded})
        writer.close()

    registry = folder / "plugins_registry"
    registry.mkdir()
    listening = await asyncio.start_unix_server(serve, registry / name)
    async with asyncio.timeout(LIMIT_S), listening, asyncio.TaskGroup() as tasks:
        manager = PluginManager(
            registry,
            {},
            version=version(release),
            clock=RealClock(rate=100),
            tasks=tasks,
            on_found=lambda socket: None,
            name_on_node=partial(name_on_node, folder),
        )
        manager.start()
        said = await heard
        await manager.stop()
    return said


@pytest.mark.parametrize(
    ("release", "authority", "library"),
    [
        pytest.param("1.26", "/var/lib/kubelet/plugins_registry/x-reg.sock", "1.56.3", id="as-it-is"),
        pytest.param("1.34", "%2Fvar%2Flib%2Fkubelet%2Fplugins_registry%2Fx-reg.sock", "1.72.1", id="escaped"),
    ],
)
async def test_get_info_says_where_the_socket_is_on_the_node(
    short_folder: Path, release: str, authority: str, library: str
) -> None:
    said = await headers_of_get_info(short_folder, release)

    assert said[":path"] == "/pluginregistration.Registration/GetInfo"
    assert said[":authority"] == authority
    assert said["user-agent"] == f"grpc-go/{library}"
    assert said["grpc-accept-encoding"] == "gzip"


async def test_first_patches_of_1_26_do_not_say_that_they_take_gzip(short_folder: Path) -> None:
    assert "grpc-accept-encoding" not in await headers_of_get_info(short_folder, "1.26.10")


@pytest.mark.parametrize(
    ("release", "end"),
    [
        pytest.param("1.26", os.fsdecode(b"/\xff.sock"), id="as-it-is"),
        pytest.param("1.34", "%2F%FF.sock", id="escaped"),
    ],
)
async def test_name_of_a_socket_need_not_be_utf_8(short_folder: Path, release: str, end: str) -> None:
    said = await headers_of_get_info(short_folder, release, os.fsdecode(b"\xff.sock"))

    assert said[":authority"].endswith(end)


def test_what_an_authority_may_have_is_not_escaped() -> None:
    assert path_authority("/a b+@[é]~!", version("1.34")) == "%2Fa%20b+@[%C3%A9]~!"
