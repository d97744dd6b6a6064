"""Feeds in: what becomes of stories, in the order in which it happens. Observed: what is printed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from scenarios.evaluation.verdict import Failure, Outcome, Verdict
from scenarios.play.console import Screen

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


def test_kept_folder_is_named() -> None:
    kept = Verdict("fine", Outcome.VALID, 0.25, kept=Path("/tmp/sk-1"))

    assert lines(played=(kept,)) == ["", "kept /tmp/sk-1  fine", "1 passed in 2.00 s"]


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


def test_run_goes_on_when_nobody_reads(capfd: pytest.CaptureFixture[str]) -> None:
    end, begin = os.pipe()
    os.close(end)
    with os.fdopen(begin, "w") as stream, os.fdopen(os.dup(1), "w") as stdout:
        terminal = Console(file=stream)
        terminal.on_broken_pipe = raise_again  # type: ignore[method-assign]
        screen = Screen(SUMMARIES, 4, terminal=terminal)
        try:
            screen.ended(FINE)
            screen.ended(FAILED)
        finally:
            os.dup2(stdout.fileno(), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), begin)


def raise_again() -> None:
    raise
