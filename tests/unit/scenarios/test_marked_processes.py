from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.marked_processes import MARK, kill_marked, signal_marked

HARMLESS = signal.SIGCONT
LOOKS = 500


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def restless(tmp_path: Path, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing but load its program again."""
    script = tmp_path / "again"
    script.write_text('exec sh "$0"')
    with subprocess.Popen(["/bin/sh", str(script)], env={**os.environ, MARK: mark}) as process:
        yield process
        process.kill()


def test_process_is_found_while_it_loads_another_program(restless: subprocess.Popen[bytes], mark: str) -> None:
    # For a part of each exec there is no environment to look into.
    assert [signal_marked(mark, HARMLESS) for _ in range(LOOKS)] == [1] * LOOKS


async def test_killed_processes_are_gone(restless: subprocess.Popen[bytes], mark: str) -> None:
    await kill_marked(mark)

    assert restless.wait() == -signal.SIGKILL
    assert signal_marked(mark, HARMLESS) == 0


def test_processes_without_the_mark_are_left_alone(restless: subprocess.Popen[bytes], mark: str) -> None:
    assert signal_marked(f"{mark}/other", signal.SIGKILL) == 0
    assert restless.poll() is None
