"""What the stub serves, and how it answers each call: data that commands change while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from ..framework import DeviceList, PluginOptions, ResourceName

__all__ = ["Answer", "Behaviour", "Registers", "Rpc"]


class Registers(StrEnum):
    """When the stub registers without a command."""

    ALWAYS = "always"
    """At its start, and again for each new kubelet."""
    ONCE = "once"
    """At its start only."""
    NEVER = "never"


class Rpc(StrEnum):
    """The calls of a kubelet."""

    OPTIONS = "GetDevicePluginOptions"
    LIST = "ListAndWatch"
    PREFERRED = "GetPreferredAllocation"
    ALLOCATE = "Allocate"
    PRE_START = "PreStartContainer"


@dataclass(frozen=True, slots=True)
class Answer:
    """How calls of one RPC are answered.

    Attributes:
        error: Refuse with this text and gRPC code UNKNOWN, as a Go plugin does.
        is_empty: Answer with an empty message; ListAndWatch ends its stream at once.
        is_never: Do not answer until the caller gives up.
        after_s: Real seconds before the answer.
        devices: A list to send before the answer, None for none.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; None is all from now on.
    """

    error: str | None = None
    is_empty: bool = False
    is_never: bool = False
    after_s: float = 0.0
    devices: DeviceList | None = None
    skip: int = 0
    times: int | None = None


@dataclass(slots=True)
class Behaviour:
    """All that the stub needs to know; `socket_name` is relative to the plugins' folder."""

    resource_name: ResourceName
    socket_name: str
    options: PluginOptions = field(default_factory=PluginOptions)
    devices: DeviceList = ()
    registers: Registers = Registers.ALWAYS
    answers: dict[Rpc, Answer] = field(default_factory=dict)

    def next_answer(self, rpc: Rpc) -> Answer:
        """How this call is answered; counts it."""
        answer = self.answers.get(rpc, Answer())
        if answer.skip:
            self.answers[rpc] = replace(answer, skip=answer.skip - 1)
            return Answer()
        if answer.times is not None:
            if answer.times <= 1:
                del self.answers[rpc]
            else:
                self.answers[rpc] = replace(answer, times=answer.times - 1)
        return answer
