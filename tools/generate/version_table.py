"""Collect what differs between Kubernetes releases from the modules of simkubelet, and write ``docs/versions.md``.

Each `Difference` is a row: declared as a constant of the module that asks for it, and each `Gate` of
``simkubelet/model/version.py``. With ``--check`` nothing is written and the exit status says whether the committed page
is up to date. Tests use `recorded` to learn which rows a story asks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, TypeAlias
from unittest.mock import patch

import simkubelet
from simkubelet.model.version import FEATURE_GATES, SUPPORTED, Difference, Gate, Version
from tools.generate.committed_page import write_or_check

Asked: TypeAlias = dict[Difference[Any], set[object]]
"""Differences that were asked, each with the values that it gave."""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "versions.md"

HEAD = f"""\
# What differs between Kubernetes minors

`simkubelet run --kubelet-version`, and the key `kubernetes` of a node in a story, choose a minor,
{SUPPORTED[0]} to {SUPPORTED[-1]}, or one of its patches where a fix came in between. The tables have all that
depends on it: a value counts from its version up to the next one. `python -m tools.generate.version_table` collects
them from the code that asks.

## Behaviour

| what | asked in | from version: value | source |
| --- | --- | --- | --- |
"""

GATES_HEAD = """
## Feature gates

What each switches, and its default; none where a release does not have it.

| gate | from version: default | source |
| --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A difference, with the name and the module of its constant."""

    name: str
    module: str
    difference: Difference[Any]


@cache
def rows() -> tuple[Row, ...]:
    """Return the differences of all modules but the gates, by module and in their order there."""
    names = sorted(found.name for found in walk_packages(simkubelet.__path__, "simkubelet."))
    modules = [import_module(name) for name in names if not name.endswith("__main__")]
    return tuple(
        Row(name.strip("_").lower(), module.__name__, difference)
        for module in modules
        # An imported constant has no annotation.
        for name in getattr(module, "__annotations__", ())
        if isinstance(difference := vars(module).get(name), Difference)
    )


def differences() -> tuple[Difference[Any], ...]:
    """Return all differences, those of gates too."""
    return (*(row.difference for row in rows()), *FEATURE_GATES.values())


@contextmanager
def recorded(of_context: ContextVar[Asked] | None = None) -> Iterator[Asked]:
    """Record which differences the code of this process asks.

    Args:
        of_context: Where a task has set it, it gets what this task asks, and the tasks that it starts.
    """
    asked: Asked = {}
    answer = Difference.at

    def at(difference: Difference[Any], release: Version) -> object:
        value = answer(difference, release)
        of_task = None if of_context is None else of_context.get(None)
        for record in (asked, of_task):
            if record is not None:
                record.setdefault(difference, set()).add(value)
        return value

    with patch.object(Difference, "at", at):
        yield asked


def line(row: Row) -> str:
    """Return a difference's line of the page."""
    module = row.module.removeprefix("simkubelet.").replace(".", "/")
    what, source = row.difference.text, row.difference.source
    return f"| `{row.name}`: {what} | `{module}.py` | {_values(row.difference)} | {source} |".replace("``", "`")


def gate_line(gate: Gate) -> str:
    """Return a gate's line of the page."""
    removed = f"<br>{gate.removed}: the gate is gone, the feature on" if gate.removed else ""
    return f"| `{gate.name}`: {gate.text} | {_values(gate)}{removed} | {gate.source} |".replace("``", "`")


def _values(difference: Difference[Any]) -> str:
    return "<br>".join(f"{since}: {_shown(value)}" for since, value in difference.values.items())


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "nothing"
    return "none" if value is None else f"`{value}`"


def page() -> str:
    """Return the whole page."""
    behaviour = "".join(f"{line(row)}\n" for row in rows())
    gates = "".join(f"{gate_line(gate)}\n" for gate in FEATURE_GATES.values())
    return f"{HEAD}{behaviour}{GATES_HEAD}{gates}"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "version_table", __doc__))
