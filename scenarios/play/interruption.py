"""Ctrl-C, SIGTERM and a closed terminal as an orderly end: the running task is cancelled once, all it owns is ended."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from simkubelet.model.errors import SimkubeletError

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(SimkubeletError):  # noqa: N818  # the outside ended the run; nothing went wrong
    """The user ended a run, and everything it had started has been ended.

    The exit status is what a shell reports of a program that the signal ends, which scripts and CI systems look at:
    130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """

    lines = ("interrupted; everything was ended",)

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(*self.lines)
        self.exit_status = 128 + number


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; further signals while it cleans up change nothing.

    Raises:
        Interrupted: one of these came; raised when the coroutine has ended.
    """
    came: signal.Signals | None = None

    async def guarded() -> T:
        task = asyncio.ensure_future(main)

        def interrupt(number: signal.Signals) -> None:
            nonlocal came
            if came is None:
                came = number
                task.cancel()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupt, number)
        try:
            return await task
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    try:
        result = asyncio.run(guarded())
    except BaseException as error:
        if came is not None:
            raise Interrupted(came) from error
        raise
    if came is not None:
        raise Interrupted(came)
    return result
