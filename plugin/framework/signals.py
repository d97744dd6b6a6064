"""Signals as a Go program has them: caught and acted upon, or fatal at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from .restart_policy import OnSignal

__all__ = ["caught"]

_UNCAUGHT: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_GO_EXIT_STATUS: Final = 2
"""Source: runtime/signal_unix.go, ``dieFromSignal``, and ``sighandler`` for SIGQUIT (Go 1.26)."""


@contextmanager
def caught(
    actions: Mapping[signal.Signals, OnSignal], act: Callable[[signal.Signals, OnSignal], None]
) -> Iterator[None]:
    """Call `act` in the event loop for each signal of `actions` that does something.

    SIGHUP, SIGINT, SIGTERM and SIGQUIT end the process where they are missing in `actions`, also the first process of
    a container, which the kernel would spare.
    """
    loop = asyncio.get_running_loop()
    handled = (*dict.fromkeys((*actions, *_UNCAUGHT)),)
    for number in handled:
        if number in actions:
            loop.add_signal_handler(number, act, number, actions[number])
        else:
            loop.add_signal_handler(number, _die, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _die(number: signal.Signals) -> None:
    """End at once and clean nothing up; by the signal itself where the kernel lets it."""
    if number is not signal.SIGQUIT:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(_GO_EXIT_STATUS)
