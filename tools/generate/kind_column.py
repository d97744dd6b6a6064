"""Write the column `kind` of ``docs/fidelity.md``: the Kubernetes versions on which a row's stories were equal.

A row names stories that verify it (``story NAME, NAME``) in its column `verified`. ``tests/recorded`` has what kind
clusters recorded of stories, each when it was equal to the simulator's trace, below the cluster's version. A cell has
the versions on which all stories of its row were equal, and a version with names if only those were. With ``--check``
nothing is written and the exit status says whether the committed page is current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tools.generate.committed_page import write_or_check

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "fidelity.md"
RECORDED = ROOT / "tests" / "recorded"
CATALOG = ROOT / "scenarios" / "catalog"
VERIFIED, KIND = "verified", "kind"

Equal = Mapping[str, Collection[str]]
"""Story -> the versions on which it was equal."""


class PageError(Exception):
    """The page names a story that there is not."""


def recorded(folder: Path) -> Equal:
    """Return what was recorded, by the names of files: ``1.34.4/TOPIC/STORY.jsonl``."""
    equal: dict[str, list[str]] = {}
    for file in folder.rglob("*.jsonl"):
        equal.setdefault(file.stem, []).append(file.relative_to(folder).parts[0])
    return equal


def with_column(page: str, equal: Equal, known: frozenset[str]) -> str:
    """Return a page with a new column.

    Args:
        page: Markdown; tables whose heading has `verified` get the column `kind` behind it.
        equal: What was recorded.
        known: Names of all stories.

    Raises:
        PageError: A row names a story that is not known.
    """
    return "".join(f"{line}\n" for line in _lines(page.splitlines(), equal, known))


def _lines(lines: list[str], equal: Equal, known: frozenset[str]) -> Iterator[str]:
    place = None
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if VERIFIED in cells:
            place = cells.index(VERIFIED)
            value = KIND
        elif place is not None and cells:
            value = "---" if set(cells[0]) == {"-"} else _cell(_stories(cells[place]), equal, known, number)
        else:
            place = None
            yield line
            continue
        yield f"| {' | '.join([*cells[: place + 1], value])} |"


def _stories(verified: str) -> list[str]:
    found = re.findall(r"(?:^|; )stor(?:y|ies) ([^;]+)", verified)
    return [name.strip() for names in found for name in names.split(",")]


def _cell(stories: list[str], equal: Equal, known: frozenset[str], line: int) -> str:
    for story in stories:
        if story not in known:
            raise PageError(f"{PAGE.relative_to(ROOT)}:{line}: there is no story '{story}' in the catalogue")
    versions = sorted({version for story in stories for version in equal.get(story, ())})
    shown = []
    for version in versions:
        were = [story for story in stories if version in equal.get(story, ())]
        shown.append(version if were == stories else f"{version}: {', '.join(were)}")
    return "; ".join(shown)


def page() -> str:
    """Return the page with a column of what is recorded now.

    Raises:
        SystemExit: The page names a story that there is not.
    """
    known = frozenset(path.stem for path in CATALOG.rglob("*.yaml"))
    try:
        return with_column(PAGE.read_text(encoding="utf-8"), recorded(RECORDED), known)
    except PageError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "kind_column", __doc__))
