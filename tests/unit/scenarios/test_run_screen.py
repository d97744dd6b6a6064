"""Feeds in: what becomes of stories, in the order in which it happens. Observed: what is printed."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.play.console import Screen, _Console, workspace
from simkubelet._internal.output import printable
from tests.support.doc_pages import ROOT
from tests.support.obeyed import ANY_TEXT

SUMMARIES = {"fine": "All is [well].", "a-failing-one": "It fails.", "far": "It is far.", "later": "It waits."}
FINE = Verdict("fine", Outcome.VALID, 0.25)
FAILURE = Failure("x.yaml:31", "GPU falls off", (), (), number=5, total=9)
FAILED = Verdict("a-failing-one", Outcome.INVALID, 1.5, "7 expected", FAILURE)
FAR = Verdict("far", Outcome.SKIPPED, 0.0, "it cannot run", remedies=("bwrap not found: install it",))
LATER = Verdict("later", Outcome.UNPLAYED, 0.0, "the run ended")


def lines(*verdicts: Verdict, is_quiet: bool = False, played: tuple[Verdict, ...] = (FAR, FAILED, FINE)) -> list[str]:
    """What a run prints in which these end in this order."""
    out = io.StringIO()
    with Screen(SUMMARIES, 4, is_quiet=is_quiet, terminal=Console(file=out)) as screen:
        for verdict in verdicts:
            screen.began(verdict.scenario)
            screen.stepped(verdict.scenario, "restart")
            screen.ended(verdict)
    screen.summarize(played, 2.0)
    return out.getvalue().splitlines()


def test_each_story_has_a_line_as_it_ends_in_one_layout() -> None:
    assert lines(FINE, FAILED, FAR)[:3] == [
        "1/4 PASSED  fine             0.25 s  All is [well].",
        "2/4 FAILED  a-failing-one    1.50 s  7 expected",
        "3/4 SKIPPED far              0.00 s  it cannot run",
    ]


@pytest.mark.parametrize("columns", [80, 120, 20])
def test_reason_of_a_failure_is_as_long_as_the_line(columns: int) -> None:
    reason = "expect pod trainer: phase: expected Running; actual Failed; the latest warning " + "is this one " * 20
    failed, skipped = replace(FAILED, reason=reason), replace(FAR, reason=reason)
    out = io.StringIO()
    screen = Screen(SUMMARIES, 2, terminal=Console(file=out, width=columns))

    screen.ended(failed)
    screen.ended(skipped)
    screen.summarize([failed, skipped], 1.0)

    short, whole, *rest = out.getvalue().splitlines()
    assert len(short) == max(columns, len("1/2 FAILED  a-failing-one    1.50 s  ") + 24)
    assert short.endswith("…")
    assert whole.endswith(reason.strip())
    assert f"  {reason.strip()}" in rest


def test_failures_and_totals_follow_in_the_order_of_the_run() -> None:
    assert lines(played=(FINE, FAILED, FAR, FAR, LATER)) == [
        "",
        "x.yaml:31: FAILED in step 5 of 9, 'GPU falls off'",
        "  7 expected",
        "",
        "2 skipped: bwrap not found: install it",
        "not played: later",
        "1 passed, 1 failed, 2 skipped, 1 not played in 2.00 s",
    ]


def test_quiet_run_prints_failures_alone() -> None:
    assert lines(FINE, FAILED, FAR, is_quiet=True)[:2] == ["2/4 FAILED  a-failing-one    1.50 s  7 expected", ""]


@pytest.mark.parametrize(("folder", "shown"), [(".", "odd%2C name.yaml"), ("..", "{cwd}/odd%2C name.yaml")])
def test_workflow_gets_an_annotation_of_each_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, shown: str
) -> None:
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    failed = replace(FAILED, reason="100%\n8", path=Path(folder, "odd, name.yaml"))
    out = io.StringIO()

    screen = Screen({}, 2, workspace=here, terminal=Console(file=out))
    screen.summarize((failed, FINE), 2.0)

    (line,) = [line for line in out.getvalue().splitlines() if line.startswith("::")]
    place = shown.format(cwd=here.parent)
    head = f"::error file={place},line=31,title=a-failing-one%3A FAILED::"
    assert line == f"{head}x.yaml:31: FAILED in step 5 of 9, 'GPU falls off'%0A  100%25\\n8"


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("", False), (None, False)])
def test_workspace_is_that_of_a_github_workflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    if value is not None:
        monkeypatch.setenv("GITHUB_ACTIONS", value)

    assert workspace() == (tmp_path if expected else None)


def test_quiet_run_without_failures_prints_the_totals_alone() -> None:
    assert lines(FINE, is_quiet=True, played=(FINE,)) == ["1 passed in 2.00 s"]


def test_kept_folder_is_named() -> None:
    kept = Verdict("fine", Outcome.VALID, 0.25, kept=Path("/tmp/sk-1"))

    assert lines(played=(kept,)) == ["kept /tmp/sk-1  fine", "1 passed in 2.00 s"]


def test_terminal_shows_what_is_under_way() -> None:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=100)

    with Screen(SUMMARIES, 4, terminal=terminal) as screen:
        screen.began("fine")
        screen.stepped("far", "restartKubelet")
        assert screen.under_way.plain == "0/4  fine (starting), far (restartKubelet)"
        screen.ended(FINE)
        assert screen.under_way.plain == "1/4  far (restartKubelet)"

    assert "All is [well]." in out.getvalue()


@given(st.lists(st.tuples(ANY_TEXT, st.sampled_from(["", "bold red"]))))
@example([("a\x1b", ""), ("\x1bb", "bold red"), (" ##", ""), ("[x]", "bold red")])
def test_console_escapes_what_it_is_given_and_keeps_its_own_colours(parts: list[tuple[str, str]]) -> None:
    # rich makes spaces of tabs.
    styled, out = Text.assemble(*((text.replace("\t", ""), style) for text, style in parts)), io.StringIO()
    terminal = _Console(file=out, force_terminal=True, color_system="standard", highlight=False, width=1000)

    terminal.print(styled, soft_wrap=True)

    shown = re.sub("\x1b\\[(?:1;31|0)m", "", out.getvalue())
    assert shown == f"{printable(styled.plain)}\n"


def test_part_that_is_escaped_leaves_the_colours_of_the_others() -> None:
    out = io.StringIO()
    terminal = _Console(file=out, force_terminal=True, color_system="standard", highlight=False)

    terminal.print(Text.assemble("a\x1b[2J ", ("FAILED\x9b", "bold red"), " c"), soft_wrap=True)

    assert out.getvalue() == "a\\x1b[2J \x1b[1;31mFAILED\x1b[0m\\x9b c\n"


def test_line_of_a_story_is_one_line_whatever_it_says() -> None:
    assert lines(replace(FAILED, reason="a\n::error::b\x1b[2J"))[0].endswith(r"  1.50 s  a\n\x3a:error::b\x1b[2J")


def test_rich_prints_through_the_console_that_escapes() -> None:
    sources = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "scenarios").rglob("*.py")}

    assert [str(path) for path, text in sources.items() if re.search(r"\bConsole\(", text)] == []
