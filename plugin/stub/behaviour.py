"""What the stub serves, how it answers each call, and the commands that change this while it runs.

A command is one JSON object a line::

    {"command": "register", "resource": "…", "endpoint": "…", "version": "…", "service": "…", "times": 2}
    {"command": "list", "devices": [{"id": "dev-1", "health": "Unhealthy", "numa": [0]}]}
    {"command": "answer", "rpc": "Allocate", "error": "…", "empty": true, "never": true, "crash": true,
     "after_s": 0.2, "devices": [{"id": "dev-2"}], "skip": 2, "times": 1}
    {"command": "endStream"}
    {"command": "stopServer"}

What is left out of ``register`` is the stub's own; what is left out of ``answer`` is as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.documents import load_json

from ..framework import Device, DeviceID, DeviceList, Health, PluginOptions, ResourceName
from ..framework.client import REGISTRATION

__all__ = [
    "Answer",
    "AnswerWith",
    "Behaviour",
    "Command",
    "CommandError",
    "EndStream",
    "ListDevices",
    "Looks",
    "OnLostStream",
    "Register",
    "Registers",
    "Rpc",
    "StopServer",
    "read_command",
]


class Registers(StrEnum):
    """When the stub registers without a command."""

    UNTIL_CONNECTED = "until-connected"
    """At its start and for each new kubelet; again after a refusal, and when its stream is lost."""
    ALWAYS = "always"
    """At its start, and again for each new kubelet."""
    ONCE = "once"
    """At its start only."""
    NEVER = "never"
    FOUND = "found"
    """It never calls Register: its socket is in ``plugins_registry``, where the kubelet finds it and asks."""
    FOUND_AGAIN = "found-again"
    """The same; it makes its socket again when the kubelet has refused it."""

    @property
    def is_found(self) -> bool:
        """Whether the kubelet finds the socket."""
        return self in (Registers.FOUND, Registers.FOUND_AGAIN)


class OnLostStream(StrEnum):
    """What the stub does when a ListAndWatch stream ends that it has not ended by stopping its server."""

    IGNORE = "ignore"
    EXIT = "exit"
    """End with status 1, so that its supervisor starts it again."""
    HANG = "hang"
    """Serve on, and never again notice a kubelet."""


class Looks(StrEnum):
    """When the stub looks for the files of its devices."""

    ALWAYS = "always"
    """A device is healthy while its file is there, as long as the file's folder is not removed."""
    AT_START = "at-start"
    """A device whose file is missing when the stub starts is never listed; later changes are not noticed."""


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
        is_crash: End the process with status 2 in place of an answer, as a Go program does that panics.
        after_s: Real seconds before the answer.
        devices: A list to send before the answer, None for none.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; None is all from now on.
    """

    error: str | None = None
    is_empty: bool = False
    is_never: bool = False
    is_crash: bool = False
    after_s: float = 0.0
    devices: DeviceList | None = None
    skip: int = 0
    times: int | None = None


@dataclass(slots=True)
class Behaviour:
    """All that the stub needs to know.

    Attributes:
        socket_name: Relative to the plugins' folder, where it is found to ``plugins_registry``; ``{second}`` in it
            is the time at which the socket is made.
        on_lost_stream: What the end of a stream does.
        watched_folder: Where a new ``kubelet.sock`` is waited for; the plugins' folder where it is None.
        files: Device -> the file that it is, on this machine; the other devices are always there.
        looks: When these files are looked for.
        empties: Resources that it serves, too, each on a socket of its own and with an empty list.
        has_topology: Whether a device without NUMA nodes has a topology, which is empty then.
        names_whole_path: Whether the kubelet is given the absolute path of the socket.
        resend_s: The interval in which the list is sent again, changed or not.
        port: A TCP port that it has to have.
        failure: The error for which it does not start.
    """

    resource_name: ResourceName
    socket_name: str
    options: PluginOptions = field(default_factory=PluginOptions)
    devices: DeviceList = ()
    registers: Registers = Registers.ALWAYS
    on_lost_stream: OnLostStream = OnLostStream.IGNORE
    watched_folder: Path | None = None
    files: Mapping[DeviceID, Path] = field(default_factory=dict)
    looks: Looks = Looks.ALWAYS
    empties: tuple[ResourceName, ...] = ()
    has_topology: bool = False
    names_whole_path: bool = False
    resend_s: float | None = None
    port: int | None = None
    failure: str | None = None
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
    service: str = REGISTRATION
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
        given = load_json(line)
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
    crash: bool = False,
    after_s: float = 0.0,
    devices: Any = None,
    skip: int = 0,
    times: int | None = None,
) -> Answer:
    return Answer(error, empty, never, crash, after_s, None if devices is None else _devices(devices), skip, times)


def _devices(listed: Any) -> DeviceList:
    return tuple(
        Device(DeviceID(str(one["id"])), Health(one.get("health", Health.HEALTHY)), tuple(one.get("numa", ())))
        for one in listed
    )
