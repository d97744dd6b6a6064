"""A unit test starts no process: one that does fails, and belongs in tests/process."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any

import pytest

STARTS = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"})
"""Audit events of the interpreter; what asyncio starts is a `subprocess.Popen` too."""

started: list[str] = []
"""What was started since the current phase of a test began."""


def note_start(event: str, arguments: tuple[Any, ...]) -> None:
    if event in STARTS:
        started.append(f"{event}: {arguments[1]}" if event == "subprocess.Popen" else event)


sys.addaudithook(note_start)


@pytest.hookimpl(wrapper=True)
def no_process_starts() -> Generator[None, object, object]:
    """Fail the phase of a test that started a process, in whatever thread."""
    started.clear()
    result = yield
    if started:
        pytest.fail(f"a unit test starts a process ({started[0]}): move the test to tests/process", pytrace=False)
    return result


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = no_process_starts
