"""Where two machines answer NVML's calls differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ..recording.survey import Answers, Survey
from ..recording.survey_calls import IDENTITY, MOVING

_ABSENT: Final = {"error": "not asked"}
_CLUSTER: Final = "clusterUuid"


@dataclass(frozen=True, slots=True)
class Difference:
    """One call that is answered differently.

    Attributes:
        subject: what it is about: ``system``, ``gpu 0`` or ``gpus 0 1``.
        call: name and arguments.
        fake: answer of the fake machine.
        real: answer of the machine it is compared with.
    """

    subject: str
    call: str
    fake: Any
    real: Any

    def __str__(self) -> str:
        return f"{self.subject}: {self.call}: fake {_shown(self.fake)}, here {_shown(self.real)}"


def differences(fake: Survey, real: Survey, *, all_calls: bool = False) -> Iterator[Difference]:
    """Compares call by call.

    Args:
        fake: answers of the fake machine.
        real: answers of the other one.
        all_calls: also compare what moves by itself and what names one board, such as temperatures and UUIDs.
    """
    yield from _of_subject("system", fake.system, real.system, all_calls)
    for index in range(max(len(fake.gpus), len(real.gpus))):
        yield from _of_subject(f"gpu {index}", _at(fake.gpus, index), _at(real.gpus, index), all_calls)
    for pair in sorted(fake.pairs.keys() | real.pairs.keys()):
        subject = f"gpus {pair[0]} {pair[1]}"
        yield from _of_subject(subject, fake.pairs.get(pair, {}), real.pairs.get(pair, {}), all_calls)


def _of_subject(subject: str, fake: Answers, real: Answers, all_calls: bool) -> Iterator[Difference]:
    if not fake or not real:
        if fake or real:
            yield Difference(subject, "all calls", _presence(fake), _presence(real))
        return
    for call in sorted(fake.keys() | real.keys()):
        one, other = fake.get(call, _ABSENT), real.get(call, _ABSENT)
        is_compared = all_calls or _kind(one) != _kind(other) or not call.startswith(MOVING + IDENTITY)
        if is_compared and _named(one, all_calls) != _named(other, all_calls):
            yield Difference(subject, call, one, other)


def _named(answer: Any, all_calls: bool) -> Any:
    """An answer without the member that names one cluster of servers, where names are not compared."""
    if all_calls or not isinstance(answer, dict):
        return answer
    return {member: value for member, value in answer.items() if member != _CLUSTER}


def _kind(answer: Any) -> Any:
    """A refusal is compared even where values are not."""
    return answer["error"] if isinstance(answer, dict) and answer.keys() == {"error"} else "value"


def _at(gpus: Any, index: int) -> Answers:
    return dict(gpus[index]) if index < len(gpus) else {}


def _presence(answers: Answers) -> str:
    return f"{len(answers)} answers" if answers else "no such GPU"


def _shown(answer: Any) -> str:
    kind = _kind(answer)
    text = kind if kind != "value" else repr(answer)
    return text if len(text) <= 60 else f"{text[:57]}..."
