"""`simkubelet run` on a terminal: what is under way, a pause at a failure, and the end of the terminal itself."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import LIMIT_S

pytestmark = pytest.mark.skipif(shutil.which("setsid") is None, reason="needs setsid to give a run its terminal")
STORY = """\
name: {name}
description: x
plugins: [{{name: stub, builtin: stub, serves: {{resource: example.com/gpu, devices: [gpu-0]}}}}]
steps:
  - expect: {{node: node-1, capacity: {{example.com/gpu: 1}}}}
  - {step}
"""
IMPOSSIBLE = "removeFile: {path: /dev/seat}"
ENDLESS = "expect: {node: node-1, capacity: {example.com/gpu: 2}, within: 1h}"


class Terminal:
    """A run with a terminal of its own."""

    def __init__(self, run: Any, command: str) -> None:
        self._user, end = pty.openpty()
        argv = ["setsid", "--ctty", "--wait", *run.argv(command)]
        self.process = subprocess.Popen(
            argv, cwd=run.scratch, env=run.environment(), stdin=end, stdout=end, stderr=end, start_new_session=False
        )
        os.close(end)
        self.text = ""

    def read_until(self, words: str) -> str:
        """Read until words are printed; return all that was printed."""
        while words not in self.text:
            self.text += os.read(self._user, 4096).decode(errors="replace")
        return self.text

    def press_enter(self) -> None:
        os.write(self._user, b"\n")

    def press_ctrl_c(self) -> None:
        os.write(self._user, b"\x03")

    def close(self) -> None:
        if self._user >= 0:
            os.close(self._user)
            self._user = -1


@pytest.fixture
def start(run: Any) -> Iterator[Callable[..., Terminal]]:
    """Plays a story with this last step on a terminal."""
    started: list[Terminal] = []

    def start(step: str, options: str = "") -> Terminal:
        (run.scratch / "mine.yaml").write_text(STORY.format(name="mine", step=step))
        started.append(Terminal(run, f"simkubelet run mine.yaml {options}"))
        return started[-1]

    yield start
    for terminal in started:
        terminal.close()


def test_world_of_a_failed_story_stays_until_enter(run: Any, start: Callable[..., Terminal]) -> None:
    terminal = start(IMPOSSIBLE, "--pause-on-failure")

    lines = terminal.read_until("Enter ends the story").splitlines()
    places = [Path(line.split()[-1]) for line in lines if line.startswith("  node-1 ")]
    assert [place.name for place in places] == ["node-1", "logs", "kubelet.sock", "stub.sock", "kubelet.sock"]
    assert all(place.exists() for place in places)
    terminal.press_enter()

    terminal.read_until("1 error in ")
    assert terminal.process.wait(LIMIT_S) == 2
    assert run.processes() == []


def test_terminal_shows_the_step_under_way_and_a_closed_one_ends_the_run(
    run: Any, start: Callable[..., Terminal]
) -> None:
    terminal = start(ENDLESS, "--junit report.xml")

    terminal.read_until("0/1  mine (expect node node-1)")
    terminal.close()

    assert terminal.process.wait(LIMIT_S) == 129
    assert 'type="INTERRUPTED"' in (run.scratch / "report.xml").read_text()
    assert run.processes() == []


@pytest.mark.parametrize("command", ["simkubelet run mine.yaml --watch", "simkubelet up --name watched --watch"])
def test_watched_nodes_are_drawn_and_ctrl_c_restores_the_terminal(run: Any, command: str) -> None:
    (run.scratch / "mine.yaml").write_text(STORY.format(name="mine", step=ENDLESS))
    terminal = Terminal(run, command)

    # The legend, and a lane: by the first picture any of the latest eight messages may be shown.
    terminal.read_until("○ from  ● to")
    terminal.read_until("kubelet")
    terminal.press_ctrl_c()

    terminal.read_until("interrupted")
    assert terminal.process.wait(LIMIT_S) == 130
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1
    terminal.close()
    assert run.processes() == []
