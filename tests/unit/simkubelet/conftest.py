"""A node under test, see `tests.support.node`: each test gets a folder, a clock and a cluster of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from simkubelet.node import DEVICE_PLUGINS
from tests.support.node import Node, running_node


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for socket names."""
    folder = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def plugin_folder(short_folder: Path) -> Path:
    """The device plugin folder that the test's node will find."""
    folder = short_folder / DEVICE_PLUGINS
    folder.mkdir()
    return folder


@pytest.fixture
async def make_node(short_folder: Path, faker: Faker) -> AsyncIterator[Callable[..., Any]]:
    """Builds the node of a test: ``await make_node("1.33", scheduler=True)``."""
    async with AsyncExitStack() as stack:

        async def make(*settings: str, **options: Any) -> Node:
            node = await stack.enter_async_context(running_node(short_folder, *settings, **options))
            node.faker = faker
            return node

        yield make


@pytest.fixture
async def node(make_node: Callable[..., Any]) -> Node:
    """A node of Kubernetes 1.34 without a scheduler: pods are bound by name."""
    return await make_node()
