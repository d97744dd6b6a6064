"""A node under test, see `tests.support.stub_plugin`: each test gets a folder, a clock and a cluster of its own."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faker import Faker

from simkubelet.change import Change
from simkubelet.clock import ManualClock
from simkubelet.cluster import Scheduler, Store
from simkubelet.events import NodeEvent
from simkubelet.kubelet import Kubelet
from simkubelet.version import version
from tests.support.stub_plugin import Node


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path leaves room for socket names."""
    folder = Path(tempfile.mkdtemp(prefix="sk-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def make_node(short_folder: Path, faker: Faker) -> AsyncIterator[Callable[..., Any]]:
    """Builds the node of a test: ``await make_node(minor="1.34", scheduler=False)``."""
    nodes: list[Node] = []
    async with asyncio.TaskGroup() as tasks:

        async def make(minor: str = "1.34", *, scheduler: bool = False) -> Node:
            events: list[NodeEvent] = []
            changed = Change()

            def observe(event: NodeEvent) -> None:
                events.append(event)
                changed.notify()

            clock, store = ManualClock(), Store(observe)
            kubelet = Kubelet(
                short_folder, "node-1", version=version(minor), clock=clock, store=store, observe=observe, tasks=tasks
            )
            await kubelet.start()
            node = Node(kubelet, store, clock, short_folder, events, changed, faker)
            nodes.append(node)
            if scheduler:
                background.append(tasks.create_task(Scheduler(store, clock, version(minor)).run()))
            return node

        background: list[asyncio.Task[None]] = []
        yield make
        for node in nodes:
            for plugin in node.plugins:
                await plugin.stop()
            await node.kubelet.stop()
        for task in background:
            task.cancel()


@pytest.fixture
async def node(make_node: Callable[..., Any]) -> Node:
    """A node of Kubernetes 1.34 without a scheduler: pods are bound by name."""
    return await make_node()
