"""What a run prints: its verdicts, what there is to know about each failure, and the totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..evaluation.verdict import Outcome, Verdict
from .failure import failure_lines

_PLAIN_WIDTH = 160
"""Columns where the output is no terminal."""

_STYLES = {
    Outcome.VALID: "bold green",
    Outcome.INVALID: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.UNKNOWN: "bold yellow",
    Outcome.SKIPPED: "cyan",
}


def console() -> Console:
    """Standard output; plain and wide where it is not a terminal."""
    terminal = _Console(highlight=False)
    return terminal if terminal.is_terminal else _Console(highlight=False, width=_PLAIN_WIDTH)


class _Console(Console):
    """A console that leaves the exit status to the run when nobody reads on."""

    def on_broken_pipe(self) -> None:
        raise


def table(verdicts: Sequence[Verdict], summaries: Mapping[str, str]) -> Table:
    """One row per story: its verdict, its time, and what it is about or why it stopped.

    Args:
        verdicts: In the order to show.
        summaries: Story name -> what it is about, in a sentence.
    """
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    result.add_column("story", no_wrap=True)
    result.add_column("verdict", no_wrap=True)
    result.add_column("time", justify="right", no_wrap=True)
    result.add_column("what", overflow="fold")
    for verdict in verdicts:
        result.add_row(
            verdict.scenario,
            Text(verdict.outcome.word, style=_STYLES[verdict.outcome]),
            f"{verdict.duration_s:.2f} s",
            Text(verdict.reason or summaries.get(verdict.scenario, "")),
        )
    return result


def totals(verdicts: Sequence[Verdict], wall_s: float) -> str:
    """The last line of a run: how many stories of each outcome, and the time from first to last."""
    counts = [(outcome, sum(verdict.outcome is outcome for verdict in verdicts)) for outcome in Outcome]
    parts = ", ".join(f"{count} {outcome.word.lower()}" for outcome, count in counts if count)
    return f"{parts} in {wall_s:.2f} s"


def print_run(verdicts: Sequence[Verdict], summaries: Mapping[str, str], wall_s: float) -> None:
    """Print the table, the failures and the totals to standard output."""
    out = console()
    out.print(table(verdicts, summaries))
    for verdict in verdicts:
        for number, line in enumerate(failure_lines(verdict)):
            if number == 0:
                out.print()
            out.print(Text(line), soft_wrap=True)
    out.print()
    for verdict in verdicts:
        if verdict.kept is not None:
            out.print(Text(f"kept {verdict.kept}  {verdict.scenario}"), soft_wrap=True)
    for line in _skipped_lines(verdicts):
        out.print(Text(line), soft_wrap=True)
    out.print(totals(verdicts, wall_s))


def _skipped_lines(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """What this machine lacks and how to fix it, a line for each reason, with how many stories were skipped for it."""
    counts = Counter(remedy for verdict in verdicts for remedy in verdict.remedies)
    return tuple(f"{count} skipped: {remedy}" for remedy, count in counts.items())
