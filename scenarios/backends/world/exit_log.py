"""The line of a plugin's log that says why it ended, for the messages about its end."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_TAIL_BYTES: Final = 1 << 16
_GROWTH: Final = 8
_LONGEST: Final = 1000
"""Characters of a line that a message can take."""

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
_GO_SIGNAL: Final = re.compile(r"^\[signal SIG.*$", re.MULTILINE)
# What comes after such a line and belongs to it: Rust's message, C++'s what().
_CONTINUED: Final = re.compile(r"^(?:thread '.*:\n|terminate called .*\n(?=  what\(\)))(.*)$", re.MULTILINE)


def exit_message(log: Path, begin: int = 0) -> str:
    """The line of a log that says why its program ended: the cause of a crash, else the last line.

    A crash of a Go program may write megabytes after its cause, a stack for each goroutine: so much is read.

    Args:
        log: The log; it need not be there.
        begin: The byte at which the program's own part begins.

    Returns:
        One line, truncated where it is long; empty where there is none.
    """
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            length = _TAIL_BYTES
            while True:
                start = max(begin, end - length)
                file.seek(start)
                text = file.read(end - start).decode(errors="replace")
                cause = _cause_in(text)
                if cause or start == begin or not _GOROUTINE.search(text):
                    break
                length *= _GROWTH
    except FileNotFoundError:
        return ""
    words = cause or text.strip().rpartition("\n")[2].strip()
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"


def _cause_in(text: str) -> str:
    """The cause of the last crash, with what belongs to it on the next line; empty where there is none."""
    causes = list(_CAUSES.finditer(text)) or list(_GO_SIGNAL.finditer(text))
    if not causes:
        return ""
    continued = _CONTINUED.match(text, causes[-1].start())
    return " ".join(part.strip() for part in (causes[-1][0], continued[1] if continued else "")).strip()
