"""Doors: the places at which a process handles one object after the other, such as a pod or a plugin's message.

A process that lives for long goes on after a failure of one object, whatever the exception: the failure is logged,
reported to the user and recorded as an Event about the object, and the others are handled. It asks for that with
`contain_failures`. Without it, as in stories and tests, an exception leaves its door: it is a mistake of this program,
and must be seen.

A task that is cancelled at a door ends, also where its clean-up fails and that takes the place of the cancellation.

What says something about the process rather than about one object leaves every door: that the machine failed, and what
a door itself lets pass, such as the panics of a simulated kubelet.

Source: apimachinery, util/runtime/runtime.go, ``HandleCrash``, ``HandleError``; client-go, util/workqueue; pkg/kubelet/
pod_workers.go, ``podWorkerLoop`` (kubernetes v1.34.4). A real component whose handler panics ends, and is started
again by its supervisor; for an error it goes on as here.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Final

from ..model.errors import HostError

__all__ = ["DOORS", "Door", "Passage", "Record", "contain_failures"]

Record = Callable[[str], object]
"""Takes what went wrong with an object, in a sentence: an Event, mostly."""

_log = logging.getLogger(__name__)
_report: ContextVar[Callable[[str], None] | None] = ContextVar("report", default=None)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LONGEST: Final = 500
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0

DOORS: dict[str, Door] = {}
"""All doors of the modules that are loaded, by their names."""


def contain_failures(report: Callable[[str], None]) -> None:
    """Go on after a failure of one object, in this task and in those that it starts.

    Args:
        report: called with each failure, in a line.
    """
    _report.set(report)


class Door:
    """One place; each call is the passage of one object.

    Args:
        name: what is done there, such as ``sync of a pod``.
        passes: exceptions that are no failures of the object.
    """

    def __init__(self, name: str, *passes: type[Exception]) -> None:
        self.name = name
        self._passes: tuple[type[Exception], ...] = (HostError, *passes)
        DOORS[name] = self

    def __call__(self, about: object, record: Record | None = None) -> Passage:
        """Handle an object inside of the context; `Passage.error` says afterwards whether that failed."""
        return Passage(self, about, record)

    async def again_until_done(
        self,
        about: object,
        work: Callable[[], Awaitable[object]],
        sleep: Callable[[float], Awaitable[None]],
        record: Record | None = None,
    ) -> None:
        """Handle an object, after a failure again, with pauses that double from one second to a minute."""
        pause_s = _FIRST_PAUSE_S
        while True:
            with self(about, record) as passage:
                await work()
            if passage.error is None:
                return
            await sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def lets_pass(self, error: BaseException) -> bool:
        """Whether an exception is no failure of one object."""
        if isinstance(error, BaseExceptionGroup):
            return any(map(self.lets_pass, error.exceptions))
        if not isinstance(error, Exception) or isinstance(error, self._passes):
            return True
        return isinstance(error, OSError) and error.errno in _FULL


class Passage:
    """One object at its door.

    Attributes:
        error: why it could not be handled; None where it was, and as long as it is.
    """

    __slots__ = ("_about", "_cancellations", "_door", "_record", "error")

    def __init__(self, door: Door, about: object, record: Record | None) -> None:
        self._door = door
        self._about = about
        self._record = record
        self.error: Exception | None = None

    def __enter__(self) -> Passage:
        self._cancellations = _cancellations()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> bool:
        if error is None or (report := _report.get()) is None or self._door.lets_pass(error):
            return False
        assert isinstance(error, Exception)  # noqa: S101  # no other gets here
        self.error = error
        text = _text(error)
        line = f"{self._door.name}: {self._about}: {text}"
        _log.error("%s%s", line, _place(error))
        report(line)
        if self._record is not None:
            try:
                self._record(text)
            except Exception as another:
                _log.error("%s: no Event: %s", line, _text(another))
        if _cancellations() > self._cancellations:
            raise asyncio.CancelledError from error
        return True


def _cancellations() -> int:
    """How often this task was asked to end; 0 outside of a task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return task.cancelling() if task is not None else 0


def _text(error: Exception) -> str:
    """An exception in one line that is not long: its message may be a whole object."""
    try:
        message = " ".join(str(error)[: 4 * _LONGEST].split())
    except Exception:
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _place(error: BaseException) -> str:
    """Where it was raised, for who looks for the mistake."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return ""
    return f" ({traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno})"
