"""Write the tables of ``docs/bugs.md`` from the sections ``bug`` of the built-in stories.

The text around the tables stays. With ``--check`` nothing is written and the exit status says whether the committed
page is fresh.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scenarios.story.bug import KUBELET
from scenarios.story.known_bugs import KnownBug, known_bugs
from tools.generate.committed_page import write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "bugs.md"
HEAD: Final = ("| id | what happens | affected | fixed in | reports |", "| --- | --- | --- | --- | --- |")
_TABLE: Final = re.compile(r"^\|.*\n(?:\|.*\n)*", re.MULTILINE)


def tables() -> dict[str, list[str]]:
    """Return heading of the page -> the lines of its table."""
    known = known_bugs()
    of_kubelet = [each for each in known if each.bug.component == KUBELET]
    of_plugins = [each for each in known if each.bug.component != KUBELET]
    return {"The kubelet": list(lines(of_kubelet)), "Device plugins": list(lines(of_plugins))}


def lines(known: Iterable[KnownBug]) -> Iterator[str]:
    """Yield the lines of a table, one per bug."""
    yield from HEAD
    for each in known:
        bug = each.bug
        what = f"{each.title}: [{each.story}]({_story_file(each)})"
        affected = f"`{bug.affected}`" if bug.component == KUBELET else f"{bug.component}: {bug.affected}"
        links = ", ".join(map(_link, bug.links))
        cells = (bug.id, what, affected, ", ".join(bug.fixed), links)
        yield f"| {' | '.join(map(_escaped, cells))} |"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _story_file(known: KnownBug) -> str:
    return f"../scenarios/catalog/{known.story}.yaml"


def _link(link: str) -> str:
    repository, _, number = link.partition("#")
    # Of a pull request too: the address of an issue leads there.
    return f"[{link}](https://github.com/{repository}/issues/{number})"


def page(text: str) -> str:
    """Return the page with fresh tables."""
    for heading, rows in tables().items():
        before, title, after = text.partition(f"\n## {heading}\n")
        if not title:
            raise SystemExit(f"docs/{PAGE.name} has no heading '## {heading}'")
        text = before + title + _with_table(after, "".join(f"{row}\n" for row in rows))
    return text


def _with_table(text: str, table: str) -> str:
    """Replace the first table of a text."""
    return _TABLE.sub(lambda match: table, text, count=1)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda: page(PAGE.read_text(encoding="utf-8")), "bug_list", __doc__))
