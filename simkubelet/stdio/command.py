"""The table of commands: what each is called, which fields it takes, what carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .node import Node
from .request import Fields

__all__ = ["Answer", "Command", "CommandFailedError", "CommandTable", "Handler"]

Answer = Mapping[str, Any]
"""Fields of an answer, without those that all answers have."""

Handler = Callable[[Node, Fields], Awaitable[Answer]]


class CommandFailedError(Exception):
    """A command was carried out and failed; the answer has `error`, and `fields` beside it."""

    def __init__(self, error: str, /, **fields: object) -> None:
        super().__init__(error)
        self.fields = fields


@dataclass(frozen=True, slots=True)
class Command:
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
    handler: Handler
    needs_manager: bool


class CommandTable(dict[str, Command]):
    """Commands by name, entered where they are written: ``@commands.add("pod", "container")`` on ``do_allocate``."""

    def add(self, *takes: str, needs_manager: bool = True) -> Callable[[Handler], Handler]:
        """Enter a function under its own name, without the ``do_`` that keeps it apart from other names."""

        def enter(handler: Handler) -> Handler:
            name = handler.__name__.removeprefix("do_")
            about = (handler.__doc__ or "").partition("\n")[0]
            self[name] = Command(name, takes, about, handler, needs_manager)
            return handler

        return enter
