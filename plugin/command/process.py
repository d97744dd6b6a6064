"""A plugin's process: its log and the garbage collector.

Log lines are those of a container's log: level, time, process, place, text; one line each on stderr. Python's search
for garbage finds none while a plugin is loaded, and takes a tenth of its start.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LEVELS", "loaded", "loading", "set_up_logging"]

LEVELS = ("debug", "info", "warning", "error")


class _LineFormatter(logging.Formatter):
    """``I1121 09:08:07.123456    4711 lifecycle] text``; line breaks in the text become spaces."""

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%m%d %H:%M:%S")
        microseconds = int(record.created % 1 * 1_000_000)
        text = " ".join(record.getMessage().splitlines())
        return f"{record.levelname[0]}{time}.{microseconds:06d} {record.process:7d} {record.module}] {text}"


def set_up_logging(level: str) -> None:
    """Send this package's log to stderr from `level` on, which is one of `LEVELS`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    logger = logging.getLogger(__name__.removesuffix(".command.process"))
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing until the end, or until all is `loaded`."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def loaded() -> None:
    """Collect from now on, and pass over what there is: it stays."""
    gc.freeze()
    gc.enable()
