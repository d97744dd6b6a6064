"""The column of the page about fidelity that comes from runs on kind."""

from __future__ import annotations

import pytest

from tools.generate import kind_column

KNOWN = frozenset({"one", "two"})


def page(verified, *kind):
    heading = ["observable", "verified", *(["kind"] if kind else [])]
    lines = (heading, ["---"] * len(heading), ["a", verified, *kind])
    return "text | with a bar\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n| other | table |\n"


@pytest.mark.parametrize(
    ("verified", "equal", "shown"),
    [
        pytest.param("machine; unit one.py", {"one": ["1.34.4"]}, "", id="no story"),
        pytest.param("machine; story one", {}, "", id="never played"),
        pytest.param("story one; unit x.py", {"one": ["1.34.4"]}, "1.34.4", id="equal"),
        pytest.param("story one, two", {"one": ["1.34.4"]}, "1.34.4: one", id="some are equal"),
        pytest.param(
            "story one, two",
            {"one": ["1.34.4", "1.35.0"], "two": ["1.34.4"]},
            "1.34.4; 1.35.0: one",
            id="two versions",
        ),
    ],
)
def test_row_shows_the_versions_on_which_its_stories_were_equal(verified, equal, shown):
    written = kind_column.with_column(page(verified), equal, KNOWN)

    assert written == page(verified, shown)
    assert kind_column.with_column(written, equal, KNOWN) == written


def test_old_versions_go():
    assert kind_column.with_column(page("story one", "1.30.0"), {}, KNOWN) == page("story one", "")


def test_unknown_story_is_reported_with_its_line():
    with pytest.raises(kind_column.PageError, match=r"docs/fidelity\.md:5: there is no story 'three' in the catalogue"):
        kind_column.with_column(page("story one, three"), {}, KNOWN)


def test_page_is_fresh():
    known = frozenset(path.stem for path in kind_column.CATALOG.rglob("*.yaml"))
    told = kind_column.PAGE.read_text()

    assert kind_column.with_column(told, kind_column.recorded(kind_column.RECORDED), known) == told
