"""The commands of the stub: one JSON object a line.

::

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
from dataclasses import dataclass
from typing import Any, TypeAlias

from simkubelet.apis import deviceplugin as api

from ..framework import Device, DeviceID, DeviceList, Health
from .behaviour import Answer, Rpc

__all__ = [
    "AnswerWith",
    "Command",
    "CommandError",
    "EndStream",
    "ListDevices",
    "Register",
    "StopServer",
    "read_command",
]


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
