"""Feeds in: a tap between two folders, see `tests.support.tapped`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.tapped import Between


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tap-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
async def between(folder: Path) -> AsyncIterator[Between]:
    made = Between(folder)
    made.tap.start()
    yield made
    await made.close()
