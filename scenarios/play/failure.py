"""What there is to know about a story that failed, as lines of text: for a terminal, a JUnit file, a test's report."""

from __future__ import annotations

from collections.abc import Mapping

from ..evaluation.mismatch import shown
from ..evaluation.verdict import Failure, Verdict
from ..story.document import shown_path
from ..trace.trace import Entry, fields_of


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
