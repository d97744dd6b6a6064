"""What a campaign has played and found, in one SQLite file that survives the end of the campaign at any moment.

Each story is one row with its number as the key: it is there or it is not, and it is never there twice. The rows of a
batch come in one transaction. The file is in WAL mode, so that it can be read while the campaign goes on.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from simkubelet.model.errors import HostError, InputError

from ..report.written import FULL
from .player import Played
from .shrinker import Shrunk

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS campaign (format TEXT NOT NULL, seed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stories (
  number INTEGER PRIMARY KEY, outcome TEXT NOT NULL, reason TEXT NOT NULL, steps INTEGER NOT NULL,
  duration_s REAL NOT NULL, played_at REAL NOT NULL, signature TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS stories_by_signature ON stories (signature) WHERE signature != '';
CREATE TABLE IF NOT EXISTS findings (
  signature TEXT PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL, steps INTEGER NOT NULL,
  is_repeated INTEGER NOT NULL);
"""
_STRANGE_STORY: Final = """
SELECT 1 FROM stories WHERE NOT (
  number >= 0 AND outcome IN ('passed', 'failed', 'ended', 'unknown') AND typeof(reason) = 'text'
  AND typeof(signature) = 'text' AND typeof(steps) = 'integer' AND steps BETWEEN 0 AND 10000
  AND typeof(duration_s) = 'real' AND duration_s BETWEEN 0 AND 1e9
  AND typeof(played_at) = 'real' AND played_at BETWEEN 0 AND 1e11) LIMIT 1
"""
_FINDINGS: Final = "SELECT typeof(signature), typeof(text), typeof(steps), typeof(is_repeated), name FROM findings"
_TYPES: Final = ("text", "text", "integer", "integer")
_FILE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
"""Of a finding: its story is written to a file of this name."""
_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """Failures that have their signature in common.

    Attributes:
        count: How many stories failed so.
        number: The first of them.
        reason: Its reason.
        shrunk: Its smallest story; None where none was looked for yet.
    """

    signature: str
    count: int
    number: int
    reason: str
    shrunk: Shrunk | None


