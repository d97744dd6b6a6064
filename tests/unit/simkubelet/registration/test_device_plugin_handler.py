from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from simkubelet.model.clock import RealClock
from simkubelet.model.version import version
from simkubelet.node_tree import socket_path
from simkubelet.registration.plugin_manager import PluginManager
from simkubelet.registration.plugin_registration import DevicePluginHandler
from simkubelet.registration.registration import RegistrationServer
from tests.support.node import RESOURCE, FakePlugin
from tests.support.patience import LIMIT_S
from tests.support.watched_plugin import WatchedPlugin


class Reports:
    """A registration handler that keeps its notifications."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.disconnected = asyncio.Event()
        self.listed = asyncio.Event()

    def plugin_connected(self, client: Any, options: Any) -> None:
        self.told.append(("connected", client.resource))

    async def plugin_listed(self, resource: str, devices: Any) -> None:
        self.told.append(("listed", resource))
        self.listed.set()

    def plugin_disconnected(self, resource: str, socket: str, reason: str) -> None:
        self.told.append(("disconnected", resource))
        self.disconnected.set()

    def registration_refused(self, resource: str, endpoint: str, message: str) -> None:
        self.told.append(("refused", resource, message))


@pytest.fixture
async def reports() -> Reports:
    return Reports()


@pytest.fixture
async def start(short_folder: Path, reports: Reports) -> AsyncIterator[Callable[[], PluginManager]]:
    clock = RealClock(rate=100)
    async with asyncio.TaskGroup() as tasks:
        registration = RegistrationServer(short_folder, reports, tasks, version("1.34"))
        registration.start()
        manager = PluginManager(
            short_folder / "plugins_registry",
            {"DevicePlugin": DevicePluginHandler(registration, partial(socket_path, short_folder))},
            version=version("1.34"),
            clock=clock,
            tasks=tasks,
            on_found=lambda socket: None,
        )
        yield lambda: (manager.start(), manager)[1]
        await manager.stop()
        await registration.stop()


@pytest.fixture
async def device_plugin(short_folder: Path) -> AsyncIterator[FakePlugin]:
    (short_folder / "plugins").mkdir()
    plugin = FakePlugin(short_folder, endpoint="plugins/service.sock")
    plugin.list(["d0"])
    await plugin.serve()
    yield plugin
    await plugin.stop()


@pytest.mark.parametrize("is_of_node", [False, True], ids=["path-of-the-host", "path-of-the-node"])
async def test_plugin_lives_from_its_registration_socket_to_the_end_of_it(
    start, short_folder: Path, reports: Reports, device_plugin: FakePlugin, is_of_node: bool
):
    start()
    registrar = WatchedPlugin(
        short_folder / "plugins_registry" / "reg.sock",
        RealClock(),
        name=RESOURCE,
        endpoint=str((Path("/var/lib/kubelet") if is_of_node else short_folder) / "plugins" / "service.sock"),
    )
    await registrar.serve()
    await asyncio.wait_for(reports.listed.wait(), LIMIT_S)
    assert await registrar.verdict() == (True, "")

    await registrar.stop()
    await asyncio.wait_for(reports.disconnected.wait(), LIMIT_S)

    assert reports.told == [("connected", RESOURCE), ("listed", RESOURCE), ("disconnected", RESOURCE)]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        pytest.param(
            {"supported_versions": ["v1alpha1", "v2"]},
            "manager version, v1beta1, is not among plugin supported versions [v1alpha1 v2]",
            id="versions",
        ),
        pytest.param(
            {"supported_versions": [], "name": "stub"},
            "manager version, v1beta1, is not among plugin supported versions []",
            id="versions-before-name",
        ),
        pytest.param(
            {"name": "stub"}, 'invalid name of device plugin socket: the ResourceName "stub" is invalid', id="name"
        ),
    ],
)
async def test_refused_plugin_gets_the_kubelet_s_error(
    start, short_folder: Path, reports: Reports, info: dict[str, Any], text: str
):
    (short_folder / "plugins_registry").mkdir()
    registrar = WatchedPlugin(short_folder / "plugins_registry" / "reg.sock", RealClock(), **info)
    await registrar.serve()

    start()

    assert await registrar.verdict() == (False, f"RegisterPlugin error -- plugin validation failed with err: {text}")
    assert reports.told[0] == ("refused", registrar.info.name, text)
    await registrar.stop()


async def test_plugin_without_options_is_refused_and_stays_in_the_books(
    start, short_folder: Path, reports: Reports, device_plugin: FakePlugin
):
    (short_folder / "plugins_registry").mkdir()
    # The registration socket serves no device plugin.
    registrar = WatchedPlugin(short_folder / "plugins_registry" / "reg.sock", RealClock(), name=RESOURCE)
    await registrar.serve()

    manager = start()

    registered, error = await registrar.verdict()
    assert not registered
    assert error.startswith(
        "RegisterPlugin error -- plugin registration failed with err: failed to get device plugin options: "
        "rpc error: code = Unimplemented"
    )
    assert manager.registered_sockets == {registrar.socket}
    await registrar.stop()
