"""Writes a checkpoint again and again, each time in a process that is killed one system call later than the last.

Run as a program: `crashing_writes.py FOLDER OLD NEW`, where OLD ("-" for none) and NEW are files. Prints a JSON list of
two lists, of writes that come whole and that come half way: for each death what the process was about to do, and the
folder's files (name -> text) as they were then. The last process of each list lives on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simkubelet._internal import file_tree, replaced_file
from simkubelet.devices import plugin_folder
from simkubelet.devices.checkpoint import CHECKPOINT_NAME

_SYSTEM_CALLS = {"open", "write", "fsync", "close", "rename", "replace", "link", "unlink", "mkdir", "rmdir"}
"""Those that change a file, and those around them. What `file_tree` opens by openat2 is only folders to look in."""


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

        def counted(*args: Any, **options: Any) -> Any:
            if self._left == 0:
                if self._tears and name == "write":
                    os.write(args[0], args[1][: len(args[1]) // 2])
                os.write(self._report, name.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            return function(*args, **options)

        return counted


def deaths(folder: Path, old: bytes | None, new: bytes, *, tears: bool) -> Iterator[tuple[str, dict[str, str]]]:
    calls, step = 0, "open"
    while step:
        for path in folder.iterdir():
            path.unlink()
        if old is not None:
            (folder / CHECKPOINT_NAME).write_bytes(old)
        step = _write_and_die(folder, new, calls, tears=tears)
        yield step, {path.name: path.read_text() for path in folder.iterdir()}
        calls += 1


def _write_and_die(folder: Path, new: bytes, calls: int, *, tears: bool) -> str:
    """What the process was about to do; empty when it came to the end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        deadly = DeadlyOs(calls, tears=tears, report=writing)
        for module in (plugin_folder, file_tree, replaced_file):
            vars(module)["os"] = deadly
        plugin_folder.PluginFolder(folder).save(new)
        os._exit(0)
    os.close(writing)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(reading) as report:
        step = report.read()
    if status != (-signal.SIGKILL if step else 0):
        raise ChildProcessError(f"the write of a checkpoint ended with status {status}")
    return step


if __name__ == "__main__":
    where, before, after = sys.argv[1:]
    known = None if before == "-" else Path(before).read_bytes()
    text = Path(after).read_bytes()
    print(json.dumps([list(deaths(Path(where), known, text, tears=tears)) for tears in (False, True)]))
