"""`simkubelet campaign` killed again and again: the same command continues, and each story is in its file once."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from .forked import Program
from .journal import Journal

_STORIES: Final = 60
"""Of one campaign, which several processes play to its end; then the next campaign begins."""
_STARTS_S: Final = 2.0
_PLAYS_S: Final = 1.0
"""How long a process may run, from its beginning, or from the time at which it has written stories."""
_GUARD_S: Final = 120.0
_LOOK_S: Final = 0.05
MARK: Final = "SIMKUBELET_KILLS"
_FAILED: Final = 1
"""The exit status of a campaign with findings."""


def kill_campaigns(kills: int, chance: random.Random, folder: Path, journal: Journal) -> None:
    """Kill so many processes of campaigns; each fourth before it has written anything."""
    campaign = 0
    while journal.kills < kills:
        campaign += 1
        file, known = folder / f"{campaign}.sqlite", frozenset[int]()
        while journal.kills < kills and len(known) < _STORIES:
            with _started(file, folder, campaign) as process:
                begin, limit_s = process.began, _STARTS_S
                if chance.random() >= 1 / 4:
                    wait_for(partial(_has_played, process, file, len(known)))
                    begin, limit_s = time.monotonic(), _PLAYS_S
                status = process.wait_until(begin + chance.uniform(0, limit_s))
                if status is None:
                    process.kill()
                    journal.kills += 1
                elif status not in {0, _FAILED}:
                    journal.lose(f"campaign {campaign} ends with {status}: {process.end_of_log()}")
            known = _compare(file, known, journal)
    # Whatever a campaign starts inherits the mark.
    wait_for(lambda: not list(marked(folder)))
    journal.lose_each(f"process {pid} is left of a campaign" for pid in marked(folder))


def _started(file: Path, folder: Path, seed: int) -> Program:
    words = ["campaign", "--seed", seed, "--stories", _STORIES, "-n", 1, "--results", file, "--findings", folder]
    return Program("simkubelet", words, folder / "log", environment={MARK: str(folder)})


def _has_played(process: Program, file: Path, before: int) -> bool:
    return process.wait_until(0) is not None or len(_numbers(file)) > before


def wait_for(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + _GUARD_S
    while not is_so() and time.monotonic() < limit:
        time.sleep(_LOOK_S)


def _compare(file: Path, known: frozenset[int], journal: Journal) -> frozenset[int]:
    """Compare the stories in the file with those that were there before; return those that there are now."""
    numbers = _numbers(file)
    now = frozenset(numbers)
    if len(numbers) != len(now):
        journal.lose(f"{file.name}: a story is there twice")
    journal.lose_each(f"{file.name}: story {number} is gone" for number in sorted(known - now))
    journal.lose_each(f"{file.name}: there is no story {number}" for number in sorted(now - {*range(_STORIES)}))
    journal.acknowledged += len(now - known)
    return now


def _numbers(file: Path) -> list[int]:
    """The stories in the file, none where the campaign has not come so far."""
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as database:
        try:
            return [number for (number,) in database.execute("SELECT number FROM stories")]
        except sqlite3.OperationalError:
            return []


def marked(folder: Path) -> Iterator[int]:
    """The processes that have the folder in their environment."""
    entry = f"{MARK}={folder}".encode()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and entry in (process / "environ").read_bytes().split(b"\0"):
                yield int(process.name)
