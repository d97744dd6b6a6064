"""A plugin that sends lists as fast as the kubelet's flow control lets it: all are read, and nobody else waits."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from simkubelet.apis import deviceplugin as api
from simkubelet.devices.device_list import DeviceList
from simkubelet.model.version import Version
from simkubelet.registration import plugin_client
from tests.support.node import FakePlugin, Node
from tests.support.patience import LIMIT_S, until

from .wire_plugin import WirePlugin, message

OTHER = "example.com/other"
LISTS = 40_000
MOST_UNREAD_BYTES = 16 << 20
IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in memory: each list ends on the disk, and how fast that is, is not the question here."""
    folder = Path(tempfile.mkdtemp(prefix="sk-", dir=IN_MEMORY if IN_MEMORY.is_dir() else "/tmp"))
    yield folder
    shutil.rmtree(folder)


def device_list(count: int, health: str = api.HEALTHY) -> bytes:
    devices = [api.Device(ID=f"d{number}", health=health) for number in range(count)]
    return message(api.ListAndWatchResponse(devices=devices).SerializeToString())


class Flood(WirePlugin):
    """A plugin that serves nothing but its lists, `pieces` of bytes."""

    def __init__(self, node: Node, pieces: Iterator[bytes]) -> None:
        super().__init__(node.folder / "flood.sock", {"GetDevicePluginOptions": [message(b"")], "ListAndWatch": pieces})
        self._registrar = FakePlugin(node.folder, endpoint="flood.sock")
        node.plugins.append(self)  # type: ignore[arg-type] - it is stopped like the others

    async def begin(self) -> None:
        await self.serve()
        await self._registrar.register()

    @property
    def sent_bytes(self) -> int:
        return self.sent.get("ListAndWatch", 0)


def pod_of_other(node: Node) -> str:
    limits = {"limits": {OTHER: 1}}
    return node.pod(None, containers=[{"name": "c", "image": "none", "resources": limits}])


@pytest.mark.slow
@pytest.mark.parametrize(("lists", "devices"), [(LISTS, 2), (2_000, 1_000)], ids=["short-lists", "long-lists"])
async def test_flood_ends_in_its_last_list_and_keeps_nobody_waiting(node: Node, lists: int, devices: int) -> None:
    healthy, unhealthy = device_list(devices), device_list(devices, "Unhealthy")
    together = (healthy + unhealthy) * 10
    size = len(healthy + unhealthy) / 2
    other = await node.plugin("o0", "o1", endpoint="other.sock", resource=OTHER)
    await node.tick()
    flood = Flood(node, iter([*repeat(together, lists // 20), device_list(devices + 1)]))
    most_unread = 0.0

    def is_read(count: int) -> bool:
        # While nothing else happens only lists are reported.
        nonlocal most_unread
        most_unread = max(most_unread, flood.sent_bytes - len(node.events) * size)
        return len(node.events) >= count

    node.events.clear()
    await flood.begin()
    await until(lambda: is_read(lists // 10))

    name = pod_of_other(node)
    await until(lambda: node.phase(name) == "Running")
    other.list(["o0", "o1", "o2"])
    await until(lambda: ("o0", "o1", "o2") in (event.healthy for event in node.of("devices-listed")))
    assert len(node.events) < lists, "the flood was over too early to say anything"
    await until(lambda: is_read(lists))
    await node.until(lambda: len(node.events[-1].healthy) == devices + 1)
    await node.tick()

    assert node.status() == (devices + 1, devices + 1)
    assert node.status(OTHER) == (3, 3)
    assert most_unread < MOST_UNREAD_BYTES


async def test_kubelet_stops_in_the_middle_of_a_flood(node: Node) -> None:
    flood = Flood(node, repeat(device_list(2) * 10))
    await flood.begin()
    await until(lambda: len(node.events) > 1_000)

    await asyncio.wait_for(node.kubelet.restart(), LIMIT_S)

    await asyncio.wait_for(flood.has_ended.wait(), LIMIT_S)
    listed = len(node.of("devices-listed"))
    await node.plugin("d0")
    assert len(node.of("devices-listed")) == listed + 1


async def test_plugin_that_is_given_up_in_the_middle_of_a_flood_is_not_read_any_more(node: Node) -> None:
    flood = Flood(node, repeat(device_list(2) * 10))
    await flood.begin()
    await until(lambda: len(node.events) > 100)

    # The end of a stream disconnects the newest of the resource, which is the flood.
    old = await node.plugin("d0", endpoint="old.sock")
    again = FakePlugin(node.folder, endpoint="flood.sock")
    await again.register()
    await old.stop()
    await asyncio.wait_for(flood.has_ended.wait(), LIMIT_S)


async def test_large_list_is_read_while_others_are_served(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_client, "_LARGE_LIST_BYTES", 0)
    read_list, is_read, may_end = plugin_client.read_list, threading.Event(), threading.Event()

    def slow(content: bytes, kubelet: Version) -> DeviceList:
        is_read.set()
        assert may_end.wait(LIMIT_S)
        return read_list(content, kubelet)

    monkeypatch.setattr(plugin_client, "read_list", slow)
    flood = Flood(node, iter([device_list(2)]))
    await flood.begin()
    await until(is_read.is_set)
    name = pod_of_other(node)
    await until(lambda: node.phase(name) != "")
    may_end.set()
    await node.until(lambda: node.of("devices-listed"))
    await node.tick()

    assert node.status() == (2, 2)
