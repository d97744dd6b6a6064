"""Feeds in: a file of results, and stories that were played. Observed: what the file has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.campaign.player import Played
from scenarios.campaign.results import Results

Play = Callable[..., Played]


@pytest.fixture
def play() -> Play:
    """Makes what became of a story; it failed where there is a reason."""

    def made(number: int, reason: str = "", steps: int = 9, played_at: float = 1_800_000_000.0) -> Played:
        return Played(number, "failed" if reason else "passed", reason, steps, 0.25, played_at + number)

    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "campaign.sqlite"


@pytest.fixture
def results(file: Path) -> Iterator[Results]:
    with Results(file, 7, 0) as opened:
        yield opened
