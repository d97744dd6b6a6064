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

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

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


def _command(name: str, given: dict[str, Any]) -> Command:
    match name:
        case "register":
            return Register(**_fields(given, _REGISTER))
        case "list":
            return ListDevices(_devices(given["devices"]))
        case "answer":
            return AnswerWith(Rpc(given.pop("rpc")), Answer(**_fields(given, _ANSWER)))
        case "endStream":
            return EndStream()
        case "stopServer":
            return StopServer()
        case _:
            raise ValueError(f"'{name}' is unknown")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("a text holds half a surrogate pair") from None
    return value


def _service(value: Any) -> str:
    if not re.fullmatch("[A-Za-z0-9_.]+", _text(value)):
        raise ValueError("expected the name of a gRPC service")
    return str(value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("expected true or false")
    return value


def _integer(smallest: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= _LARGEST:
        raise ValueError(f"expected a whole number from {smallest} to {_LARGEST}")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("expected a number of seconds, 0 or more")
    return value


def _devices(listed: Any) -> DeviceList:
    if not isinstance(listed, list) or not all(isinstance(one, dict) and one.get("id") is not None for one in listed):
        raise TypeError("expected a list of devices, each with an 'id'")
    return tuple(Device(**_fields(one, _DEVICE)) for one in listed)


def _numa_nodes(listed: Any) -> tuple[int, ...]:
    if not isinstance(listed, list):
        raise TypeError("expected a list of numbers")
    return tuple(_integer(-_LARGEST - 1, one) for one in listed)


_Fields: TypeAlias = Mapping[str, tuple[str, Callable[[Any], Any]]]
"""Key of a command -> the field that it becomes, and what reads its value."""

_LARGEST: Final = 2**63 - 1
"""Of a number in a message."""
_REGISTER: Final[_Fields] = {
    "resource": ("resource", _text),
    "endpoint": ("endpoint", _text),
    "version": ("version", _text),
    "service": ("service", _service),
    "times": ("times", partial(_integer, 1)),
}
_DEVICE: Final[_Fields] = {
    "id": ("device_id", lambda value: DeviceID(_text(value))),
    "health": ("health", Health),
    "numa": ("numa_nodes", _numa_nodes),
}
_ANSWER: Final[_Fields] = {
    "error": ("error", _text),
    "empty": ("is_empty", _truth),
    "never": ("is_never", _truth),
    "crash": ("is_crash", _truth),
    "after_s": ("after_s", _seconds),
    "devices": ("devices", _devices),
    "skip": ("skip", partial(_integer, 0)),
    "times": ("times", partial(_integer, 1)),
}


def _fields(given: Mapping[str, Any], known: _Fields) -> dict[str, Any]:
    """What the keys say; one that is null says nothing."""
    fields = {}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"'{key}' is unknown; there are: {', '.join(known)}")
        field_, read = known[key]
        if value is not None:
            try:
                fields[field_] = read(value)
            except (TypeError, ValueError) as error:
                raise ValueError(f"'{key}': {error}") from None
    return fields
