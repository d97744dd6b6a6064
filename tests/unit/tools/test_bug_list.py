"""The page about known bugs is what the stories say."""

from __future__ import annotations

import re

import pytest

from scenarios.story.known_bugs import known_bugs
from tools.generate import bug_list

PAGE = bug_list.PAGE.read_text()
TABLES = PAGE.partition("## Bugs without a story")[0]


def test_page_is_that_of_the_stories() -> None:
    assert bug_list.page(PAGE) == PAGE, "run: python -m tools.generate.bug_list"


def test_every_bug_has_a_whole_row() -> None:
    rows = [re.split(r" (?<!\\)\| ", line) for line in TABLES.splitlines() if re.match(r"\| [A-Z]+\d+ ", line)]

    assert sorted(row[0].removeprefix("| ") for row in rows) == sorted(known.bug.id for known in known_bugs())
    assert {len(row) for row in rows} == {len(bug_list.HEAD[0].split(" | "))}


def test_changed_row_is_rewritten_and_the_rest_stays() -> None:
    stale = PAGE.replace("| K4 |", "| K04 |").replace("| P9 |", "| P09 |")

    assert stale != PAGE
    assert bug_list.page(stale) == PAGE


def test_page_without_a_heading_is_refused() -> None:
    with pytest.raises(SystemExit, match="no heading '## Device plugins'"):
        bug_list.page(PAGE.replace("## Device plugins", "## Plugins"))
