"""Write the tables of ``docs/bugs.md`` from the sections ``bug`` of the built-in stories.

The text around the tables stays. With ``--check`` nothing is written and the exit status says whether the committed
page is fresh.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scenarios.story.bug import KUBELET, KUBERNETES
from scenarios.story.known_bugs import KnownBug, known_bugs
from tools.generate.committed_page import in_cell, with_tables, write_or_check

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "bugs.md"
HEAD: Final = ("| id | what happens | affected | fixed in | reports |", "| --- | --- | --- | --- | --- |")


def tables() -> dict[str, list[str]]:
    """Return heading of the page -> the lines of its table."""
    known = known_bugs()
    of_kubelet = [each for each in known if each.bug.component == KUBELET]
    of_others = [each for each in known if each.bug.component in KUBERNETES - {KUBELET}]
    of_plugins = [each for each in known if each.bug.component not in KUBERNETES]
    return {
        "## The kubelet": list(lines(of_kubelet)),
        "## The control plane": list(lines(of_others)),
        "## Device plugins": list(lines(of_plugins)),
    }


def lines(known: Iterable[KnownBug]) -> Iterator[str]:
    """Yield the lines of a table, one per bug."""
    yield from HEAD
    for each in known:
        bug = each.bug
        what = f"{each.title}: [{each.story}]({_story_file(each)})"
        affected = f"`{bug.affected}`" if bug.component in KUBERNETES else bug.affected
        if bug.component != KUBELET:
            affected = f"{bug.component}: {affected}"
        links = ", ".join(map(_link, bug.links))
        cells = (bug.id, what, affected, ", ".join(bug.fixed), links)
        yield f"| {' | '.join(map(in_cell, cells))} |"


def _story_file(known: KnownBug) -> str:
    return f"../scenarios/catalog/{known.story}.yaml"


def _link(link: str) -> str:
    repository, _, number = link.partition("#")
    # Of a pull request too: the address of an issue leads there.
    return f"[{link}](https://github.com/{repository}/issues/{number})"


def page(text: str | None = None) -> str:
    """Return the page with fresh tables."""
    return with_tables(PAGE, tables(), text)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page, "bug_list", __doc__))
