"""What a run and the process of one story tell each other: JSON lines.

The run writes one `Job` to the process' standard input and holds it open: its end means that the story must end, also
when the run was killed. The process answers on standard output with `StepTold`s, then one `Played` or `Refused`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from .job import Job, Played


@dataclass(frozen=True, slots=True)
class StepTold:
    """The story came to a step."""

    title: str
    type: Literal["step"] = "step"


@dataclass(frozen=True, slots=True)
class Finished:
    """The story was played."""

    played: Played
    type: Literal["finished"] = "finished"


@dataclass(frozen=True, slots=True)
class Refused:
    """What the user gave cannot be used."""

    message: str
    type: Literal["refused"] = "refused"


Answer = Annotated[StepTold | Finished | Refused, Field(discriminator="type")]

_ANSWER: TypeAdapter[Any] = TypeAdapter(Answer)
_JOB = TypeAdapter(Job)


def job_line(job: Job) -> bytes:
    """A job as one line."""
    return _JOB.dump_json(job) + b"\n"


def read_job(line: bytes) -> Job:
    """A job from its line."""
    return _JOB.validate_json(line)


def answer_line(answer: StepTold | Finished | Refused) -> bytes:
    """An answer as one line."""
    return _ANSWER.dump_json(answer) + b"\n"


def read_answer(line: bytes) -> StepTold | Finished | Refused:
    """An answer from its line."""
    answer: StepTold | Finished | Refused = _ANSWER.validate_json(line)
    return answer
