"""Log lines as a container's log shows them: level, time, process, place, text; one line each on stderr."""

from __future__ import annotations

import logging
import sys

__all__ = ["LEVELS", "set_up_logging"]

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
    logger = logging.getLogger(__name__.removesuffix(".command.logs"))
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
