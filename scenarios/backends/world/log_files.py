"""What the kubelets of a story log: each into its own node's file, in node time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from simkubelet.model.errors import InputError

_PLACE: ContextVar[tuple[KubeletLogs, str | None]] = ContextVar("place")
"""The world and the node for which something runs; a task inherits it from whoever started its kubelet."""


class KubeletLogs(logging.Handler):
    """Takes the log of the package `simkubelet` from `start` to `close`.

    Args:
        now: Node time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._files: dict[str, IO[str]] = {}
        self._logger = logging.getLogger("simkubelet")

    def start(self) -> None:
        """Take what is logged from now on in this task, and in those that it starts."""
        _PLACE.set((self, None))
        self._logger.addHandler(self)

    def add_node(self, name: str, file: Path) -> None:
        """Make the log of a node.

        Raises:
            InputError: The file cannot be made.
        """
        try:
            self._files[name] = file.open("x", encoding="utf-8", buffering=1)
        except OSError as error:
            raise InputError(f"{file}: cannot be written: {error.strerror}") from None

    @contextmanager
    def of(self, node: str) -> Iterator[None]:
        """What is begun inside logs for a node."""
        token = _PLACE.set((self, node))
        try:
            yield
        finally:
            _PLACE.reset(token)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line of this world, into the file of every node where it belongs to none."""
        logs, node = _PLACE.get((self, None))
        if logs is not self:
            return
        text = " ".join(record.getMessage().splitlines())
        line = f"{self._now():>9.3f} s  {record.levelname.lower():<7}  {text}\n"
        for name, file in self._files.items():
            if node in (None, name):
                file.write(line)

    def close(self) -> None:
        """Take no more; may be called twice."""
        self._logger.removeHandler(self)
        for file in self._files.values():
            file.close()
        self._files.clear()
        super().close()
