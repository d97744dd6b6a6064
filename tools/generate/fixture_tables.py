"""Write the tables of fixtures, markers and options in ``docs/pytest.md``, from the pytest plugin.

With ``--check`` nothing is written and the exit status says whether the committed page is fresh.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import simkubelet.pytest_plugin as pytest_plugin
from tools.generate.committed_page import escaped, in_cell, with_tables, write_or_check

if TYPE_CHECKING:
    import pytest

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "pytest.md"


class _Asked:
    """Takes the place of pytest's parser, and keeps what the plugin adds."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def getgroup(self, name: str, description: str) -> _Asked:
        return self

    def addoption(self, option: str, *, metavar: str, help: str, **others: Any) -> None:  # noqa: A002 - pytest's name
        self.rows.append((f"{option} {metavar}", help))

    def addini(self, name: str, help: str, **others: Any) -> None:  # noqa: A002 - pytest's name
        self.rows.append((name, help))


def fixtures() -> list[tuple[str, str]]:
    """Return each fixture with what it says of itself, in the plugin's order."""
    found = {name: value for name, value in vars(pytest_plugin).items() if name.startswith("simkubelet_")}
    return [(name, inspect.getdoc(value) or "") for name, value in found.items()]


def tables() -> dict[str, list[str]]:
    """Return heading of the page -> the lines of its table."""
    asked = _Asked()
    pytest_plugin.pytest_addoption(cast("pytest.Parser", asked))
    parts = (marker.partition("): ") for marker in pytest_plugin.MARKERS)
    markers = [(f"{name})", about) for name, _, about in parts]
    return {
        "## Fixtures": _table("fixture", "is", fixtures()),
        "## Markers": _table("marker", "says", markers),
        "## Options": _table("option or setting", "says", asked.rows),
    }


def _table(name: str, is_: str, rows: list[tuple[str, str]]) -> list[str]:
    lines = [f"| `{in_cell(one)}` | {escaped(in_cell(about))} |" for one, about in rows]
    return [f"| {name} | {is_} |", "| --- | --- |", *lines]


def page(text: str | None = None) -> str:
    """Return the page with fresh tables."""
    return with_tables(PAGE, tables(), text)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "fixture_tables", __doc__))
