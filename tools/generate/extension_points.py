"""Write the table of extension points in ``docs/fidelity.md`` from ``extension_points.yaml``.

The text around the table stays. With ``--check`` nothing is written and the exit status says whether the committed page
is fresh. ``tools/check/scheduler_plugins.py`` compares the file with kube-scheduler's source.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from simkubelet.model.version import SUPPORTED
from tools.generate.committed_page import with_tables, write_or_check

__all__ = ["PAGE", "SCHEDULER", "Entry", "entries", "page", "points_of"]

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "fidelity.md"
SCHEDULER: Final = "cluster/scheduler"
_HEADING: Final = "## Extension points of the scheduler"
_HEAD: Final = (
    "| plugin | extension points | minors | simkubelet | differs without |",
    "| --- | --- | --- | --- | --- |",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """Some extension points of a plugin.

    Attributes:
        plugin: Its name in the default profile.
        points: Their interfaces, without ``Plugin`` at the end.
        minors: Those whose plugin has them, such as "1.34"; one after the other.
        here: The modules that have them, below `SCHEDULER`; none where nothing has.
        differs: What differs without; empty where something has them.
    """

    plugin: str
    points: tuple[str, ...]
    minors: tuple[str, ...]
    here: tuple[str, ...]
    differs: str

    def line(self) -> str:
        """Return its row."""
        first, last = self.minors[0], self.minors[-1]
        if first == last:
            when = first
        elif last == SUPPORTED[-1]:
            when = "all" if first == SUPPORTED[0] else f"{first} on"
        else:
            when = f"{first} to {last}"
        modules = ", ".join(f"`{SCHEDULER}/{module}.py`" for module in self.here)
        return f"| {self.plugin} | {', '.join(self.points)} | {when} | {modules} | {self.differs} |"


@cache
def entries() -> tuple[Entry, ...]:
    """Return what the file has, in its order."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return tuple(_entries(yaml.safe_load(text)))


def _entries(read: dict[str, list[dict[str, object]]]) -> Iterator[Entry]:
    for plugin, parts in read.items():
        for part in parts:
            first, last = (SUPPORTED.index(str(part.get(key, default))) for key, default in _ENDS.items())
            lists = {key: tuple(map(str, _list(part.get(key)))) for key in ("points", "here")}
            yield Entry(plugin, minors=SUPPORTED[first : last + 1], differs=str(part.get("differs", "")), **lists)


_ENDS: Final = {"since": SUPPORTED[0], "until": SUPPORTED[-1]}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def points_of(minor: str) -> dict[str, frozenset[str]]:
    """Return plugin -> its extension points in a minor, such as "1.34"."""
    found: dict[str, frozenset[str]] = {}
    for entry in entries():
        if minor in entry.minors:
            found[entry.plugin] = found.get(entry.plugin, frozenset()) | {*entry.points}
    return found


def page() -> str:
    """Return the whole page with a fresh table."""
    return with_tables(PAGE, {_HEADING: [*_HEAD, *(entry.line() for entry in entries())]})


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "extension_points", __doc__))
