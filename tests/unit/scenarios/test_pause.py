from __future__ import annotations

import asyncio
import io
import os
import pty
from collections.abc import Iterator
from typing import IO, Any

import pytest

from scenarios.play.pause import until_enter
from simkubelet.model.errors import InputError
from tests.support.patience import LIMIT_S


@pytest.fixture
def keys() -> Iterator[tuple[IO[bytes], IO[str]]]:
    """What the user types, and the terminal that reads it."""
    user, terminal = pty.openpty()
    with os.fdopen(user, "r+b", buffering=0) as typed, os.fdopen(terminal, "r") as read:
        yield typed, read


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_world_stays_until_enter(keys: tuple[IO[bytes], IO[str]], world: Any, frames: Any) -> None:
    typed, read = keys
    screen = Terminal()

    pause = asyncio.create_task(until_enter(read, screen)(world([frames.frame()]), "8 expected"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not pause.done()
    typed.write(b"\n")
    async with asyncio.timeout(LIMIT_S):
        await pause

    assert screen.getvalue().splitlines() == [
        "paused: 8 expected",
        "  node-1 folder  /tmp/sk-1/node-1",
        "Enter ends the story, Ctrl-C the run",
    ]


def test_pause_needs_a_terminal(keys: tuple[IO[bytes], IO[str]]) -> None:
    with pytest.raises(InputError, match="needs a terminal"):
        until_enter(io.StringIO(), Terminal())
    with pytest.raises(InputError, match="needs a terminal"):
        until_enter(keys[1], io.StringIO())
