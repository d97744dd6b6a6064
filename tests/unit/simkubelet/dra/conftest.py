"""A DRA manager with a driver, both in the test, in a folder whose sockets have short paths."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.support.dra_node import DraWorld

MakeWorld = Callable[..., DraWorld]


@pytest.fixture
async def make_world() -> AsyncIterator[MakeWorld]:
    """Make a world of some minor, on a folder of its own."""
    async with AsyncExitStack() as ends:
        tasks = await ends.enter_async_context(asyncio.TaskGroup())

        def make(minor: str = "1.34") -> DraWorld:
            folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="dra-", dir="/dev/shm")))
            world = DraWorld(folder, tasks, minor)
            ends.push_async_callback(world.close)
            return world

        yield make


@pytest.fixture
async def world(make_world: MakeWorld) -> DraWorld:
    """A running manager of 1.34 with a registered driver."""
    made = make_world()
    await made.manager("start")
    await made.serve()
    return made
