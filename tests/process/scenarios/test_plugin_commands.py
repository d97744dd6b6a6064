"""Plugins that a story starts, stops and tells what to do; the scriptable plugin's part is played by a few lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.world.child import PluginCommand
from scenarios.backends.world.plugin_process import PluginProcess
from scenarios.trace.snapshot import PluginState
from scenarios.trace.trace import Entry, Trace
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import InputError, PluginError
from tests.support.stories import entries

OBEDIENT = """
import json, sys
print('{"ready": true}', flush=True)
for line in sys.stdin:
    command = json.loads(line)["command"]
    if command == "register":
        print('{"registered": "x/y", "endpoint": "s", "error": "no"}')
        print('{"called": "Allocate", "devices": ["a"]}')
    print('{"error": "what?"}' if command == "dance" else '{"done": true}', flush=True)
"""
DEAF = "import time; print('{\"ready\": true}', flush=True); time.sleep(60)"
GONE = "print('{\"ready\": true}', flush=True)"


class Supervised:
    """A plugin under test that its story tells what to do."""

    def __init__(self, script: str, log: Path, is_wanted: bool, takes_commands: bool, is_tapped: bool) -> None:
        self.clock = ManualClock()
        self.trace = Trace(now=self.clock.now)
        argv = (sys.executable, "-c", script)
        command = PluginCommand("mine", "node-1", argv, dict(os.environ), log, takes_commands, is_tapped)
        self.plugin = PluginProcess(command, self.clock, self.trace, is_wanted)
        self.task = asyncio.create_task(self.plugin.run())

    async def until(self, kind: str, count: int = 1) -> list[Entry]:
        return await entries(self.trace, kind, count)


@pytest.fixture
async def supervised(tmp_path: Path) -> AsyncIterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def make(
        script: str = OBEDIENT, is_wanted: bool = True, takes_commands: bool = True, is_tapped: bool = False
    ) -> Supervised:
        made.append(Supervised(script, tmp_path / "log", is_wanted, takes_commands, is_tapped))
        return made[-1]

    yield make
    for told in made:
        told.task.cancel()
        await asyncio.gather(told.task, return_exceptions=True)


async def test_plugin_with_a_manual_start_runs_from_the_step_that_starts_it(supervised: Any) -> None:
    mine = supervised(is_wanted=False)
    await asyncio.sleep(0)
    assert mine.plugin.view.state is PluginState.STOPPED

    await mine.plugin.start()

    assert (mine.plugin.view.state, mine.plugin.view.restarts) == (PluginState.RUNNING, 0)
    with pytest.raises(InputError, match="plugin 'mine' runs already"):
        await mine.plugin.start()


async def test_stopped_plugin_is_not_started_again_until_a_step_does(supervised: Any) -> None:
    mine = supervised()

    await mine.plugin.stop()
    assert mine.plugin.view.state is PluginState.STOPPED
    assert [event.kind for event in mine.trace] == ["plugin-started", "plugin-exited"]
    for forbidden in (mine.plugin.stop(), mine.plugin.kill(), mine.plugin.send_command({"command": "list"})):
        with pytest.raises(InputError, match="plugin 'mine' does not run; start it first"):
            await forbidden
    await mine.plugin.start()

    assert mine.plugin.view.restarts == 1


async def test_killed_plugin_is_started_again_as_after_a_crash(supervised: Any) -> None:
    mine = supervised()

    await mine.plugin.kill()

    (exited,) = await mine.until("plugin-exited")
    assert exited.event.status == -9
    await mine.until("plugin-started", 2)


async def test_plugin_is_stopped_while_it_waits_for_its_next_start(supervised: Any) -> None:
    mine = supervised(GONE)
    await mine.until("plugin-exited", 2)
    await asyncio.sleep(0)
    assert mine.plugin.view.state is PluginState.WAITING

    await mine.plugin.stop()
    await mine.plugin.start()

    assert len(await mine.until("plugin-started", 3)) == 3
    assert mine.clock.now() == 0


async def test_reports_are_counted_and_traced(supervised: Any) -> None:
    mine = supervised()

    await mine.plugin.send_command({"command": "register"})
    await mine.plugin.send_command({"command": "register"})

    view = mine.plugin.view
    assert (view.registrations, view.refusal, view.calls) == (0, "no", {"Register": 2, "Allocate": 2})
    kinds = [event.kind for event in mine.trace]
    assert kinds == ["plugin-started", *["registration-answered", "plugin-called"] * 2]


async def test_tap_reports_in_the_place_of_a_stub(supervised: Any) -> None:
    mine = supervised(is_tapped=True)

    await mine.plugin.send_command({"command": "register"})
    mine.plugin.reported({"registered": "x/y", "endpoint": "s", "error": ""})

    view = mine.plugin.view
    assert (view.registrations, view.refusal, view.calls) == (1, "", {"Register": 1})


async def test_plugin_without_commands_is_registered_once_reported(supervised: Any) -> None:
    mine = supervised(takes_commands=False, is_tapped=True)

    mine.plugin.reported({"registered": "x/y", "endpoint": "s", "error": ""})

    assert (mine.plugin.view.registrations, mine.plugin.view.calls) == (0, {"Register": 1})


async def test_command_that_is_refused_is_the_plugins_failure(supervised: Any) -> None:
    with pytest.raises(PluginError, match=r"plugin 'mine': what\?"):
        await supervised().plugin.send_command({"command": "dance"})


async def test_command_without_an_answer_is_an_error(supervised: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.backends.world.plugin_reports._ANSWER_LIMIT_S", 0.5)

    with pytest.raises(PluginError, match="plugin 'mine' does not take the command list"):
        await supervised(DEAF).plugin.send_command({"command": "list"})


async def test_program_in_place_of_the_stub_takes_no_commands(supervised: Any) -> None:
    with pytest.raises(InputError, match="plugin 'mine' is no stub here"):
        await supervised(takes_commands=False).plugin.send_command({"command": "list"})
