"""``simkubelet run`` behind its options: stories in, a table of verdicts and files out, an exit status.

Below the table stand the expected and the actual values of each failure, and what happened around it. In JUnit XML a
story whose verdict is unknown is an ``error``, not a ``failure``: the machine failed, not the plugin.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table
from rich.text import Text

from simkubelet.model.errors import HostError, InputError

from ..evaluation.mismatch import shown
from ..evaluation.verdict import Failure, Outcome, Verdict, exit_status
from ..story.document import shown_path
from ..story.stories import first_sentence
from ..trace.trace import Entry, fields_of, write_lines
from .interruption import run_interruptibly
from .job import BackendName, Job, Options, Played, RunProgress, at_a_time, play_all, prepare

_OF_KIND: Final = ("kr8s", "httpx")
"""What only an installation with the extra `kind` has."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that a run writes besides its table; None means not to."""

    junit: Path | None = None
    trace: Path | None = None


def run(stories: Sequence[Path], options: Options, count: int | None, outputs: Outputs, hint: str = "") -> int:
    """Play stories and report on them.

    Args:
        stories: Their files.
        options: How each is played.
        count: How many at a time; as many as are good for this machine where it is None.
        outputs: What is written besides.
        hint: The last line of the report.

    Returns:
        The exit status of the run.

    Raises:
        InputError: What the user gave cannot be used; nothing is left behind.
        Interrupted: The user ended the run; nothing is left behind.
    """
    jobs = prepare(stories, options)
    summaries: dict[str, str] = {}
    for job in jobs:
        summaries[job.name] = summaries[job.story.scenario.name] = first_sentence(job.story.scenario.description)
    _check_writable("--junit", outputs.junit)
    _check_writable("--trace", outputs.trace)
    began = time.monotonic()
    with _live_progress() as progress:
        played = run_interruptibly(_play(jobs, options, count, progress))
    wall_s = time.monotonic() - began
    verdicts = [one.verdict for one in played]
    try:
        print_run(verdicts, summaries, wall_s)
        if hint:
            print(hint)
        sys.stdout.flush()
    except BrokenPipeError:
        # The verdict stands though nobody reads it; without this the interpreter would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _write(outputs, played)
    return exit_status(verdicts)


@contextlib.contextmanager
def _live_progress() -> Iterator[RunProgress]:
    """Show each step on standard error as it begins, in one line; nothing where standard error is not a terminal."""
    terminal = Console(stderr=True, highlight=False)
    if not terminal.is_terminal:
        yield lambda story, title: None
        return
    with terminal.status("starting") as status:
        yield lambda story, title: status.update(f"[bold]{story}[/bold]  {title}")


async def _play(jobs: Sequence[Job], options: Options, count: int | None, progress: RunProgress) -> tuple[Played, ...]:
    if options.backend is BackendName.SIM:
        return await play_all(jobs, count or at_a_time(), progress)
    try:
        from .on_cluster import play_on_cluster
    except ModuleNotFoundError as error:
        if error.name not in _OF_KIND:
            raise
        raise HostError(
            f"--backend {options.backend}: the Python package {error.name} is missing; "
            "install it with: pip install 'simkubelet[kind]'"
        ) from None
    if count is not None and count > 1:
        raise InputError("-n: a cluster takes one story at a time; leave -n out, or use --backend sim")
    return await play_on_cluster(jobs, options, progress)


def _check_writable(option: str, path: Path | None) -> None:
    if path is None:
        return
    try:
        path.open("a").close()
    except OSError as error:
        raise InputError(f"{option}: '{path}' cannot be written: {error.strerror}") from error


def _write(outputs: Outputs, played: Sequence[Played]) -> None:
    if outputs.junit is not None:
        outputs.junit.write_bytes(junit_xml([one.verdict for one in played]))
    if outputs.trace is not None:
        with outputs.trace.open("w", encoding="utf-8") as stream:
            for one in played:
                write_lines(one.events, stream, one.verdict.scenario)


_PLAIN_WIDTH = 160
"""Columns where the output is no terminal."""

_STYLES = {
    Outcome.VALID: "bold green",
    Outcome.INVALID: "bold red",
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


def failure_lines(verdict: Verdict) -> tuple[str, ...]:
    """What there is to know about a story that failed: place, step, differences, trace; nothing for others."""
    if verdict.difference:
        return (f"{verdict.scenario}: {verdict.reason}", *(f"  {line}" for line in verdict.difference))
    if verdict.failure is None:
        return ()
    failure = verdict.failure
    head = f"{failure.location}: {verdict.outcome.word} in step '{failure.step}'"
    return (head, *_differences(verdict, failure), *_happened(failure), *_logs(verdict))


def _differences(verdict: Verdict, failure: Failure) -> list[str]:
    if not failure.mismatches:
        return [f"  {verdict.reason}"]
    lines = []
    for mismatch in failure.mismatches:
        lines += [
            f"  {shown_path(mismatch.path)}",
            f"    expected  {mismatch.expected}",
            f"    actual    {mismatch.actual}",
        ]
    if failure.waited:
        lines.append(f"  {failure.waited}")
    return lines


def _happened(failure: Failure) -> list[str]:
    if not failure.events:
        return []
    return ["  what happened around it:", *(f"    {entry_line(entry)}" for entry in failure.events)]


def _logs(verdict: Verdict) -> list[str]:
    if not verdict.logs:
        return []
    return ["  what was logged:", *(f"    {file}" for file in verdict.logs)]


def entry_line(entry: Entry) -> str:
    """An entry of a trace on one line: number, time, kind and fields."""
    values = fields_of(entry.event).items()
    fields = " ".join(f"{name}={_value(value)}" for name, value in values if _says_something(value))
    return f"{entry.seq:>4} {entry.time_s:>9.3f} s  {entry.kind:<20} {fields}".rstrip()


def _says_something(value: object) -> bool:
    return value is not None and value is not False and value not in ("", (), [])


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + shown(value) + "}"
    text = shown(value)
    return f"'{text}'" if " " in text and isinstance(value, str) else text


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


_ELEMENTS = {Outcome.INVALID: "failure", Outcome.UNKNOWN: "error", Outcome.SKIPPED: "skipped"}
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(verdicts: Sequence[Verdict]) -> bytes:
    """One test suite with one test case per story, in order; UTF-8 with an XML declaration."""
    counts = {
        f"{element}s" if element != "skipped" else element: str(sum(v.outcome is outcome for v in verdicts))
        for outcome, element in _ELEMENTS.items()
    }
    totals = {"tests": str(len(verdicts)), **counts, "time": _seconds(sum(v.duration_s for v in verdicts))}
    root = ElementTree.Element("testsuites", totals)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "simkubelet", **totals})
    for verdict in verdicts:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "simkubelet", "name": verdict.scenario, "time": _seconds(verdict.duration_s)},
        )
        if element := _ELEMENTS.get(verdict.outcome):
            result = ElementTree.SubElement(case, element, {"message": _clean(verdict.reason)})
            result.text = _clean("\n".join((*failure_lines(verdict), *verdict.remedies)))
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml + b"\n"


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.3f}"


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold, such as a plugin's colour codes."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
