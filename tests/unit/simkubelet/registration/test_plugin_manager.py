from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from simkubelet._internal.change import Change
from simkubelet.model.version import version
from simkubelet.registration import plugin_manager
from simkubelet.registration.plugin_manager import PluginManager
from tests.support.watched_plugin import AttendedClock, WatchedPlugin


class Handler:
    """A plugin handler that keeps its calls and answers what a test sets."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refusal: str | None = None
        self.failure: str | None = None
        self._change = Change()

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        self._keep("validate", name, Path(endpoint).name, tuple(versions))
        return self.refusal

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> str | None:
        self._keep("register", name, Path(endpoint).name, tuple(versions))
        return self.failure

    async def deregister(self, name: str, endpoint: str) -> None:
        self._keep("deregister", name, Path(endpoint).name)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def _keep(self, *call: Any) -> None:
        self.calls.append(call)
        self._change.notify()


@pytest.fixture
def handler() -> Handler:
    return Handler()


@pytest.fixture
def clock() -> AttendedClock:
    return AttendedClock()


@pytest.fixture
def folder(short_folder: Path) -> Path:
    folder = short_folder / "plugins_registry"
    folder.mkdir()
    return folder


@pytest.fixture
def found() -> list[Path]:
    """The sockets that were reported."""
    return []


@pytest.fixture
async def start(
    folder: Path, handler: Handler, clock: AttendedClock, found: list[Path]
) -> AsyncIterator[Callable[..., Any]]:
    """Starts the plugin manager of a minor; it ends with the test."""
    async with AsyncExitStack() as stack:

        def start(minor: str = "1.34") -> PluginManager:
            manager = PluginManager(
                folder,
                {"DevicePlugin": handler},
                version=version(minor),
                clock=clock,
                tasks=tasks,
                on_found=found.append,
            )
            manager.start()
            stack.push_async_callback(manager.stop)
            return manager

        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        yield start


@pytest.fixture
async def serve(folder: Path, clock: AttendedClock) -> AsyncIterator[Callable[..., Any]]:
    """Serves a plugin: ``await serve("x.sock", type="CSIPlugin")``; it ends with the test."""
    async with AsyncExitStack() as stack:

        async def serve(name: str = "x.sock", **info: Any) -> WatchedPlugin:
            plugin = WatchedPlugin(folder / name, clock, **info)
            await plugin.serve()
            stack.push_async_callback(plugin.stop)
            return plugin

        yield serve


async def test_plugin_that_is_there_is_registered_at_once(start, serve, handler: Handler, clock: AttendedClock):
    plugin = await serve()

    manager = start()

    assert await plugin.verdict() == (True, "")
    assert handler.calls == [
        ("validate", "example.com/stub", "x.sock", ("v1beta1",)),
        ("register", "example.com/stub", "x.sock", ("v1beta1",)),
    ]
    assert clock.now() == 0
    assert manager.registered_sockets == {plugin.socket}


async def test_found_sockets_are_reported(start, serve, clock: AttendedClock, found: list[Path], folder: Path):
    await serve("a.sock")
    start()
    (folder / "more").mkdir()
    await serve("more/b.sock")

    assert found == [Path("a.sock")]
    await clock.leap_until(lambda: len(found) > 1)
    assert found == [Path("a.sock"), Path("more/b.sock")]


async def test_plugin_that_comes_later_is_registered_at_the_next_second(start, serve, clock: AttendedClock):
    start()
    await asyncio.sleep(0)
    await clock.advance(7.3)
    plugin = await serve()

    await clock.leap()

    assert await plugin.verdict() == (True, "")
    assert plugin.asked_at == [8.0]


async def test_endpoint_that_the_plugin_names_goes_to_the_handler(start, serve, handler: Handler):
    plugin = await serve(endpoint="/elsewhere/service.sock")

    start()

    await plugin.verdict()
    assert [call[2] for call in handler.calls] == ["service.sock", "service.sock"]


@pytest.mark.parametrize("type_", ["CSIPlugin", "DRAPlugin", ""])
async def test_plugin_of_a_type_without_handler_is_notified(start, serve, type_: str):
    plugin = await serve(type=type_)

    start()

    text = f"RegisterPlugin error -- no handler registered for plugin type: {type_} at socket {plugin.socket}"
    assert await plugin.verdict() == (False, text)


async def test_plugin_that_the_handler_refuses_gets_the_error(start, serve, handler: Handler):
    handler.refusal = "manager version, v1beta1, is not among plugin supported versions [v1alpha1]"
    plugin = await serve()

    manager = start()

    text = f"RegisterPlugin error -- plugin validation failed with err: {handler.refusal}"
    assert await plugin.verdict() == (False, text)
    assert handler.names() == ["validate"]
    assert not manager.registered_sockets


async def test_refusal_is_logged_as_if_it_could_not_be_sent(
    start, serve, clock: AttendedClock, caplog: pytest.LogCaptureFixture
):
    plugin = await serve(type="CSIPlugin")

    start()
    await clock.leap_until(lambda: len(plugin.verdicts) == 2)

    logged = f"RegisterPlugin error -- failed to send error at socket {plugin.socket}, err: {plugin.verdicts[0][1]}"
    assert caplog.messages[0] == logged


async def test_pauses_after_failures_double_up_to_two_minutes(start, serve, clock: AttendedClock):
    plugin = await serve(type="CSIPlugin")
    start()

    await clock.leap_until(lambda: len(plugin.asked_at) == 11)

    assert plugin.asked_at == [0, 1, 3, 6, 11, 20, 37, 70, 135, 258, 381]


async def test_success_ends_the_pauses(start, serve, clock: AttendedClock, handler: Handler):
    handler.refusal = "no"
    plugin = await serve()
    start()
    await clock.leap_until(lambda: len(plugin.asked_at) == 3)
    handler.refusal = None
    await clock.leap_until(lambda: "register" in handler.names())

    await plugin.stop()
    await clock.leap_until(lambda: "deregister" in handler.names())
    handler.refusal = "no"
    again = await serve()
    await clock.leap_until(lambda: len(again.asked_at) == 2)

    assert again.asked_at[1] - again.asked_at[0] == 1


async def test_pauses_of_sockets_that_are_gone_are_forgotten_where_they_are_many(
    start, serve, clock: AttendedClock, handler: Handler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plugin_manager, "_MOST_PAUSES", 3)
    handler.refusal = "no"
    manager = start()
    for number in range(10):
        plugin = await serve(f"{number}.sock")
        await clock.leap_until(lambda plugin=plugin: plugin.socket in manager._pauses)
        await plugin.stop()
        await clock.advance(5)

    assert len(manager._pauses) <= 4


async def test_sockets_that_were_renamed_away_are_forgotten_where_they_are_many(
    start, serve, clock: AttendedClock, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plugin_manager, "_MOST_SOCKETS", 3)
    manager = start()
    for number in range(5):
        plugin = await serve(f"{number}.sock")
        await clock.leap_until(lambda plugin=plugin: plugin.socket in manager.registered_sockets)
        if number < 3:
            plugin.socket.rename(folder / ".away")
        assert len(manager.desired_sockets) == (number + 1 if number < 3 else number - 2)

    await clock.leap_until(lambda: len(manager.registered_sockets) == 2)
    assert manager.registered_sockets == manager.desired_sockets == {folder / "3.sock", folder / "4.sock"}


async def test_more_sockets_than_attempts_at_a_time_are_all_registered(
    start, serve, clock: AttendedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plugin_manager, "_MOST_ATTEMPTS", 2)
    plugins = [await serve(f"{number}.sock") for number in range(5)]
    attempts = set[int]()
    manager = start()

    def all_are_registered() -> bool:
        attempts.add(len(manager._attempts))
        return len(manager.registered_sockets) == len(plugins)

    await clock.leap_until(all_are_registered)
    assert max(attempts) == 2


@pytest.mark.parametrize(("minor", "is_retried"), [("1.35", False), ("1.36", True)])
async def test_failed_registration_counts_as_registered_up_to_1_35(
    start, serve, handler: Handler, clock: AttendedClock, minor: str, is_retried: bool
):
    handler.failure = "failed to dial device plugin: context deadline exceeded"
    plugin = await serve()
    manager = start(minor)

    text = f"RegisterPlugin error -- plugin registration failed with err: {handler.failure}"
    assert await plugin.verdict() == (False, text)
    if is_retried:
        await clock.leap_until(lambda: len(plugin.asked_at) == 2)
    assert (plugin.socket in manager.registered_sockets) is not is_retried


@pytest.mark.parametrize(
    ("minor", "calls"),
    [("1.35", ["validate", "register"]), ("1.36", ["validate", "register", "deregister", "validate", "register"])],
)
async def test_plugin_that_does_not_take_the_good_news(
    start, serve, handler: Handler, clock: AttendedClock, minor: str, calls: list[str]
):
    plugin = await serve()
    plugin.notify_errors = ["not now"]
    start(minor)

    await plugin.verdict()
    if minor == "1.36":
        await clock.leap_until(lambda: len(plugin.verdicts) == 2)

    assert handler.names() == calls


async def test_plugin_whose_socket_goes_is_deregistered(start, serve, handler: Handler, clock: AttendedClock):
    plugin = await serve()
    manager = start()
    await plugin.verdict()

    await plugin.stop()
    await clock.leap_until(lambda: "deregister" in handler.names())

    assert handler.calls[-1] == ("deregister", "example.com/stub", "x.sock")
    assert not manager.registered_sockets
    assert not manager.desired_sockets


async def test_recreated_socket_is_deregistered_and_then_registered(
    start, serve, handler: Handler, clock: AttendedClock
):
    plugin = await serve()
    start()
    await plugin.verdict()

    await plugin.stop()
    again = await serve()
    await clock.leap_until(lambda: len(again.asked_at) == 1)

    assert await again.verdict() == (True, "")
    assert handler.names() == ["validate", "register", "deregister", "validate", "register"]


async def test_end_of_the_kubelet_deregisters_nobody(start, serve, handler: Handler):
    plugin = await serve()
    manager = start()
    await plugin.verdict()

    await manager.stop()
    await manager.stop()

    assert handler.names() == ["validate", "register"]


async def test_get_info_that_fails_is_tried_again(start, serve, clock: AttendedClock, caplog: pytest.LogCaptureFixture):
    plugin = await serve()
    plugin.info_errors = ["not yet"]

    start()
    await clock.leap_until(lambda: len(plugin.verdicts) == 1)

    assert plugin.verdicts == [(True, "")]
    assert [record.getMessage() for record in caplog.records] == [
        "RegisterPlugin error -- failed to get plugin info using RPC GetInfo "
        f"at socket {plugin.socket}, err: rpc error: code = Internal desc = not yet"
    ]
