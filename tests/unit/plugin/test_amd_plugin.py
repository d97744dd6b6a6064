"""Fed in: fake AMD GPUs, an exporter, the kubelet's calls; observed: lists and answers of the plugin."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakegpu.vendors.amd.exporter import exporter
from fakegpu.vendors.amd.machine import set_health, write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from plugin.amd.device_plugin import AmdNode, AmdPlugin, Heartbeat, plugins_of
from plugin.amd.discovery import NamingStrategy
from plugin.amd.exporter import _healths, exported_health
from plugin.framework import AllocationRefusedError, DeviceID, DeviceList, Health
from simkubelet.apis import deviceplugin as api
from tests.support.patience import LIMIT_S


class _Node:
    """A node with AMD GPUs; `folder` is short, as it contains a socket."""

    def __init__(self, folder: Path, profile: str, count: int, compute: str = "spx") -> None:
        self.folder = folder
        self.socket = folder / "exporter.sock"
        self.devices = write_amd(folder, load_amd_profile(profile), count, compute=compute)
        self.disconnections = 0

    def plugins(self, pulse_s: int = 0, strategy: NamingStrategy = NamingStrategy.SINGLE) -> list[AmdPlugin]:
        return plugins_of(AmdNode(self.folder / "sys", self.socket, pulse_s, self._count), strategy)

    def _count(self) -> None:
        self.disconnections += 1


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="amd-") as path:
        yield Path(path)


async def _next(lists: AsyncGenerator[DeviceList, None]) -> DeviceList:
    async with asyncio.timeout(LIMIT_S):
        return await anext(lists)


def _health(devices: DeviceList) -> Mapping[str, Health]:
    return {device.device_id: device.health for device in devices}


async def test_all_are_healthy_at_first_each_on_its_numa_node(folder: Path) -> None:
    node = _Node(folder, "mi210", 8)
    (plugin,) = node.plugins()

    async with aclosing(plugin.devices()) as lists:
        first = await _next(lists)

    assert {device.device_id: (device.health, device.numa_nodes) for device in first} == {
        device.name: (Health.HEALTHY, (device.slot.numa_node,)) for device in node.devices
    }


def test_resource_and_socket_are_named_alike(folder: Path) -> None:
    node = _Node(folder, "mi300x", 1, compute="cpx")
    (single,), (mixed,) = node.plugins(), node.plugins(strategy=NamingStrategy.MIXED)

    assert (single.resource_name, single.socket_name) == ("amd.com/gpu", "amd.com_gpu")
    assert (mixed.resource_name, mixed.socket_name) == ("amd.com/cpx_nps1", "amd.com_cpx_nps1")


def test_machine_without_kfd_has_no_resource(folder: Path) -> None:
    node = _Node(folder, "mi210", 1)
    shutil.rmtree(folder / "sys/class/kfd")

    assert node.plugins() == []


@pytest.mark.parametrize(("count", "is_offered"), [(1, False), (2, True)])
def test_preference_is_offered_where_gpus_are_linked(folder: Path, count: int, is_offered: bool) -> None:
    (plugin,) = _Node(folder, "mi210", count).plugins()

    assert plugin.options.preferred_allocation_available is is_offered


async def test_beats_send_the_list_again_with_what_kfd_shows(folder: Path) -> None:
    node = _Node(folder, "mi210", 1)
    (plugin,) = node.plugins(pulse_s=0.05)

    async with aclosing(plugin.devices()) as lists:
        first = await _next(lists)
        assert await _next(lists) == first
        shutil.rmtree(folder / "sys/class/kfd/kfd/topology/nodes")
        gone = await _next(lists)

    assert set(_health(gone).values()) == {Health.UNHEALTHY}


async def test_exporter_reports_each_device_and_health_comes_back(folder: Path) -> None:
    node = _Node(folder, "mi210", 2)
    ill, well = (device.name for device in node.devices)
    set_health(folder, ill, healthy=False)
    (plugin,) = node.plugins(pulse_s=0.05)

    with exporter(folder, node.socket):
        async with aclosing(plugin.devices()) as lists:
            assert set(_health(await _next(lists)).values()) == {Health.HEALTHY}
            assert _health(await _next(lists)) == {ill: Health.UNHEALTHY, well: Health.HEALTHY}
            set_health(folder, ill, healthy=True)
            assert _health(await _next(lists)) == {ill: Health.HEALTHY, well: Health.HEALTHY}


async def test_dead_exporter_tells_nothing(folder: Path) -> None:
    (folder / "exporter.sock").touch()

    assert await exported_health(folder / "exporter.sock") == {}
    assert await exported_health(folder / "missing.sock") == {}


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def test_answer_of_an_exporter_with_more_fields_than_are_looked_at() -> None:
    ill = _field(1, b"0") + _field(2, b"uuid") + _field(3, b"unhealthy") + _field(4, b"pod") + _field(5, b"a")
    odd = b"\x30\xac\x02" + b"\x3d1234" + b"\x4112345678" + _field(3, b"Unhealthy") + _field(5, b"b")

    assert _healths(_field(1, ill) + _field(9, b"more") + _field(1, odd)) == {
        "a": Health.UNHEALTHY,
        "b": Health.HEALTHY,
    }


@given(st.binary(max_size=64))
def test_whatever_answers_for_an_exporter(message: bytes) -> None:
    try:
        healths = _healths(message)
    except ValueError:
        return
    assert set(healths.values()) <= set(Health)


async def test_beats_go_to_the_resources_alternately() -> None:
    heartbeat, beats = Heartbeat(0.05), list[str]()
    done = asyncio.Event()

    async def follow(name: str) -> None:
        while True:
            await heartbeat.beat()
            beats.append(name)
            if len(beats) == 4:
                done.set()

    async with asyncio.timeout(LIMIT_S):
        tasks = [asyncio.create_task(follow(name)) for name in "ab"]
        await done.wait()
    for task in tasks:
        task.cancel()

    assert beats[:4] == ["a", "b", "a", "b"]


async def test_without_a_pulse_there_is_no_beat() -> None:
    beat = asyncio.create_task(Heartbeat(0).beat())
    await asyncio.sleep(0)

    assert not beat.done()
    beat.cancel()


def _paths(answer: api.ContainerAllocateResponse) -> list[str]:
    assert {spec.permissions for spec in answer.devices} == {"rw"}
    assert all(spec.host_path == spec.container_path for spec in answer.devices)
    return [spec.host_path for spec in answer.devices]


async def _listed(plugin: AmdPlugin) -> AmdPlugin:
    async with aclosing(plugin.devices()) as lists:
        await _next(lists)
    return plugin


async def test_container_gets_kfd_and_two_files_for_each_device(folder: Path) -> None:
    node = _Node(folder, "mi210", 2)
    plugin = await _listed(node.plugins()[0])
    first, second = node.devices

    answer = plugin.allocate([DeviceID(second.name), DeviceID("nobody"), DeviceID(first.name)])

    assert _paths(answer) == [
        "/dev/kfd",
        *(f"/dev/dri/card{second.card}", f"/dev/dri/renderD{second.render}"),
        *(f"/dev/dri/card{first.card}", f"/dev/dri/renderD{first.render}"),
    ]
    assert not answer.envs
    assert not answer.mounts


async def test_all_containers_of_one_call_get_the_answer_of_the_last(folder: Path) -> None:
    node = _Node(folder, "mi210", 2)
    plugin = await _listed(node.plugins()[0])
    first, second = (DeviceID(device.name) for device in node.devices)

    answers = await plugin.allocate_all([[first], [second]])

    assert list(answers) == [plugin.allocate([second])] * 2
    assert list(await plugin.allocate_all([])) == []


def test_preference_that_cannot_be_given_is_refused(folder: Path) -> None:
    (plugin,) = _Node(folder, "mi210", 2).plugins()

    refusal = "unable to get preferred allocation list. Error:available devices count less than allocation size"
    with pytest.raises(AllocationRefusedError, match=f"^{re.escape(refusal)}$"):
        plugin.preferred([], [], 1)


def test_end_of_a_stream_is_reported(folder: Path) -> None:
    node = _Node(folder, "mi210", 1)
    (plugin,) = node.plugins()

    plugin.stream_ended()

    assert node.disconnections == 1
