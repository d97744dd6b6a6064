"""What a recording tells of one subject, on its way into the state of a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .replay_fields import Pick, same
from .survey import Answers


class Told:
    """Answers of one subject, where a refusal counts as nothing.

    Attributes:
        call: whose answer was taken last; "" before the first.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.call = ""

    def of(self, call: str) -> Any:
        """The answer; None without one."""
        self.call = call
        answer = self._answers.get(call)
        return None if isinstance(answer, dict) and answer.keys() == {"error"} else answer

    def text(self, call: str) -> bytes:
        """The answer as a text."""
        return str(self.of(call) or "").encode()

    def number(self, call: str, pick: Pick = same) -> int:
        """A number in the answer; 0 without one."""
        answer = self.of(call)
        return 0 if answer is None else int(pick(answer))

    def items(self, call: str) -> list[Any]:
        """The answer as a list."""
        found = self.of(call)
        return found if isinstance(found, list) else []


def put(holder: Any, place: str | int, number: int) -> None:
    """Sets a member of a struct, or an element of an array; by themselves these keep what fits of a number.

    Raises:
        OverflowError: the number does not fit.
    """
    if isinstance(place, str):
        setattr(holder, place, number)
        kept = getattr(holder, place)
    else:
        holder[place] = number
        kept = holder[place]
    if kept != number:
        raise OverflowError(f"{number} is out of range")


def put_all(array: Any, numbers: Iterable[int]) -> None:
    """Sets the first elements of an array.

    Raises:
        OverflowError: a number does not fit.
        IndexError: there are more numbers than elements.
    """
    for position, number in enumerate(numbers):
        put(array, position, number)
