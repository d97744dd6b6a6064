"""The program ``fakegpu``, also as ``python -m fakegpu``: the command line, and its end by a signal.

A signal ends a command where it is, and what it has begun is taken back; further signals change nothing meanwhile. The
status is what a shell reports of a program that the signal ends.
"""

from __future__ import annotations

import gc
import os
import signal
from types import FrameType
from typing import NoReturn

_COLLECT_AFTER = 50_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(BaseException):
    """The user ended the command; nothing went wrong."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_status = 128 + number


def main() -> NoReturn:
    """Load the command line, run it and exit; most commands end in less time than a look for garbage would take."""
    gc.set_threshold(_COLLECT_AFTER)
    # One that is ignored stays so, as in the background of a shell or behind nohup.
    numbers = [one for one in _SIGNALS if signal.getsignal(one) in (signal.default_int_handler, signal.SIG_DFL)]
    for number in numbers:
        signal.signal(number, _leave)
    from .cli.main import main as run

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in numbers:
            # Not SIG_IGN: Python complains of a signal that has come by then.
            signal.signal(one, lambda *_: None)
        raise _Interrupted(number)

    try:
        for number in numbers:
            signal.signal(number, interrupt)
        status = run()
        for number in numbers:
            signal.signal(number, _leave)
    except _Interrupted as interrupted:
        status = interrupted.exit_status
    # Everything is closed and flushed by now. While the interpreter is taken down a signal would find no handler.
    os._exit(status)


def _leave(number: int, frame: FrameType | None) -> None:
    """End where nothing has begun, or everything is done."""
    os._exit(128 + number)


if __name__ == "__main__":
    main()
