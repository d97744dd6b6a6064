"""What the tap does with a call, as a story says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Rpc(StrEnum):
    """The calls that a kubelet makes, and the one that a plugin makes."""

    GET_DEVICE_PLUGIN_OPTIONS = "GetDevicePluginOptions"
    LIST_AND_WATCH = "ListAndWatch"
    GET_PREFERRED_ALLOCATION = "GetPreferredAllocation"
    ALLOCATE = "Allocate"
    PRE_START_CONTAINER = "PreStartContainer"
    REGISTER = "Register"


@dataclass(frozen=True, slots=True)
class Answer:
    """How calls of one RPC are answered; without any of these they are passed on as they are.

    Attributes:
        error: Refuse with this text.
        empty: Answer with an empty message, ListAndWatch with the end of its stream; nobody else is asked.
        never: Do not answer, and ask nobody.
        after_s: Real seconds that pass first.
        devices: A list that the kubelet gets before, on every open stream.
        twice: Make the call twice, and answer with the second answer; of ListAndWatch, send each list twice.
        parts: How many lists each list becomes.
        bytes: How long each message of the answer is made.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; None is all from now on.
    """

    error: str | None = None
    empty: bool = False
    never: bool = False
    after_s: float = 0.0
    devices: tuple[dict[str, Any], ...] | None = None
    twice: bool = False
    parts: int = 1
    bytes: int = 0
    skip: int = 0
    times: int | None = None

    @property
    def changes_messages(self) -> bool:
        """Whether the messages of the answer are others than those of the one who was asked."""
        return (self.twice, self.parts, self.bytes) != (False, 1, 0)


class Answers:
    """The answers that a story has ordered."""

    def __init__(self) -> None:
        self._ordered: dict[Rpc, Answer] = {}

    def order(self, rpc: Rpc, given: Mapping[str, Any]) -> None:
        """Answer coming calls so; `given` has attributes of `Answer`."""
        self._ordered[rpc] = Answer(**given)

    def forget(self) -> None:
        """Answer as usual."""
        self._ordered.clear()

    def next(self, rpc: Rpc) -> Answer:
        """How this call is answered; counts it."""
        answer = self._ordered.get(rpc, Answer())
        if answer.skip:
            self._ordered[rpc] = replace(answer, skip=answer.skip - 1)
            return Answer()
        if answer.times is not None:
            if answer.times <= 1:
                del self._ordered[rpc]
            else:
                self._ordered[rpc] = replace(answer, times=answer.times - 1)
        return answer
