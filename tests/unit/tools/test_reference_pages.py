"""The pages of reference are what the code says: commands, names, fixtures, models, events."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tools.generate import cli_reference, fixture_tables, profile_table, python_names, trace_events
from tools.generate.committed_page import escaped, with_tables


@pytest.mark.parametrize(
    "generator",
    [cli_reference, fixture_tables, profile_table, python_names, trace_events],
    ids=lambda module: module.__name__.rpartition(".")[2],
)
def test_page_is_current(generator: ModuleType) -> None:
    assert generator.PAGE.read_text() == generator.page(), f"run: python -m {generator.__name__}"


@pytest.mark.parametrize("heading", ["### simkubelet run", "#### simkubelet plugin stub", "#### fakegpu mig create"])
def test_every_command_has_a_section(heading: str) -> None:
    assert f"\n{heading}\n" in cli_reference.page()


def test_every_name_of_the_api_has_a_section() -> None:
    page = python_names.page()

    assert "### SimulatedNode\n\n`SimulatedNode(directory: Path | str, " in page
    assert "| `await start() -> None` | Start the kubelet after `stop`. |" in page
    assert not re.search(r"0x[0-9a-f]{6}|ForwardRef|\bself\b", page)


def test_every_fixture_and_marker_has_a_row() -> None:
    rows = {line.partition("`")[2].partition("`")[0] for lines in fixture_tables.tables().values() for line in lines}

    assert {"simkubelet_kubelet", "simkubelet_story", "simkubelet_plugins"} <= rows
    assert "simkubelet_machine(profile, count, mig, seed)" in rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<uid>", r"\<uid>", id="tag"),
        pytest.param("`<uid> *`", "`<uid> *`", id="code"),
        pytest.param("1 < 2", "1 < 2", id="less than"),
        pytest.param("a* `*` b*", r"a\* `*` b\*", id="emphasis"),
    ],
)
def test_what_markdown_would_hide_is_shown(text: str, expected: str) -> None:
    assert escaped(text) == expected


def test_page_without_the_heading_of_a_table_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"docs/profiles\.md has no heading '## Modles'"):
        with_tables(profile_table.PAGE, {"## Modles": []}, "# Profiles\n")
