"""What there is to know about a story that failed, as lines of text: for a terminal, a JUnit file, a test's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simkubelet.host import one_line

from ..evaluation.mismatch import shown
from ..evaluation.verdict import Failure, Verdict
from ..story.document import shown_path
from ..trace.trace import Entry, fields_of


def failure_lines(verdict: Verdict, notes: Iterable[str] = (), word: str = "") -> tuple[str, ...]:
    """What there is to know about a story that failed; nothing for others.

    Place, version, round and step; what was expected and the actual values; what may explain it; `notes`, such as how
    to fix it; the trace around it with both clocks, node time first; where its logs are and how they end; the command
    that repeats it. `word` takes the place of the outcome's, as of a check that gives a warning.
    """
    return tuple(map(one_line, _lines(verdict, notes, word or verdict.outcome.word)))


def _lines(verdict: Verdict, notes: Iterable[str], word: str) -> tuple[str, ...]:
    if verdict.difference:
        return (f"{verdict.scenario}: {verdict.reason}", *(f"  {line}" for line in verdict.difference))
    if verdict.failure is None:
        return ()
    failure = verdict.failure
    head = f"{failure.location}: {word}{_version(verdict)}{_round(verdict)} {_place(failure)}"
    explained = [*(f"diagnosis: {text}" for text in failure.diagnoses), *notes]
    return (
        *(head, *_differences(verdict, failure), *(f"  {line}" for line in explained)),
        *(*_happened(failure), *_logs(verdict), *_repeat(verdict)),
    )


def _version(verdict: Verdict) -> str:
    return f" on Kubernetes {verdict.kubernetes}" if verdict.kubernetes else ""


def _round(verdict: Verdict) -> str:
    return f" (round {verdict.round})" if verdict.round else ""


def _place(failure: Failure) -> str:
    if failure.number == 0:
        return "while its world was made"
    return f"in step {failure.number} of {failure.total}, '{failure.step}'"


def _repeat(verdict: Verdict) -> list[str]:
    return [f"  repeat it: {verdict.repeat}"] if verdict.repeat else []


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
    head = "  what happened around it, in node time and real time:"
    return [head, *(f"    {entry_line(entry)}" for entry in failure.events)]


def _logs(verdict: Verdict) -> list[str]:
    lines = []
    for log in verdict.logs:
        lines += [f"  {log} ends with:", *(f"    {line}" for line in verdict.log_ends.get(log, ()))]
    return lines


def entry_line(entry: Entry) -> str:
    """An entry of a trace on one line: number, node time, real time, kind and fields."""
    values = fields_of(entry.event).items()
    fields = " ".join(f"{name}={_value(value)}" for name, value in values if _says_something(value))
    line = f"{entry.seq:>4} {entry.time_s:>9.3f} s {entry.real_s:>8.3f} s  {entry.kind:<21} {fields}"
    return one_line(line.rstrip())


def _says_something(value: object) -> bool:
    return value is not None and value is not False and value not in ("", (), [], {})


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + shown(value) + "}"
    text = shown(value)
    return f"'{text}'" if " " in text and isinstance(value, str) else text
