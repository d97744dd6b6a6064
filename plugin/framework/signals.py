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

    SIGHUP, SIGINT, SIGTERM and SIGQUIT end the process where they are missing in `actions`, with the exit status that a
    Go program has as the first process of its container, which the kernel spares from signals.
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


def _die(_number: signal.Signals) -> None:
    """End at once and clean nothing up."""
    os._exit(_GO_EXIT_STATUS)
