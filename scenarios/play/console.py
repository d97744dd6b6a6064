"""What a run prints: a line for each story as it ends, then what is known about each failure, and the totals.

Lines come in the order in which stories end, and in one layout, as all names are known before. On a terminal the
stories under way are shown below them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from simkubelet.host import escape, one_line, styled_output, unprintable, visible

from ..evaluation.verdict import Outcome, Verdict
from .failure import failure_lines

if TYPE_CHECKING:
    from ..report.live_view import LiveView

_STYLES: Final = {
    Outcome.VALID: "bold green",
    Outcome.INVALID: "bold red",
    Outcome.ERROR: "bold magenta",
    Outcome.UNKNOWN: "bold yellow",
    Outcome.SKIPPED: "cyan",
    Outcome.ENDED: "yellow",
}
_WORD_WIDTH: Final = len(Outcome.SKIPPED.word)
_PLAIN_WIDTH: Final = 160
"""Columns where the output is no terminal."""
_SPINNER_WIDTH: Final = 2
_LEAST_REASON: Final = 24
"""Columns of a failure's reason on a narrow terminal."""
_QUIET: Final = (Outcome.VALID, Outcome.SKIPPED)
"""Of these a quiet run shows only how many there are."""


class Screen:
    """Standard output during a run; leave it before anything else is printed.

    Args:
        summaries: Story name -> what it is about, in a sentence; of all stories that are to be played.
        total: How many verdicts there will be.
        is_quiet: Whether stories that pass or are skipped have no line.
        is_live: Whether a terminal shows what is under way.
        workspace: The checkout of a GitHub workflow, which gets an annotation for each failure; None elsewhere.
        view: Shows the timeline of each story as it is played; None for the steps alone.
        terminal: Where to print, in place of standard output; that of the view where there is one.
    """

    def __init__(
        self,
        summaries: Mapping[str, str],
        total: int,
        *,
        is_quiet: bool = False,
        is_live: bool = True,
        workspace: Path | None = None,
        view: LiveView | None = None,
        terminal: Console | None = None,
    ) -> None:
        self._summaries = summaries
        self._total = total
        self._is_quiet = is_quiet
        self._workspace = workspace
        self._terminal = terminal or (console() if view is None else view.terminal)
        self._width = max(map(len, summaries), default=0)
        self._count = 0
        self._steps: dict[str, str] = {}
        self._has_printed = False
        self._view = view
        self._status: Status | LiveView | None = view
        if view is None and self._terminal.is_terminal and is_live:
            self._status = self._terminal.status(self.under_way)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if self._status is not None:
            self._status.stop()

    @property
    def under_way(self) -> Text:
        """How far the run is, and the step of each story that is played now."""
        stories = ", ".join(f"{name} ({title})" for name, title in self._steps.items())
        text = Text(f"{self._count}/{self._total}  {stories}")
        text.truncate(self._terminal.width - _SPINNER_WIDTH, overflow="ellipsis")
        return text

    def began(self, name: str) -> None:
        """A story is under way."""
        self.stepped(name, "starting")

    def stepped(self, name: str, title: str) -> None:
        """It has come to a step."""
        self._steps[name] = title
        self._show_under_way()

    def ended(self, verdict: Verdict) -> None:
        """Print its line."""
        self._count += 1
        self._steps.pop(verdict.scenario, None)
        if self._view is not None:
            self._view.finish()
        self._show_under_way()
        if not (self._is_quiet and verdict.outcome in _QUIET):
            self._print(self._line(verdict))

    def summarize(self, verdicts: Sequence[Verdict], wall_s: float, hint: str = "") -> None:
        """Print all there is to know once a run has ended: failures, what was left out, and the totals."""
        for verdict in verdicts:
            if lines := failure_lines(verdict):
                self._print(Text("\n".join(("", *lines))))
        if self._has_printed:
            self._print(Text())
        for verdict in verdicts:
            if self._workspace is not None and verdict.outcome.is_failure:
                # Past what escapes the workflow commands of others.
                print(annotation(verdict, self._workspace), file=self._terminal.file)
        for verdict in verdicts:
            if verdict.kept is not None:
                self._print(Text(one_line(f"kept {verdict.kept}  {verdict.scenario}")))
        for line in (*_skipped_lines(verdicts), *_unplayed_lines(verdicts), totals(verdicts, wall_s)):
            self._print(Text(one_line(line)))
        if hint:
            self._print(Text(hint))

    def _line(self, verdict: Verdict) -> Text:
        name, outcome = verdict.scenario, verdict.outcome
        about = verdict.reason or self._summaries.get(name, "")
        place, word = (self._count, self._total), (outcome.word, _STYLES[outcome])
        line = result_line(place, word, name.ljust(self._width), verdict.duration_s, about)
        if failure_lines(verdict):
            # The whole reason is printed with what is known of the failure.
            line.truncate(
                max(self._terminal.width, line.cell_len - cell_len(about) + _LEAST_REASON), overflow="ellipsis"
            )
        return line

    def _show_under_way(self) -> None:
        if self._status is not None:
            self._status.update(self.under_way)

    def _print(self, text: Text) -> None:
        self._has_printed = True
        print_line(self._terminal, text)


