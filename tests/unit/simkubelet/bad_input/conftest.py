"""Every test of this folder gives back what it took: file descriptors and tasks are counted before and after it."""

from __future__ import annotations

import asyncio
import gc
import os
from collections import Counter
from collections.abc import AsyncIterator

import grpc
import pytest

from tests.support.patience import LIMIT_S


def held() -> tuple[Counter[str], frozenset[str]]:
    """The kinds of the open file descriptors, and the names of the other tasks."""
    kinds: Counter[str] = Counter()
    for entry in os.scandir("/proc/self/fd"):
        try:
            kinds[os.readlink(entry.path).partition(":")[0]] += 1  # noqa: PTH115 - most are no paths
        except FileNotFoundError:
            # The descriptor of the listing itself.
            continue
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return kinds, frozenset(task.get_name() for task in others)


@pytest.fixture(autouse=True)
async def nothing_leaks() -> AsyncIterator[None]:
    # What gRPC holds once for all its users is there before and after: this channel is one of them.
    async with grpc.aio.insecure_channel("unix:/nowhere") as channel:
        channel.get_state(try_to_connect=False)
        before = held()
        yield
        await until_given_back(*before)


async def until_given_back(kinds: Counter[str], tasks: frozenset[str]) -> None:
    try:
        async with asyncio.timeout(LIMIT_S):
            while any(left(kinds, tasks)):
                gc.collect()
                # gRPC closes its sockets on threads of its own, and nothing tells when.
                await asyncio.sleep(0.01)
    except TimeoutError:
        descriptors, running = left(kinds, tasks)
        pytest.fail(f"not given back: descriptors {dict(descriptors)}, tasks {sorted(running)}")


def left(kinds: Counter[str], tasks: frozenset[str]) -> tuple[Counter[str], frozenset[str]]:
    kinds_now, tasks_now = held()
    return kinds_now - kinds, tasks_now - tasks
