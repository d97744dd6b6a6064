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
    """The user ended a run, and everything it had started has been ended."""

    exit_status = 130
    lines = ("interrupted; everything was ended",)


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; further signals while it cleans up change nothing.

    Raises:
        Interrupted: one of these came; raised when the coroutine has ended.
    """
    is_interrupted = False

    async def guarded() -> T:
        task = asyncio.ensure_future(main)

        def interrupt() -> None:
            nonlocal is_interrupted
            if not is_interrupted:
                is_interrupted = True
                task.cancel()

        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupt)
        try:
            return await task
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    try:
        result = asyncio.run(guarded())
    except BaseException as error:
        if is_interrupted:
            raise Interrupted from error
        raise
    if is_interrupted:
        raise Interrupted
    return result
