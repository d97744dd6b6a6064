"""A session: lines in, each carried out after the one before it, one answer each.

A command with ``async`` runs on while the next ones are carried out; ``await`` brings its answer.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from ..model.errors import AllocationError, KubeletPanicError, SimkubeletError
from . import checkpoint_commands, device_commands, kubelet_commands, pod_commands
from .command import Command, CommandFailedError, CommandTable
from .node import Node
from .request import Fields, RequestError, parse

__all__ = ["COMMANDS", "Session"]

COMMANDS: Final = CommandTable(
    kubelet_commands.commands | pod_commands.commands | device_commands.commands | checkpoint_commands.commands
)
"""All, in the order of the help."""
_OF_ALL: Final = frozenset({"cmd", "async"})
_AWAIT_TIMEOUT_MS: Final = 60_000.0


class Session:
    """Carries out lines on a node."""

    def __init__(self, node: Node, tasks: asyncio.TaskGroup) -> None:
        self._node = node
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
        command = COMMANDS.get(name)
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

    async def _carry_out(self, command: Command, fields: Fields) -> dict[str, Any]:
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
