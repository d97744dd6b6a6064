"""The program ``simkubelet``, also as ``python -m simkubelet``: the command line, and its end while it is being loaded.

Nothing has been started then, so the process may exit at once. Code that starts something installs its own handlers.
"""

from __future__ import annotations

import os
import signal
from types import FrameType


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted; everything was ended\n")
    # As a shell reports a program that the signal ends.
    os._exit(128 + number)


def main() -> None:
    """Load the command line and run it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)
    from .cli import main as run

    run()


if __name__ == "__main__":
    main()
