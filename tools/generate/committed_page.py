"""What the generators of pages have in common: replace tables of a page, write it, or say whether it is current."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

_TABLE: Final = re.compile(r"^\|.*\n(?:\|.*\n)*(?:\nThe keys of `\w+`:\n\n(?:(?:- |  ).*\n)+)*", re.MULTILINE)
"""A table, and lists of keys that follow it."""


def write_or_check(page: Path, generate: Callable[[], str], module: str, about: str | None) -> int:
    """Run a generator's command line; return its exit status, 1 where ``--check`` finds a stale page.

    Args:
        page: The committed file.
        generate: Makes its content.
        module: The generator's name below `tools.generate`.
        about: Its docstring, of which the help shows the first line.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the page is stale")
    is_check = parser.parse_args().check
    fresh = generate()
    if not is_check:
        page.write_text(fresh, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != fresh:
        print(f"stale: {page.name}; run: python -m tools.generate.{module}", file=sys.stderr)
        return 1
    return 0


def with_tables(page: Path, tables: Mapping[str, Sequence[str]], text: str | None = None) -> str:
    """Return a page with fresh tables; what stands around them stays.

    Args:
        page: The committed file.
        tables: Heading, such as ``## Events`` -> the lines of the first table below it.
        text: Its content; by default the file's.

    Raises:
        SystemExit: The page has no such heading.
    """
    text = page.read_text(encoding="utf-8") if text is None else text
    for heading, lines in tables.items():
        before, title, after = text.partition(f"\n{heading}\n")
        if not title:
            raise SystemExit(f"docs/{page.name} has no heading '{heading}'")
        old = _TABLE.search(after)
        start, end = old.span() if old else (0, 0)
        text = "".join([before, title, after[:start], *(f"{line}\n" for line in lines), after[end:]])
    return text


def in_cell(text: str) -> str:
    """Return a docstring's text for a cell of a table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def escaped(text: str) -> str:
    """Keep what Markdown would take for a tag or for emphasis; code stays as it is."""
    return re.sub(r"(`[^`]*`)|<(?=\w)|\*", lambda found: found[1] or f"\\{found[0]}", text)
