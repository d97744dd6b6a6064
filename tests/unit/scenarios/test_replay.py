"""A written trace as timelines in the terminal, and as a page; what is no trace is one line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from scenarios.play.recording import read_trace
from scenarios.play.replay import lines, print_timelines, write_replay
from scenarios.trace.events import ExpectationFailed, ExpectationMet, PluginStarted, StepStarted
from scenarios.trace.trace import Entry, Event, write_lines
from simkubelet.model.errors import InputError
from simkubelet.model.events import DevicesListed, KubeletStarted


def entries(*events: Event) -> list[Entry]:
    return [Entry(seq, seq * 10.0, event, seq * 0.5) for seq, event in enumerate(events)]


PASSES = entries(
    StepStarted(0, "the beginning"),
    KubeletStarted("node-1", "v1.34.4"),
    PluginStarted("mine", "node-1", 1),
    DevicesListed("node-1", "example.com/gpu", ("gpu-0",), ()),
    ExpectationMet(0),
)
FAILS = entries(StepStarted(0, "the beginning"), ExpectationFailed(0, ("capacity: expected 2; actual 0",)))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    with path.open("w") as stream:
        write_lines(PASSES, stream, "passes")
        write_lines(FAILS, stream, "fails")
    return path


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


def test_page_says_what_a_trace_shows_of_each_story(trace: Path, tmp_path: Path) -> None:
    write_replay(tmp_path / "report", trace, read_trace(trace))

    page = (tmp_path / "report" / "index.html").read_text()
    assert 'data-verdict="RECORDED" data-number="1"' in page
    assert 'data-verdict="FAILED" data-number="2"' in page
    assert "capacity: expected 2; actual 0" in page
    assert "PASSED" not in page


def test_page_that_cannot_be_written_is_one_line(trace: Path) -> None:
    with pytest.raises(InputError, match=r"^--report: '/dev/null/index.html' cannot be written: Not a directory$"):
        write_replay(Path("/dev/null"), trace, read_trace(trace))
