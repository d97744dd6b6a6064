"""A written trace as timelines in the terminal, and as a page; what is no trace is one line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from scenarios.play.recording import read_trace
from scenarios.play.replay import lines, print_timelines, write_replay
from scenarios.trace.events import StepStarted
from simkubelet.model.errors import InputError
from tests.support.recorded import FAILS, PASSES, entries


def test_each_entry_is_a_line_with_both_times_and_its_lanes() -> None:
    assert [line.plain for line in lines(PASSES)] == [
        " node time   real time  between                what",
        "   0.000 s     0.000 s  story                  step 1: the beginning",
        "  10.000 s     0.500 s  kubelet                the kubelet serves its registration socket",
        "  20.000 s     1.000 s  plugin mine            mine was started, process 1",
        "  30.000 s     1.500 s  plugin mine → kubelet  ListAndWatch example.com/gpu: 1 healthy, 0 unhealthy",
        "  40.000 s     2.000 s  story                  step 1: the expectation is met",
    ]


def test_long_trace_is_printed_from_its_beginning() -> None:
    long = entries(*(StepStarted(number, "again") for number in range(5_000)))

    assert len(list(lines(long))) == 5_001


def test_stories_have_their_names_above() -> None:
    out = io.StringIO()

    print_timelines({"passes": PASSES, "fails": FAILS}, Console(file=out, width=80))

    printed = out.getvalue().splitlines()
    assert (printed[0], printed[7:9], printed[-1].strip()[-10:]) == ("passes", ["", "fails"], "2; actual 0"[-10:])


def test_page_says_what_a_trace_shows_of_each_story(two_stories: Path, tmp_path: Path) -> None:
    write_replay(tmp_path / "report", two_stories, read_trace(two_stories))

    page = (tmp_path / "report" / "index.html").read_text()
    assert 'data-verdict="RECORDED" data-number="1"' in page
    assert 'data-verdict="FAILED" data-number="2"' in page
    assert "capacity: expected 2; actual 0" in page
    assert "PASSED" not in page


def test_page_that_cannot_be_written_is_one_line(two_stories: Path) -> None:
    with pytest.raises(InputError, match=r"^--report: '/dev/null/index.html' cannot be written: Not a directory$"):
        write_replay(Path("/dev/null"), two_stories, read_trace(two_stories))
