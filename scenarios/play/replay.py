"""``simkubelet replay`` behind its options: a written trace as timelines in the terminal, or as a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from ..evaluation.verdict import Outcome, Verdict
from ..report.history import History
from ..report.terminal import between, entry_line
from ..report.written import written_for
from ..trace.events import ExpectationFailed
from ..trace.trace import Entry

if TYPE_CHECKING:
    from ..report.page import Reported

RECORDED: Final = "RECORDED"
"""In place of a verdict: a trace shows an expectation that was not met, but not that a story has passed."""


def print_timelines(stories: Mapping[str, Sequence[Entry]], out: Console) -> None:
    """Print each story, a line for each entry: both times, the lanes that it is between, and what happened."""
    for number, (story, entries) in enumerate(stories.items()):
        if number:
            out.print()
        out.print(Text(story, style="bold"))
        for line in lines(entries):
            out.print(line, soft_wrap=True)


def lines(entries: Sequence[Entry]) -> Iterator[Text]:
    """The entries of a story as lines of text, below a head."""
    history = History(entries)
    for entry in entries:
        history.take(entry)
    several = len({lane.node for one in history.moments for lane in (one.source, one.target) if lane.node}) > 1
    width = max((len(between(one, several)) for one in history.moments), default=0)
    yield Text(f"{'node time':>10}  {'real time':>10}  {'between':<{width}}  what", style="dim")
    for moment in history.moments:
        yield entry_line(moment, width, several)


def write_replay(directory: Path, trace: Path, stories: Mapping[str, Sequence[Entry]]) -> None:
    """Write a report of the stories of a trace.

    Raises:
        InputError: It cannot be written.
    """
    # The terminal needs no jinja2.
    from ..report.page import write_report

    reported = [_reported(story, entries) for story, entries in stories.items()]
    longest_s = max(story.verdict.duration_s for story in reported)
    with written_for("--report", directory):
        write_report(directory, reported, longest_s, f"simkubelet replay {trace.name}")


def _reported(story: str, entries: Sequence[Entry]) -> Reported:
    from ..report.page import Reported

    duration_s, recordings = entries[-1].real_s, {"the recorded backend": entries}
    for entry in entries:
        if isinstance(entry.event, ExpectationFailed):
            verdict = Verdict(story, Outcome.INVALID, duration_s, "; ".join(entry.event.mismatches))
            return Reported(verdict, recordings=recordings)
    return Reported(Verdict(story, Outcome.UNPLAYED, duration_s), recordings=recordings, word=RECORDED)