class Results:
    """The file of a campaign; a context manager.

    Args:
        path: The file, which is made where it is missing.
        seed: The campaign's; None for that of the file, or a new campaign's `default_seed`.
        default_seed: The seed of a new campaign.

    Raises:
        InputError: The file cannot be made or read, is something else, or has a campaign that goes on or has another
            seed.
        HostError: The disk is full.
    """

    format: ClassVar[str] = "simkubelet campaign 1"
    """What is played, and how it is made of a seed: a campaign goes on with files of its own format only."""

    def __init__(self, path: Path, seed: int | None, default_seed: int) -> None:
        self._path = path
        self._lock = self._locked()
        try:
            self._database = sqlite3.connect(path.absolute(), isolation_level=None)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise InputError(f"--results: {path} cannot be opened: {error}") from None
        try:
            self.seed = self._prepare(seed, default_seed)
        except sqlite3.Error as error:
            self._close()
            if "disk" in str(error):
                raise HostError(
                    f"--results: {path} cannot be written: {error}; make room or name another file"
                ) from None
            raise InputError(f"--results: {path} is no file of a campaign: {error}; name another file") from None
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._database.close()
        # Not before: it would also end the locks of SQLite, which are the process's.
        os.close(self._lock)

    def _locked(self) -> int:
        """The file, locked for as long as the campaign goes on, and made where it is missing."""
        if self._path.is_symlink() and not self._path.exists():
            raise InputError(f"--results: {self._path} is a link to nothing; remove it or name another file")
        try:
            lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except OSError as error:
            kind = HostError if error.errno in FULL else InputError
            raise kind(f"--results: {self._path} cannot be opened: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            os.close(lock)
            raise InputError(f"--results: {self._path} is no file; name one")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(
                f"--results: another campaign goes on in {self._path}; wait for it, or name another file"
            ) from None
        return lock

    def _prepare(self, seed: int | None, default_seed: int) -> int:
        # All that may refuse the file comes before the first change of it.
        # The file may be of somebody else: nothing in it is run, and what is read is of the form that is written.
        self._database.execute("PRAGMA trusted_schema = OFF")
        self._database.text_factory = lambda text: text.decode(errors="replace")
        schema = _schema(self._database)
        names = {name for _, name, _ in schema}
        if schema - _own_schema() or (names and "campaign" not in names):
            raise InputError(f"--results: {self._path} has tables of something else; name another file")
        row = self._database.execute("SELECT format, seed FROM campaign").fetchone() if names else None
        if row is not None and row[0] != self.format:
            raise InputError(f"--results: {self._path} is of another version or kind of campaign; name another file")
        if row is not None and (not isinstance(row[1], int) or self._is_strange(names)):
            raise InputError(f"--results: {self._path} is no file of a campaign: it has values of another form")
        if row is not None and seed not in (None, int(row[1])):
            raise InputError(
                f"--results: {self._path} has a campaign with seed {row[1]}; continue it without --seed, or name "
                "another file"
            )
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(_TABLES)
        if row is not None:
            return int(row[1])
        new = default_seed if seed is None else seed
        self._database.execute("INSERT INTO campaign VALUES (?, ?)", (self.format, new))
        return new

    def _is_strange(self, names: set[str]) -> bool:
        """Whether rows have other values than this writes."""
        if "stories" in names and self._database.execute(_STRANGE_STORY).fetchone() is not None:
            return True
        return "findings" in names and any(
            tuple(types) != _TYPES or not (isinstance(name, str) and _FILE_NAME.fullmatch(name))
            for *types, name in self._database.execute(_FINDINGS)
        )

    def add(self, played: Iterable[Played]) -> None:
        """Take stories; those that are there already stay as they are.

        Raises:
            HostError: The file cannot be written.
        """
        rows = ((*astuple(one), one.signature) for one in played)
        try:
            # A signal may end this at any moment: what was begun is taken back.
            with self._database:
                self._database.execute("BEGIN")
                self._database.executemany("INSERT OR IGNORE INTO stories VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise HostError(f"{self._path}: cannot be written: {error}; run the command again to go on") from None

    def add_finding(self, signature: str, shrunk: Shrunk) -> None:
        """Take the smallest story of a finding."""
        row = (signature, shrunk.name, shrunk.text, shrunk.steps, shrunk.is_repeated)
        self._database.execute("INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?, ?)", row)

    @property
    def count(self) -> int:
        """How many stories were played."""
        return int(self._one("SELECT count(*) FROM stories"))

    def missing(self, most: int | None) -> Iterator[int]:
        """The numbers of the stories that were not played yet, in order: below `most`, or without an end."""
        number = 0
        played = self._database.execute("SELECT number FROM stories ORDER BY number").fetchall()
        for (taken,) in played:
            yield from range(number, min(taken, taken if most is None else most))
            number = taken + 1
        while most is None or number < most:
            yield number
            number += 1

    def outcomes(self) -> dict[str, int]:
        """Outcome -> how many stories ended so."""
        return dict(self._all("SELECT outcome, count(*) FROM stories GROUP BY outcome ORDER BY outcome"))

    def findings(self) -> list[Finding]:
        """All findings, the most frequent first."""
        rows = self._all(
            "SELECT s.signature, count(*), min(s.number), f.name, f.text, f.steps, f.is_repeated FROM stories s "
            "LEFT JOIN findings f ON f.signature = s.signature WHERE s.signature != '' "
            "GROUP BY s.signature ORDER BY count(*) DESC, min(s.number)"
        )
        found = []
        for signature, count, number, name, text, steps, is_repeated in rows:
            reason = str(self._one("SELECT reason FROM stories WHERE number = ?", number))
            shrunk = None if name is None else Shrunk(name, text, steps, bool(is_repeated))
            found.append(Finding(signature, count, number, reason, shrunk))
        return found

    def by_minute(self) -> list[tuple[int, int, int]]:
        """Minute since 1970, stories and failures in it; minutes without any are left out."""
        return self._all(
            f"SELECT CAST(played_at / {_MINUTE_S} AS INTEGER), count(*), sum(outcome = 'failed') FROM stories "  # noqa: S608
            "GROUP BY 1 ORDER BY 1"
        )

    def durations_s(self) -> list[float]:
        """The real time of each story."""
        return [duration for (duration,) in self._all("SELECT duration_s FROM stories")]

    def lengths(self) -> list[tuple[int, int, int]]:
        """Steps of a story, how many stories have as many, and how many of these failed."""
        return self._all("SELECT steps, count(*), sum(outcome = 'failed') FROM stories GROUP BY 1 ORDER BY 1")

    def _one(self, query: str, *values: object) -> Any:
        return self._database.execute(query, values).fetchone()[0]

    def _all(self, query: str) -> list[Any]:
        with closing(self._database.execute(query)) as rows:
            return rows.fetchall()


def _schema(database: sqlite3.Connection) -> set[tuple[str, str, str | None]]:
    """The type, name and text of all that a database has but rows and statistics."""
    return set(database.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"))


def _own_schema() -> set[tuple[str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_TABLES)
        return _schema(database)
