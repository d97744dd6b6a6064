"""Fixtures feed in: a real API server with one node, pods as a scheduler annotates them, calls that fail on request.

Observed are the answers of a plugin to the kubelet's calls, and what it leaves in the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from plugin.gpumemory.gpus import Gpu
from tests.support.gpu_memory_world import World, gpu_memory_world


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with gpu_memory_world(monkeypatch) as one:
        yield one


@pytest.fixture
def make_gpus() -> Callable[..., tuple[Gpu, ...]]:
    """GPUs with so many MiB each."""
    return lambda *memory: tuple(
        Gpu(index, f"GPU-{index}", "Fake", 7 + index, mib, index % 2) for index, mib in enumerate(memory)
    )
