"""Each test gets an API server of its own, see `tests.support.remote`, and a folder for a kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.node import short_folder
from tests.support.remote import Joined, Server, serving

__all__ = ["short_folder"]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def joined(server: Server) -> AsyncIterator[Joined]:
    async with server.joined() as joined:
        yield joined