def print_line(terminal: Console, text: Text) -> None:
    """Print text as it is."""
    text.rstrip()
    terminal.print(text, soft_wrap=True)


def result_line(place: tuple[int, int], word: tuple[str, str], name: str, duration_s: float, about: str) -> Text:
    """The line of a result: which of how many, its word in a style, what was played, for how long, and more."""
    number, total = place
    head = (word[0].ljust(_WORD_WIDTH), word[1])
    line = one_line(f" {name}  {duration_s:>6.2f} s  {about}")
    return Text.assemble(f"{number:>{len(str(total))}}/{total} ", head, line)


def console() -> Console:
    """Standard output; plain and wide where it is not a terminal."""
    terminal = _Console(file=styled_output(), highlight=False)
    return terminal if terminal.is_terminal else _Console(file=styled_output(), highlight=False, width=_PLAIN_WIDTH)


class _Console(Console):
    """A console that escapes what it is given, before it adds colours of ours."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        if isinstance(renderable, Text):
            renderable = _printable(renderable)
        return super().render(renderable, options)


def _printable(text: Text) -> Text:
    """Text with escapes for what is not printed as it is; all else has its style."""
    places = unprintable(text.plain)
    if not places:
        return text
    escaped = text.blank_copy()
    for number, part in enumerate(text.divide([cut for place in places for cut in (place, place + 1)])):
        # By turns what is printed, and what is not.
        escaped.append(escape(part.plain)) if number % 2 else escaped.append_text(part)
    return escaped


def totals(verdicts: Sequence[Verdict], wall_s: float) -> str:
    """The last line of a run: how many stories of each outcome, and the time from first to last."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return f"{counted({one.word.lower(): counts[one] for one in Outcome})} in {wall_s:.2f} s"


def counted(counts: Mapping[str, int]) -> str:
    """How many there are of each word, without those of which there is none."""
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def workspace() -> Path | None:
    """The checkout of the GitHub workflow that this process is part of; None where it is part of none."""
    is_workflow = os.environ.get("GITHUB_ACTIONS") == "true"
    return Path(os.environ.get("GITHUB_WORKSPACE", Path.cwd())) if is_workflow else None


def annotation(verdict: Verdict, workspace: Path) -> str:
    """A failure as GitHub shows it beside the line of the story, whose path is relative to the checkout.

    Source: GitHub's documentation, "Workflow commands"; escapes of actions/toolkit, packages/core/src/command.ts.
    """
    place = ""
    if verdict.path is not None:
        file = verdict.path.resolve()
        shown = file.relative_to(workspace.resolve()) if file.is_relative_to(workspace.resolve()) else file
        place = f"file={_escaped(str(shown))},line={verdict.line},"
    title = f"{verdict.scenario}: {verdict.outcome.word}"
    lines = "\n".join(failure_lines(verdict) or (verdict.reason,))
    message = lines.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return visible(f"::error {place}title={_escaped(title)}::{message}")


def _escaped(value: str) -> str:
    """A property of an annotation; `%` first, as the others make some."""
    for sign in "%\r\n:,":
        value = value.replace(sign, f"%{ord(sign):02X}")
    return value


def _skipped_lines(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """What this machine lacks and how to fix it, a line for each reason, with how many stories were skipped for it."""
    counts = Counter(remedy for verdict in verdicts for remedy in verdict.remedies)
    return tuple(f"{count} skipped: {remedy}" for remedy, count in counts.items())


def _unplayed_lines(verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    """The stories that the run did not come to, in one line."""
    names = [verdict.scenario for verdict in verdicts if verdict.outcome is Outcome.UNPLAYED]
    return (f"not played: {', '.join(names)}",) if names else ()
