"""Logs of a world: those of kubelets, each in its node's file in node time, and why a plugin's log says it ended.

A kubelet's log that has become long is continued in another file, and the one before it is kept.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Final

from simkubelet.host import folder_without_links, one_line, rotated_files
from simkubelet.model.errors import InputError
from simkubelet.node_tree import open_without_links

_PLACE: ContextVar[tuple[KubeletLogs, str | None]] = ContextVar("place")
"""The world and the node for which something runs; a task inherits it from the task that started its kubelet."""
_MAX_LOG_BYTES: Final = 10 << 20
_TAIL_BYTES: Final = 1 << 16
_GROWTH: Final = 8
_LONGEST: Final = 1000
"""Characters of a line that a message can take."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")
"""What gives text a colour, which a report does not take over."""
_GOROUTINE: Final = re.compile(r"^goroutine \d+ ", re.MULTILINE)
# Lines that name the cause of a crash, where what follows is stacks and registers; the text in front is of the line.
_CAUSES: Final = re.compile(
    r"""^(?:
        panic:\ |fatal\ error:\ |SIG[A-Z0-9]+:\             # Go's runtime
        |F\d{4}\ \d\d:\d\d:\d\d\.\d+\                       # klog
        |\S+\s+FATAL\s                                      # zap
        |thread\ '.*'.*\ panicked\ at\                      # Rust
        |terminate\ called\                                 # C++
        |==\d+==\s?ERROR:\ |Fatal\ Python\ error:\          # sanitizers, faulthandler
        |.*\bSegmentation\ fault\b                          # shells
        |\S.*(?=\n\s+at\ )                                  # Java, Node.js, .NET
    ).*$""",
    re.MULTILINE | re.VERBOSE,
)
# Of a program that goes on after an error, or ends in its own way: the first line that names one.
_ERRORS: Final = re.compile(
    r"""^(?:
        [EF]\d{4}\ \d\d:\d\d:\d\d\.\d+\                         # klog
        |(?![IWD]\d{4}\ ).*\b(?:panic|fatal|exception|error)\b
            (?!["']?\s*[:=]\s*(?:""|''|null|none|nil|<nil>))      # words of others, but for that there is none
    ).*$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)
# Python's, where the exception of a call of grpcio goes on until a line with nothing but ">".
_TRACEBACK: Final = re.compile(
    r"""^Traceback\ \(most\ recent\ call\ last\):\n(?:[ \t].*\n)+
        (\S.*?)(?:\ of\ RPC\ that\ terminated\ with:\n\s+status\ =\ (.*)\n\s+details\ =\ "(.*)"\n(?:.*\n)*?>)?$""",
    re.MULTILINE | re.VERBOSE,
)
_GO_SIGNAL: Final = re.compile(r"^\[signal SIG.*$", re.MULTILINE)
# What comes after such a line and belongs to it: Rust's message, C++'s what().
_CONTINUED: Final = re.compile(r"^(?:thread '.*:\n|terminate called .*\n(?=  what\(\)))(.*)$", re.MULTILINE)


class KubeletLogs(logging.Handler):
    """Takes the log of the package `simkubelet` from `start` to `close`.

    Args:
        now: Node time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._paths: dict[str, Path] = {}
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
            self._paths[name], self._files[name] = file, open_without_links(file, "x", buffering=1)
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
        # A name of a file need not be UTF-8.
        text = " ".join(record.getMessage().splitlines()).encode(errors="backslashreplace").decode()
        line = f"{self._now():>9.3f} s  {record.levelname.lower():<7}  {text}\n"
        for name, file in tuple(self._files.items()):
            if node in (None, name):
                # What a full disk does not take is lost.
                with suppress(OSError):
                    file.write(line)
                    if file.tell() >= _MAX_LOG_BYTES:
                        self._rotate(name)

    def _rotate(self, node: str) -> None:
        path = self._paths[node]
        with folder_without_links(path.parent) as folder:
            os.replace(path.name, f"{path.name}.1", src_dir_fd=folder, dst_dir_fd=folder)
        before, self._files[node] = self._files[node], open_without_links(path, "x", buffering=1)
        before.close()

    def finish(self) -> None:
        """Write no more: what is logged while the world ends is not the story's."""
        for file in self._files.values():
            with suppress(OSError):
                file.close()
        self._files.clear()

    def close(self) -> None:
        """Take no more; may be called twice."""
        self._logger.removeHandler(self)
        self.finish()
        super().close()


def last_lines(log: Path, count: int = 8) -> tuple[str, ...]:
    """The last lines of a log, without colours, truncated where long; fewer where these are more than can be shown.

    Its first error is in front of them, and a line "…", where it comes before them. None where it is no file any more.
    """
    try:
        with open_without_links(log, "rb") as file:
            lines = _ends_of(file, 0).splitlines()
    except OSError:
        return ()
    before, last = lines[:-count], lines[-count:]
    errors = _errors_in("\n".join(before))
    return tuple(map(_shown, (errors[0][1], "…", *last) if errors else last))


def exit_message(log: Path, begin: int = 0, *, is_rotated: bool = False) -> str:
    """What a log says about why its program ended: the cause of a crash, else the first error, and the last line.

    A crash of a Go program may write megabytes after its cause, a stack for each goroutine: so much is read.

    Args:
        log: The log; it need not be there.
        begin: The byte at which the program's own part begins.
        is_rotated: Whether a part of it was rotated, which is read where there is nothing in the log.

    Returns:
        One line, truncated where it is long; empty where there is none. "…" is between an error and what comes after.
    """
    words = _exit_line(log, begin)
    if not words and is_rotated and (rotated := rotated_files(log)):
        words = _exit_line(rotated[-1], 0)
    return _shown(words)


def _exit_line(log: Path, begin: int) -> str:
    try:
        with open_without_links(log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            length = _TAIL_BYTES
            while True:
                start = max(begin, end - length)
                file.seek(start)
                text = _COLOURS.sub("", file.read(end - start).decode(errors="replace"))
                cause = _cause_in(text)
                if cause or start == begin or not _GOROUTINE.search(text):
                    break
                length *= _GROWTH
            return cause or _error_and_end(_ends_of(file, begin))
    except OSError:
        # Not there, or a link in its place.
        return ""


def _ends_of(file: IO[bytes], begin: int) -> str:
    """What a log has from a byte on, without what is in the middle of a long one."""
    end = file.seek(0, os.SEEK_END)
    parts = [(begin, end)]
    if end - begin > 2 * _TAIL_BYTES:
        parts = [(begin, begin + _TAIL_BYTES), (end - _TAIL_BYTES, end)]
    read = []
    for start, stop in parts:
        file.seek(start)
        read.append(file.read(stop - start))
    return _COLOURS.sub("", b"\n".join(read).decode(errors="replace"))


def _error_and_end(text: str) -> str:
    """The first error and the last line, or one of them where they are the same."""
    text = text.strip()
    errors = _errors_in(text)
    end = errors[-1][1] if errors and errors[-1][0] == len(text) else text.rpartition("\n")[2].strip()
    first = errors[0][1] if errors else end
    return end if first == end else f"{first[: _LONGEST // 2]} … {end}"


def _errors_in(text: str) -> list[tuple[int, str]]:
    """The first line that names an error, if no traceback is before it, and all exceptions, each with where it ends."""
    tracebacks = list(_TRACEBACK.finditer(text))
    found = [(one.end(), _exception(one)) for one in tracebacks]
    first = _ERRORS.search(text, 0, tracebacks[0].start() if tracebacks else len(text))
    return found if first is None else [(first.end(), first[0].strip()), *found]


def _exception(traceback: re.Match[str]) -> str:
    """The last line of a traceback; of grpcio's, which has several, what the call was answered with."""
    return f"{traceback[1]} {traceback[2]}: {traceback[3]}" if traceback[2] else traceback[1].strip()


def _shown(line: str) -> str:
    """A line for a message, whatever a program has written."""
    return one_line(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")


def _cause_in(text: str) -> str:
    """The cause of the last crash, with what belongs to it on the next line; empty where there is none."""
    causes = list(_CAUSES.finditer(text)) or list(_GO_SIGNAL.finditer(text))
    if not causes:
        return ""
    continued = _CONTINUED.match(text, causes[-1].start())
    return " ".join(part.strip() for part in (causes[-1][0], continued[1] if continued else "")).strip()
