"""Ctrl-C, SIGTERM, a closed terminal and output that nobody reads as an orderly end of what runs.

The running task is cancelled once, and all it owns is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeVar

from simkubelet.host import output_pipe, too_many
from simkubelet.model.errors import SimkubeletError, UnreadError

T = TypeVar("T")

_SILENT_S: Final = 60.0
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


def run_interruptibly(main: Coroutine[Any, Any, T], *, needs_reader: bool = True) -> T:
    """Run a coroutine to its end; further signals while it cleans up change nothing.

    Args:
        main: What runs.
        needs_reader: Whether it ends once nobody reads its output; otherwise it goes on until it prints again.

    Raises:
        Interrupted: one of the signals came; raised when the coroutine has ended.
        UnreadError: nobody reads standard output any more; likewise.
    """
    came: SimkubeletError | None = None

    async def guarded() -> T:
        task = asyncio.ensure_future(main)

        def interrupt(error: SimkubeletError) -> None:
            nonlocal came
            if came is None:
                came = error
                task.cancel()

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_WithoutFloods())
        before = {number: signal.getsignal(number) or signal.SIG_DFL for number in _SIGNALS}
        for number in _SIGNALS:
            loop.add_signal_handler(number, interrupt, Interrupted(number))
        try:
            watched = _watching_reader(loop, lambda: interrupt(UnreadError())) if needs_reader else nullcontext()
            with watched:
                return await task
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    try:
        result = asyncio.run(guarded())
    except BaseException as error:
        if came is not None:
            raise came from error
        raise
    if came is not None:
        raise came
    return result


class _WithoutFloods:
    """What a loop does with an exception that nobody awaits: of files that run out there is one line a minute.

    For each connection that cannot be accepted, asyncio has hundreds of tracebacks a second.

    Source: CPython 3.11, Lib/asyncio/selector_events.py, ``_accept_connection``.
    """

    def __init__(self) -> None:
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or (reason := too_many(error)) is None:
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _SILENT_S
            print(f"warning: {reason}", file=sys.stderr, flush=True)


@contextmanager
def _watching_reader(loop: asyncio.AbstractEventLoop, lost: Callable[[], None]) -> Iterator[None]:
    """Call once nobody reads standard output, where it is a pipe; it is noticed though nothing is printed."""
    if (output := output_pipe()) is None:
        yield
        return
    # A descriptor of its own, which stays the pipe's where a write has found the same and given the other up.
    pipe = os.dup(output)

    def notice() -> None:
        loop.remove_reader(pipe)
        lost()

    # Of the end that is written to, an error is all there is to read.
    loop.add_reader(pipe, notice)
    try:
        yield
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)
