"""Sockets on either side of a tap appear and vanish together, and nothing is left of any of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from scenarios.tap import link, mirrored_sockets
from scenarios.tap.tap import Tap
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.inotify import Mask, PathEvent
from tests.support.patience import until
from tests.support.tapped import PLUGIN, REGISTER, Between, ByteServer, Context, channel

CUTS = 200


async def test_plugins_socket_appears_for_the_kubelet_and_vanishes_with_its_server(between: Between) -> None:
    plugin = await between.plugin()
    assert (between.of_kubelet / "p.sock").is_socket()

    plugin.socket.unlink()

    await until(lambda: not (between.of_kubelet / "p.sock").exists())


async def test_kubelet_that_clears_its_folder_takes_the_plugins_socket_away(between: Between) -> None:
    plugin = await between.plugin()

    (between.of_kubelet / "p.sock").unlink()

    await until(lambda: not plugin.socket.exists())


async def test_new_kubelet_is_a_new_socket_for_the_plugin(between: Between) -> None:
    first = await between.kubelet()
    before = (between.of_plugin / "kubelet.sock").stat()
    await first.stop()
    await until(lambda: not (between.of_plugin / "kubelet.sock").exists())

    second = await between.kubelet()
    after = (between.of_plugin / "kubelet.sock").stat()
    assert (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns)
    async with between.channel_to(second) as to:
        assert await to.unary_unary("/v1beta1.Registration/Register")(b"x") == b"x"


async def test_plugin_that_takes_its_path_again_is_reached(between: Between) -> None:
    for number in range(20):
        plugin = await between.plugin()
        async with between.channel_to(plugin) as to:
            assert await to.unary_unary(f"{PLUGIN}Allocate")(bytes([number]), wait_for_ready=True) == bytes([number])
        await plugin.stop()
        await until(lambda: not (between.of_kubelet / "p.sock").exists())


async def test_newest_of_two_plugins_on_one_name_is_the_one_that_the_kubelet_finds(between: Between) -> None:
    other = Tap(between.folder / "p2", between.of_kubelet, lambda report: None)
    other.start()
    first = await between.plugin()
    second = ByteServer(between.folder / "p2" / "p.sock")
    between.servers.append(second)
    await second.start()

    await until(lambda: not first.socket.exists())
    async with between.channel_to(first) as to:
        await to.unary_unary(f"{PLUGIN}Allocate")(b"x", wait_for_ready=True)
    assert (first.seen, len(second.seen)) == ([], 1)
    await other.close()
    assert not between.mirror_of(first.socket).exists()


async def test_plugin_whose_socket_the_kubelet_finds_is_tapped(folder: Path) -> None:
    reports: list[Any] = []
    of_kubelet, registry = folder / "k", folder / "registry"
    of_kubelet.mkdir()
    registry.mkdir()
    tap = Tap(folder / "p", of_kubelet, reports.append, (folder / "found", registry))
    tap.start()
    plugin = ByteServer(folder / "found" / "p.sock")
    await plugin.start()

    await until((registry / "p.sock").exists)
    async with channel(registry / "p.sock") as to:
        await to.unary_unary(f"{PLUGIN}Allocate")(b"", wait_for_ready=True)

    assert {"called": "Allocate", "devices": []} in reports
    assert tap.plugin_sockets == ("p.sock",)
    await plugin.stop()
    await until(lambda: not (registry / "p.sock").exists())
    await tap.close()


async def test_plugin_with_sockets_in_folders_is_tapped(folder: Path) -> None:
    reports: list[Any] = []
    of_kubelet, registry = folder / "k", folder / "registry"
    of_kubelet.mkdir()
    registry.mkdir()
    (folder / "found" / "before").mkdir(parents=True)
    tap = Tap(folder / "p", of_kubelet, reports.append, (folder / "found", registry))
    tap.start()
    (folder / "found" / "a" / "b").mkdir(parents=True)

    for place in "before/p.sock", "a/b/q.sock":
        plugin = ByteServer(folder / "found" / place)
        await plugin.start()
        await until((registry / place).exists)
        async with channel(registry / place) as to:
            await to.unary_unary(f"{PLUGIN}Allocate")(b"", wait_for_ready=True)
        if place.startswith("before"):
            await plugin.stop()
            await until(lambda: not (registry / "before").exists())
    assert reports.count({"called": "Allocate", "devices": []}) == 2
    assert tap.plugin_sockets == ("q.sock",)

    (folder / "found" / "a").rename(folder / "elsewhere")
    await until(lambda: list(registry.iterdir()) == [])
    (folder / "elsewhere").rename(folder / "found" / "again")
    await until((registry / "again/b/q.sock").exists)
    await plugin.stop()
    await tap.close()
    assert list(registry.iterdir()) == []


async def test_plugin_that_makes_folders_without_end_has_some_of_them_watched(folder: Path) -> None:
    of_kubelet, registry = folder / "k", folder / "registry"
    for one in (of_kubelet, registry, folder / "found"):
        one.mkdir()
    tap = Tap(folder / "p", of_kubelet, lambda report: None, (folder / "found", registry))
    tap.start()

    for number in range(110):
        (folder / "found" / str(number)).mkdir()
    plugin = ByteServer(folder / "found" / "p.sock")
    await plugin.start()
    await until((registry / "p.sock").exists)

    assert len(tap._sockets[1]._folders) == 100
    await plugin.stop()
    await tap.close()


async def test_folders_behind_links_are_not_looked_into(folder: Path) -> None:
    of_kubelet, registry, others = folder / "k", folder / "registry", folder / "others"
    for one in (of_kubelet, registry, others, folder / "found"):
        one.mkdir()
    other = ByteServer(others / "p.sock")
    await other.start()
    (folder / "found" / "linked").symlink_to(others)
    (registry / "taken").symlink_to(others)
    (folder / "found" / "taken").mkdir()
    tap = Tap(folder / "p", of_kubelet, lambda report: None, (folder / "found", registry))
    tap.start()
    own = [ByteServer(folder / "found" / place) for place in ("taken/q.sock", "r.sock")]
    for one in own:
        await one.start()

    await until((registry / "r.sock").exists)

    assert sorted(path.name for path in registry.iterdir()) == ["r.sock", "taken"]
    assert [path.name for path in others.iterdir()] == ["p.sock"]
    await tap.close()
    for one in (other, *own):
        await one.stop()


async def test_connection_to_a_plugin_that_is_gone_is_refused(between: Between) -> None:
    plugin = await between.plugin()
    mirror = between.mirror_of(plugin.socket)
    os.link(plugin.socket, between.folder / "kept")
    await plugin.stop()
    os.link(between.folder / "kept", plugin.socket)
    await until(mirror.exists)

    async with channel(mirror) as to:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await to.unary_unary(f"{PLUGIN}Allocate")(b"")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_sockets_that_are_left_in_the_plugins_folder_are_cleared(folder: Path) -> None:
    made = Between(folder)
    made.of_plugin.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(made.of_plugin / "old.sock"))
    (made.of_plugin / "notes").mkdir()

    made.tap.start()

    assert [path.name for path in made.of_plugin.iterdir()] == ["notes"]
    await made.close()


async def test_closed_tap_leaves_no_socket_and_no_connection(between: Between) -> None:
    plugin, kubelet = await between.plugin(), await between.kubelet()
    async with between.channel_to(plugin) as to:
        call = to.unary_unary(f"{PLUGIN}Allocate")(b"x")
        await call
        await between.tap.close()

        assert not between.mirror_of(plugin.socket).exists()
        assert not between.mirror_of(kubelet.socket).exists()
        assert plugin.socket.exists()
        assert kubelet.socket.exists()
        with pytest.raises(grpc.aio.AioRpcError):
            await to.unary_unary(f"{PLUGIN}Allocate")(b"x")


async def test_nothing_is_left_of_two_hundred_cuts(between: Between) -> None:
    async def lists(request: bytes, context: Context) -> AsyncIterator[bytes]:
        yield api.ListAndWatchResponse().SerializeToString()
        await asyncio.Event().wait()

    plugin = await between.plugin()
    plugin.answers[f"{PLUGIN}ListAndWatch"] = lists

    async def cut(through: Any) -> None:
        stream = through.unary_stream(f"{PLUGIN}ListAndWatch")(b"")
        await stream.read()
        between.tap.send_command({"command": "endStream"})
        assert await stream.read() is grpc.aio.EOF

    async with between.channel_to(plugin) as to:
        await cut(to)
        open_before, tasks_before = _open(), len(asyncio.all_tasks())
        for _ in range(CUTS):
            await cut(to)
        for _ in range(CUTS):
            async with between.channel_to(plugin) as once:
                await cut(once)
        await until(lambda: (_open(), len(asyncio.all_tasks())) <= (open_before, tasks_before))


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_link_to_a_socket_of_another_is_none_of_the_plugins(between: Between) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(between.folder / "other"))
        (between.of_plugin / "l.sock").symlink_to(between.folder / "other")
        await between.plugin()

        assert not between.mirror_of(between.of_plugin / "l.sock").exists()


async def test_nothing_is_made_or_removed_where_a_link_leads(between: Between, tmp_path: Path) -> None:
    plugin = await between.plugin()
    (tmp_path / "decoy").mkdir()
    for name in ("p.sock", "new.sock"):
        (tmp_path / "decoy" / name).write_text("another's")
    before = {file: file.stat() for file in (tmp_path / "decoy").iterdir()}
    between.of_kubelet.rename(between.folder / "was")
    between.of_kubelet.symlink_to(tmp_path / "decoy")

    server = ByteServer(between.of_plugin / "new.sock")
    between.servers.append(server)
    await server.start()
    plugin.socket.unlink()
    await until(lambda: between.tap.plugin_sockets == ("new.sock",))
    await between.tap.close()

    assert {file: file.stat() for file in (tmp_path / "decoy").iterdir()} == before


@pytest.mark.parametrize("endpoint", ["x" * 300, "x" * 100_000, "a\0b", "..", "", "p.sock/q"])
async def test_endpoint_that_no_file_can_have_is_passed_on(between: Between, endpoint: str) -> None:
    kubelet = await between.kubelet()
    request = api.RegisterRequest(version=api.VERSION, endpoint=endpoint, resource_name="example.com/a")

    async with between.channel_to(kubelet) as to:
        await to.unary_unary(REGISTER)(request.SerializeToString())

    assert [api.RegisterRequest.FromString(request) for _, request in kubelet.seen] == [request]
    assert between.judged[-1]["breach"] in {"servesFirst", "endpoint"}


async def test_folder_that_is_none_any_more_has_no_sockets(between: Between) -> None:
    between.of_plugin.rmdir()
    between.of_plugin.touch()

    assert between.tap.plugin_sockets == ()
    await between.tap.close()


async def test_plugin_with_too_many_sockets_has_a_tap_at_the_first(
    between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrored_sockets, "_MOST_MIRRORS", 3)
    for number in range(5):
        bound(between.of_plugin / f"{number}.sock")
    await until(lambda: (between.of_kubelet / "2.sock").exists())
    (between.of_plugin / "0.sock").unlink()
    await until(lambda: not (between.of_kubelet / "0.sock").exists())
    bound(between.of_plugin / "last.sock")
    await until(lambda: (between.of_kubelet / "last.sock").exists())

    assert sorted(path.name for path in between.of_kubelet.iterdir()) == ["1.sock", "2.sock", "last.sock"]


def bound(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place))


async def test_lost_events_are_made_up_for(between: Between) -> None:
    ended, removed = await between.plugin("ended.sock"), await between.plugin("removed.sock")
    ended.socket.unlink()
    between.mirror_of(removed.socket).unlink()
    bound(between.of_plugin / "new.sock")

    between.tap._sockets[0]._handle(PathEvent(Mask.OVERFLOW, None))

    assert [path.name for path in between.of_kubelet.iterdir()] == ["new.sock"]
    assert [path.name for path in between.of_plugin.iterdir()] == ["new.sock"]


async def test_connections_are_accepted_again_once_there_are_descriptors(
    between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = await between.plugin()
    with monkeypatch.context() as full:
        refused = Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
        full.setattr(socket.socket, "accept", refused)
        _, writer = await asyncio.open_unix_connection(between.mirror_of(plugin.socket))
        await until(lambda: refused.called)

    await until(lambda: between.links != [])
    writer.close()


@pytest.mark.parametrize("caller", ["plugin", "kubelet"])
async def test_messages_without_an_end_are_held_up_to_a_limit(
    between: Between, caller: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_MOST_HELD_BYTES", 1 << 20)
    server = await (between.kubelet() if caller == "plugin" else between.plugin())
    async with between.channel_to(server) as to:
        call = to.unary_unary(REGISTER if caller == "plugin" else f"{PLUGIN}Allocate")(bytes(2 << 20))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

        await to.unary_unary(f"{PLUGIN}Allocate")(bytes(1 << 10))
    assert [len(request) for _, request in server.seen] == [1 << 10]
    await until(lambda: between.tap._held.size == 0)
