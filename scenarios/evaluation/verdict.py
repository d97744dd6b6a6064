"""The answer to a story, and the only place where an error becomes one.

======== =========================================== ====================
outcome  means                                       raised as
======== =========================================== ====================
valid    every expectation came true
invalid  one did not, or a plugin broke its contract `PluginError`
error    a step of the story cannot be done          `InputError`
unknown  the machine failed; nothing can be said     `HostError`
skipped  the backend cannot play the story, or it is about other versions
ended    the run ended while the story was played
unplayed the run ended before the story began
======== =========================================== ====================

What is known to be wrong before a story begins is no verdict: that `InputError` goes to the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from simkubelet.model.errors import HostError, InputError, PluginError, SimkubeletError

from ..trace.trace import Entry
from .mismatch import Mismatch


class Outcome(StrEnum):
    """What can be said about the plugins of a story."""

    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"
    ENDED = "ended"
    UNPLAYED = "unplayed"

    @property
    def word(self) -> str:
        """As reports show it."""
        return _WORDS[self]

    @property
    def is_failure(self) -> bool:
        """Whether a story with it counts against its run: it neither passed nor was left out."""
        return self in (Outcome.INVALID, Outcome.ERROR, Outcome.UNKNOWN)


_WORDS = {
    Outcome.VALID: "PASSED",
    Outcome.INVALID: "FAILED",
    Outcome.ERROR: "ERROR",
    Outcome.UNKNOWN: "UNKNOWN",
    Outcome.SKIPPED: "SKIPPED",
    Outcome.ENDED: "INTERRUPTED",
    Outcome.UNPLAYED: "NOT PLAYED",
}


_OUTCOMES: Final[Mapping[type[SimkubeletError], Outcome]] = {
    InputError: Outcome.ERROR,
    HostError: Outcome.UNKNOWN,
    PluginError: Outcome.INVALID,
}
_STATUSES: Final[Mapping[Outcome, int]] = {
    Outcome.INVALID: PluginError.exit_status,
    Outcome.ERROR: InputError.exit_status,
    Outcome.UNKNOWN: HostError.exit_status,
}


class UnmetError(PluginError):
    """An expectation did not come true."""

    def __init__(self, reason: str, failure: Failure) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Failure:
    """Where a story stopped, and what there was to see.

    Attributes:
        location: ``FILE:LINE``.
        step: Its title.
        mismatches: Empty where an error ended the story.
        events: The part of the trace that matters, in order; see `timeline`.
        waited: How long an expectation was waited for in real time, and how long it should be.
        number: Of the step, counted from 1; 0 while the world was made.
        total: How many steps the story has.
        diagnoses: What may explain it; see `diagnosis`.
    """

    location: str
    step: str
    mismatches: tuple[Mismatch, ...]
    events: tuple[Entry, ...]
    waited: str = ""
    number: int = 0
    total: int = 0
    diagnoses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one story.

    Attributes:
        reason: One line, empty where the story is valid.
        kept: The folder with those of the nodes, where the run keeps them.
        logs: Of a story that failed: the files that have what its plugins and kubelets wrote.
        log_ends: The last lines of each of these.
        difference: What two worlds recorded differently, as the lines of a diff.
        remedies: Of a skipped story: what this machine lacks for it and how to fix that, a line each.
        path: The story's file.
        kubernetes: The versions of its nodes, ``1.34``, several with commas.
        round: Which of several times that the story is played, such as ``2/3``; empty where it is played once.
        repeat: The command that plays just this story again.
    """

    scenario: str
    outcome: Outcome
    duration_s: float
    reason: str = ""
    failure: Failure | None = None
    kept: Path | None = None
    logs: tuple[Path, ...] = ()
    difference: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    log_ends: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    path: Path | None = None
    kubernetes: str = ""
    round: str = ""
    repeat: str = ""

    @property
    def line(self) -> int:
        """The line of the story's file at which it stopped; the first where it did not."""
        return 1 if self.failure is None else int(self.failure.location.rpartition(":")[2])


def from_error(error: BaseException) -> tuple[Outcome, str]:
    """The outcome and reason of a story that an error ended.

    Of several errors at once the first of these counts: a step that cannot be done, a machine that failed. Both leave
    nothing to say about a plugin.

    Raises:
        BaseException: The error itself, where it is none of ours.
    """
    leaves = list(single_errors(error))
    if not leaves or not all(isinstance(leaf, SimkubeletError) for leaf in leaves):
        raise error
    for kind, outcome in _OUTCOMES.items():
        for leaf in leaves:
            if isinstance(leaf, kind):
                return outcome, str(leaf)
    raise error


def is_failure(error: BaseException) -> bool:
    """Whether a story that an error ended has failed in any way; one that was interrupted has not."""
    return any(isinstance(leaf, SimkubeletError) for leaf in single_errors(error))


def exit_status(verdicts: Iterable[Verdict]) -> int:
    """The exit status of a run: 1 where any story is invalid, else 2 for an error, else 3 for an unknown one, else 0.

    What is certain about a plugin comes first, then what the user can correct, then what another try may change.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    return next((status for outcome, status in _STATUSES.items() if outcome in outcomes), 0)


def single_errors(error: BaseException) -> Iterator[BaseException]:
    """An error, or all that a group of errors has."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from single_errors(inner)
    else:
        yield error
