"""The program ``simkubelet``, also as ``python -m simkubelet``: the command line, and its end while it is being loaded.

Nothing has been started then, so the process may exit at once. Code that starts something installs its own handlers.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted; everything was ended\n")
    # As a shell reports a program that the signal ends.
    os._exit(128 + number)


def main() -> NoReturn:
    """Load the command line, run it, and exit with its status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)
    from .cli import main as run

    try:
        run()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        # Everything is closed and flushed by now. Taking the interpreter down would cost a sixth of a short run.
        os._exit(end.code)


if __name__ == "__main__":
    main()
