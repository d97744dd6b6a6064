"""Replaces a file again and again, each time in a process that is killed one system call later than the last.

Run as a program: `crashing_writes.py FOLDER NAME OLD NEW`, where OLD ("-" for none) and NEW are files. Prints one JSON
list: for each death what the process was about to do, and the folder's files (name -> text) as they were then. The last
process lives on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simkubelet._internal import replaced_file

_SYSTEM_CALLS = ("open", "write", "fsync", "close", "rename")


class DeadlyOs:
    """The module `os` of a process that dies before a certain system call, or in the middle of it if it writes."""

    def __init__(self, calls: int, *, tears: bool, report: int) -> None:
        self._left = calls
        self._tears = tears
        self._report = report

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in _SYSTEM_CALLS:
            return function

        def counted(*args: Any) -> Any:
            if self._left == 0:
                if self._tears and name == "write":
                    os.write(args[0], args[1][: len(args[1]) // 2])
                os.write(self._report, name.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            return function(*args)

        return counted


def deaths(folder: Path, name: str, old: bytes | None, new: bytes) -> Iterator[tuple[str, dict[str, str]]]:
    for tears in (False, True):
        calls, step = 0, "open"
        while step:
            for path in folder.iterdir():
                path.unlink()
            if old is not None:
                (folder / name).write_bytes(old)
            step = _write_and_die(folder, name, new, calls, tears=tears)
            yield step, {path.name: path.read_text() for path in folder.iterdir()}
            calls += 1


def _write_and_die(folder: Path, name: str, new: bytes, calls: int, *, tears: bool) -> str:
    """What the process was about to do; empty when it came to the end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        replaced_file.os = DeadlyOs(calls, tears=tears, report=writing)  # type: ignore[assignment]
        replaced_file.replace_file(folder, name, new)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as report:
        return report.read()


if __name__ == "__main__":
    where, what, before, after = sys.argv[1:]
    known = None if before == "-" else Path(before).read_bytes()
    print(json.dumps(list(deaths(Path(where), what, known, Path(after).read_bytes()))))
