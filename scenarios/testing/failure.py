"""What a test that failed prints: expected and actual, the trace around it, and how the plugins' logs end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from simkubelet.host import printable

from ..backends.world.logs import last_lines
from ..evaluation.timeline import timeline
from ..evaluation.verdict import Failure, Outcome, Verdict
from ..play.failure import entry_line, failure_lines
from ..trace.trace import Entry


class ExpectationError(AssertionError):
    """Something was not so in time; the message has the expected and the actual, the trace, and the plugins' logs."""

    __module__ = "simkubelet.testing"


def failure_text(reason: str, failure: Failure, logs: Sequence[Path]) -> str:
    """Return the lines about a failure outside a story, the reason first."""
    lines = failure_lines(Verdict("", Outcome.INVALID, 0.0, failure.waited, failure))
    return printable("\n".join((reason, *lines[1:], *log_lines(logs))))


def happened_text(trace: Sequence[Entry], logs: Sequence[Path]) -> str:
    """Return what happened last, and how the plugins' logs end."""
    return printable("\n".join((*(entry_line(entry) for entry in timeline(trace)), *log_lines(logs))))


def log_lines(logs: Sequence[Path]) -> Iterator[str]:
    """Yield how the logs of plugins end."""
    for log in logs:
        if log.parent.name == "plugins":
            yield f"  the log of plugin '{log.stem}' ends with:"
            yield from (f"    {line}" for line in last_lines(log))
