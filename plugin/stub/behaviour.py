"""What the stub serves, how it answers each call, and the commands that change this while it runs.

A command is one JSON object a line::

    {"command": "register", "resource": "…", "endpoint": "…", "version": "…", "times": 2}
    {"command": "list", "devices": [{"id": "dev-1", "health": "Unhealthy", "numa": [0]}]}
    {"command": "answer", "rpc": "Allocate", "error": "…", "empty": true, "never": true, "after_s": 0.2,
     "devices": [{"id": "dev-2"}], "skip": 2, "times": 1}
    {"command": "endStream"}
    {"command": "stopServer"}

What is left out of ``register`` is the stub's own; what is left out of ``answer`` is as usual.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

from simkubelet.apis import deviceplugin as api

from ..framework import Device, DeviceID, DeviceList, Health, PluginOptions, ResourceName

__all__ = [
    "Answer",
    "AnswerWith",
    "Behaviour",
    "Command",
    "CommandError",
    "EndStream",
    "ListDevices",
    "Register",
    "Registers",
    "Rpc",
    "StopServer",
    "read_command",
]


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


class CommandError(Exception):
    """A line is no command; the message says why."""


@dataclass(frozen=True, slots=True)
class Register:
    """Call Register; None stands for the stub's own."""

    resource: str | None = None
    endpoint: str | None = None
    version: str = api.VERSION
    times: int = 1


@dataclass(frozen=True, slots=True)
class ListDevices:
    """Send a list."""

    devices: DeviceList


@dataclass(frozen=True, slots=True)
class AnswerWith:
    """Answer the coming calls of an RPC so."""

    rpc: Rpc
    answer: Answer


@dataclass(frozen=True, slots=True)
class EndStream:
    """End every ListAndWatch stream."""


@dataclass(frozen=True, slots=True)
class StopServer:
    """Stop serving."""


Command: TypeAlias = Register | ListDevices | AnswerWith | EndStream | StopServer


def read_command(line: str) -> Command:
    """Read one line.

    Raises:
        CommandError: it is none.
    """
    try:
        given = json.loads(line)
        return _command(str(given.pop("command")), given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandError(f"no command of the stub: {error}") from error


def _command(name: str, given: Mapping[str, Any]) -> Command:
    match name:
        case "register":
            return Register(**given)
        case "list":
            return ListDevices(_devices(given["devices"]))
        case "answer":
            return AnswerWith(Rpc(given["rpc"]), _answer(**{key: given[key] for key in given if key != "rpc"}))
        case "endStream":
            return EndStream()
        case "stopServer":
            return StopServer()
        case _:
            raise ValueError(f"'{name}' is unknown")


def _answer(
    *,
    error: str | None = None,
    empty: bool = False,
    never: bool = False,
    after_s: float = 0.0,
    devices: Any = None,
    skip: int = 0,
    times: int | None = None,
) -> Answer:
    return Answer(error, empty, never, after_s, None if devices is None else _devices(devices), skip, times)


def _devices(listed: Any) -> DeviceList:
    return tuple(
        Device(DeviceID(str(one["id"])), Health(one.get("health", Health.HEALTHY)), tuple(one.get("numa", ())))
        for one in listed
    )
