"""What commands print: the one place through which all of it passes, on its way to standard output and error.

Names, messages and logs of plugins, files and objects are text of strangers. A terminal would obey its control
characters, and a CI system its workflow commands, so both are escaped; `visible` alone is for files that are read
elsewhere. A stream that cannot be written is an error of ours, once, and takes what follows without an effect.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO, cast

from ..model.errors import HostError, SimkubeletError, UnreadError

__all__ = [
    "Output",
    "escape",
    "is_unread",
    "one_line",
    "output_pipe",
    "printable",
    "standard_streams",
    "styled_output",
    "unprintable",
    "visible",
]

_HIDDEN: Final = (
    "["
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline, with those that are 8 bits long
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # what changes the direction or the shape of the text that follows
    r"\u2028\u2029\ufff9-\ufffb\ufffe\uffff"  # separators of lines, annotations, what is no character
    r"\ud800-\udfff"  # halves of characters, as in names of files that are no UTF-8
    "]"
)
_COMMAND: Final = r"^[^\S\x0b-\x1f\x85\u2028\u2029]*:(?=:[A-Za-z])|#(?=#\w*\[)"
"""What begins a workflow command: ``::error::`` at the start of a line; ``##[error]``, ``##vso[`` anywhere."""
_INVISIBLE: Final = re.compile(_HIDDEN)
_UNPRINTABLE: Final = re.compile(f"{_HIDDEN}|{_COMMAND}", re.MULTILINE)
_LONGEST_LINE: Final = 4000
"""In characters, before they are escaped."""
_END: Final = 500
"""What is kept of a longer line's end, which says how to fix what the line quotes."""
_NAMED: Final = {"\n": "\\n", "\r": "\\r"}


def escape(character: str) -> str:
    r"""A character as Python writes it in a string: ``\x1b``."""
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def visible(text: str) -> str:
    """Text with an escape for each control character; newlines and tabs stay, and so does a backslash.

    Such text can be in an XML document.
    """
    return _INVISIBLE.sub(lambda found: escape(found[0]), text)


def unprintable(text: str) -> list[int]:
    """Where text has characters that are not printed: control characters, and those that begin a workflow command.

    GitHub, Azure and TeamCity obey such commands of whatever program prints them.

    Source: src/Runner.Common/ActionCommand.cs, ``TryParseV2`` and ``TryParse`` (actions/runner); "Logging commands" in
    Azure's and "Service messages" in TeamCity's documentation.
    """
    return [found.end() - 1 for found in _UNPRINTABLE.finditer(text)]


def printable(text: str) -> str:
    """Text with an escape for each of these."""
    return _UNPRINTABLE.sub(lambda found: found[0][:-1] + escape(found[0][-1]), text)


def one_line(text: str) -> str:
    """The same for text that has to be one line: newlines are escapes, too; the middle of a long one is left out."""
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE - _END]}… ({len(text)} characters) …{text[-_END:]}"
    return printable(text).replace("\n", _NAMED["\n"])


class Output(io.TextIOBase):
    """A standard stream of a command, for text that is escaped already; a program such as rich adds colours to it.

    Args:
        below: Where it goes.
        is_needed: Whether an error of it is raised; the exit status counts though nobody reads standard error.

    Attributes:
        error: The one that was raised; nothing is written any more.
    """

    def __init__(self, below: TextIO, *, is_needed: bool) -> None:
        self._below = below
        self._is_needed = is_needed
        self._is_lost = False
        self.error: SimkubeletError | None = None

    def write(self, text: str, /) -> int:
        """Write text.

        Raises:
            UnreadError: Nobody reads it any more.
            HostError: It cannot be written.
        """
        # click tries a stream with empty text, and would keep the error for itself.
        if text and not self._is_lost:
            try:
                self._below.write(text)
            except OSError as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Pass on what was written; it raises what `write` does."""
        # Since Python 3.14 a stream of ours that is collected after the one below tells of the error.
        if not self._is_lost and not self._below.closed:
            try:
                self._below.flush()
            except OSError as error:
                self._lose(error)

    def _lose(self, error: OSError) -> None:
        self._is_lost = True
        # It discards what the stream holds: the interpreter would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._below.fileno())
        # A terminal that was closed has a signal of its own, which ends what has to end.
        if self._is_needed and error.errno != errno.EIO:
            self.error = UnreadError() if error.errno == errno.EPIPE else HostError(f"output: {error.strerror}")
            raise self.error from None

    def fileno(self) -> int:
        """The descriptor below."""
        return self._below.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._below.isatty()

    def writable(self) -> bool:
        """It is."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a variable
        """That of the stream below."""
        return self._below.encoding


class _Escaping(Output):
    """A standard stream for text of any origin.

    It has no `buffer`, through which click would write past it where the encoding is ASCII.
    """

    def __init__(self, styled: Output) -> None:
        super().__init__(cast("TextIO", styled), is_needed=True)
        self.styled = styled

    def write(self, text: str | bytes, /) -> int:
        # click prints what a shell completes as bytes, and hands them on where there is no `buffer`.
        return super().write(printable(text.decode() if isinstance(text, bytes) else text))


def styled_output() -> TextIO:
    """Standard output for what a program such as rich writes: text that is escaped already, with colours of ours."""
    return cast("TextIO", sys.stdout.styled) if isinstance(sys.stdout, _Escaping) else sys.stdout


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Let all that is printed inside pass here, and give standard output; streams that are closed lead nowhere."""
    before = sys.stdin, sys.stdout, sys.stderr
    _open_closed()
    with ExitStack() as opened:
        sys.stdin, out, errors = (
            stream or cast("TextIO", opened.enter_context(Path(os.devnull).open(mode, encoding="utf-8")))
            for stream, mode in zip(before, ("r", "w", "w"), strict=True)
        )
        output = Output(_lenient(out), is_needed=True)
        sys.stdout = cast("TextIO", _Escaping(output))
        sys.stderr = cast("TextIO", _Escaping(Output(_lenient(errors), is_needed=False)))
        try:
            yield output
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def _open_closed() -> None:
    """Let nothing else have the number of a standard stream: what is printed would get into a file or a socket."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)


def _lenient(stream: TextIO) -> TextIO:
    """A stream that takes any character: what its encoding lacks is an escape."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def output_pipe() -> int | None:
    """The descriptor of standard output, where it is the end of a pipe whose other end somebody has to read."""
    number = 1
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(number).st_mode)
        is_write_end = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
    except OSError:
        return None
    return number if is_pipe and is_write_end else None


def is_unread() -> bool:
    """Whether standard output is a pipe whose reader has closed it."""
    if (pipe := output_pipe()) is None:
        return False
    poll = select.poll()
    poll.register(pipe, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))
