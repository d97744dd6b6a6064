"""What the programs of this package print, on its way to standard output and error.

Names of GPUs and processes come from profiles, recordings and programs of strangers. A terminal would obey their
control characters, and a CI system their workflow commands, so both are escaped. `simkubelet._internal.output` does the
same for the other packages, which do not know this one.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO, cast

from .errors import FakeGpuError, HostError

_UNPRINTABLE: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f\u2028\u2029\ufff9-\ufffb\ufffe\uffff"
    r"\ud800-\udfff]|^[^\S\x0b-\x1f\x85\u2028\u2029]*:(?=:[A-Za-z])|#(?=#\w*\[)",
    re.MULTILINE,
)
_LONGEST_LINE: Final = 4000
"""In characters, before they are escaped."""
_END: Final = 500
"""What is kept of a longer line's end, which says how to fix what the line quotes."""
_NAMED: Final = {"\n": "\\n", "\r": "\\r"}


class OutputError(FakeGpuError):
    """Standard output cannot be written, with the reason; or nobody reads it any more, which needs no words.

    The status of the second is that of a program that SIGPIPE ends.
    """

    def __init__(self, error: OSError) -> None:
        is_unread = error.errno == errno.EPIPE
        super().__init__(*(() if is_unread else (f"output: {error.strerror}",)))
        self.exit_status = 128 + signal.SIGPIPE if is_unread else HostError.exit_status


def printable(text: str) -> str:
    """Text with an escape for each control character but tab and newline, and for what begins a workflow command."""
    return _UNPRINTABLE.sub(lambda found: found[0][:-1] + _escape(found[0][-1]), text)


def one_line(text: str) -> str:
    """The same for text that has to be one line; the middle of a long one is left out."""
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE - _END]}… ({len(text)} characters) …{text[-_END:]}"
    return printable(text).replace("\n", _NAMED["\n"])


def _escape(character: str) -> str:
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


class Output(io.TextIOBase):
    """A standard stream; it has no `buffer`, through which click would write past it where the encoding is ASCII.

    Args:
        below: Where it goes.
        is_needed: Whether an error of it is raised, once; what follows is discarded in any case.

    Attributes:
        error: The one that was raised.
    """

    def __init__(self, below: TextIO, *, is_needed: bool) -> None:
        if isinstance(below, io.TextIOWrapper):
            below.reconfigure(errors="backslashreplace")
        self._below = below
        self._is_needed = is_needed
        self._is_lost = False
        self.error: OutputError | None = None

    def write(self, text: str | bytes, /) -> int:
        """Write text of any origin; raises what `write_styled` does."""
        # click prints what a shell completes as bytes, and hands them on where there is no `buffer`.
        self.write_styled(printable(text.decode() if isinstance(text, bytes) else text))
        return len(text)

    def write_styled(self, text: str) -> None:
        """Write text that is printable but for colours of ours.

        Raises:
            OutputError: It cannot be written.
        """
        # click tries a stream with empty text, and would keep the error for itself.
        if text and not self._is_lost:
            try:
                self._below.write(text)
            except OSError as error:
                self._lose(error)

    def flush(self) -> None:
        """Pass on what was written; raises what `write_styled` does."""
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
        # A terminal that was closed has a signal of its own.
        if self._is_needed and error.errno != errno.EIO:
            self.error = OutputError(error)
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


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Let all that is printed inside pass here, and give standard output; streams that are closed lead nowhere."""
    before = sys.stdin, sys.stdout, sys.stderr
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Otherwise a file that is opened next would have the number, and what is printed.
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    with ExitStack() as opened:
        sys.stdin, out, errors = (
            stream or cast("TextIO", opened.enter_context(Path(os.devnull).open(mode, encoding="utf-8")))
            for stream, mode in zip(before, ("r", "w", "w"), strict=True)
        )
        output = Output(out, is_needed=True)
        sys.stdout = cast("TextIO", output)
        sys.stderr = cast("TextIO", Output(errors, is_needed=False))
        try:
            yield output
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def print_styled(text: str) -> None:
    """Print text that is printable but for colours of ours."""
    if isinstance(sys.stdout, Output):
        sys.stdout.write_styled(text)
    else:
        sys.stdout.write(text)
