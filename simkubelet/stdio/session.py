"""The table of commands, and a session that carries them out: lines in, one after the other, one answer each.

A command with ``async`` runs on while the next ones are carried out; ``await`` brings its answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from ..model.errors import AllocationError, KubeletPanicError, SimkubeletError
from ..model.version import FEATURE_GATES, Version
from .request import Fields, RequestError, parse

__all__ = ["Answer", "CommandFailedError", "CommandTable", "DrivenNode", "N", "Session", "set_gate"]

_OF_ALL: Final = frozenset({"cmd", "async"})
_AWAIT_TIMEOUT_MS: Final = 60_000.0

Answer = Mapping[str, Any]
"""Fields of an answer, without those that all answers have."""


class DrivenNode(Protocol):
    """What commands work on: a node with one manager after another."""

    @property
    def is_running(self) -> bool:
        """Whether a manager runs."""

    async def stop(self) -> None:
        """End the manager, if one runs, as a kubelet at its end."""

    async def abandon(self) -> None:
        """End the manager, if one runs, as a killed kubelet ends."""


N = TypeVar("N", bound=DrivenNode)

_Handler = Callable[[N, Fields], Awaitable[Answer]]


class CommandFailedError(Exception):
    """A command was carried out and failed; the answer has `error`, and `fields` beside it."""

    def __init__(self, error: str, /, **fields: object) -> None:
        super().__init__(error)
        self.fields = fields


def set_gate(gates: dict[str, bool], version: Version, fields: Fields) -> None:
    """Set the feature gate that a command names, for the next start.

    Raises:
        CommandFailedError: this minor has no such gate.
    """
    name, value = fields.text("name"), fields.flag("value")
    gate = FEATURE_GATES.get(name)
    if gate is None or not gate.exists(version):
        raise CommandFailedError(f"unrecognized feature gate: {name}")
    gates[name] = value


@dataclass(frozen=True, slots=True)
class _Command(Generic[N]):
    """One row of the table.

    Attributes:
        name: as in ``cmd``.
        takes: the names of its fields.
        about: one line for the help.
        handler: carries it out and returns what the answer holds beside ``ok``.
        needs_manager: a device manager has to run.
    """

    name: str
    takes: tuple[str, ...]
    about: str
    handler: _Handler[N]
    needs_manager: bool


class CommandTable(dict[str, _Command[N]]):
    """Commands by name, entered where they are written: ``@commands.add("pod", "container")`` on ``do_allocate``."""

    def add(self, *takes: str, needs_manager: bool = True) -> Callable[[_Handler[N]], _Handler[N]]:
        """Enter a function under its own name, without the ``do_`` that keeps it apart from other names."""

        def enter(handler: _Handler[N]) -> _Handler[N]:
            name = handler.__name__.removeprefix("do_")
            about = (handler.__doc__ or "").partition("\n")[0]
            self[name] = _Command(name, takes, about, handler, needs_manager)
            return handler

        return enter


class Session(Generic[N]):
    """Carries out lines on a node."""

    def __init__(self, node: N, commands: CommandTable[N], tasks: asyncio.TaskGroup) -> None:
        self._node = node
        self._commands = commands
        self._tasks = tasks
        self._background: dict[str, asyncio.Task[dict[str, Any]]] = {}

    async def answer(self, line: bytes) -> bytes:
        """Carry out one line and return its answer, both without the line's end."""
        name = ""
        try:
            values = parse(line)
            name = Fields(values, "").text("cmd")
            answer = await self._answer(name, values)
        except RequestError as error:
            answer = _sealed({"cmd": name, "ok": False, "error": str(error)}, time.monotonic_ns())
        return json.dumps(answer, separators=(",", ":")).encode()

    def cancel(self) -> None:
        """Give up what still runs in the background."""
        for task in self._background.values():
            task.cancel()

    async def _answer(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if name == "await":
            return await self._await(Fields(values, ""))
        command = self._commands.get(name)
        if command is None:
            raise RequestError(f"cmd: no command {name!r}; see --help for all of them")
        fields = Fields({key: value for key, value in values.items() if key not in _OF_ALL}, "")
        for unknown in sorted(set(fields.names()) - set(command.takes)):
            takes = ", ".join(command.takes) or "no fields"
            raise RequestError(f"{unknown}: no field of {name}, which takes {takes}")
        if command.needs_manager and not self._node.is_running:
            raise RequestError("no manager runs: start it first")
        if "async" not in values:
            return await self._carry_out(command, fields)
        called = Fields(values, "").text("async")
        self._background[called] = self._tasks.create_task(self._carry_out(command, fields))
        return _sealed({"cmd": name, "ok": True, "async": called}, time.monotonic_ns())

    async def _await(self, fields: Fields) -> dict[str, Any]:
        name, timeout_s = fields.text("name"), fields.number("timeout_ms", _AWAIT_TIMEOUT_MS) / 1000
        task = self._background.get(name)
        if task is None:
            raise RequestError(f"name: no command runs under the name {name!r}")
        begun = time.monotonic_ns()
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            raise RequestError(f"{name!r} has no answer yet, after {timeout_s:g} s")
        del self._background[name]
        return _sealed({"cmd": "await", "ok": True, "name": name, "answer": task.result()}, begun)

    async def _carry_out(self, command: _Command[N], fields: Fields) -> dict[str, Any]:
        begun = time.monotonic_ns()
        answer: dict[str, Any] = {"cmd": command.name, "ok": True}
        try:
            answer |= await command.handler(self._node, fields)
        except CommandFailedError as error:
            answer |= {"ok": False, "error": str(error), **error.fields}
        except KubeletPanicError as panic:
            # The kubelet's process is gone with all it knew; the files of the folder stay.
            await self._node.abandon()
            answer |= {"ok": False, "panic": str(panic)}
        except (RequestError, AllocationError, SimkubeletError) as error:
            answer |= {"ok": False, "error": str(error)}
        except OSError as error:
            answer |= {"ok": False, "error": f"{error.filename}: {error.strerror}"}
        return _sealed(answer, begun)


def _sealed(answer: dict[str, Any], begun: int) -> dict[str, Any]:
    now = time.monotonic_ns()
    return answer | {"us": (now - begun) // 1000, "t": now}
