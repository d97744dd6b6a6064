"""The kubelet's own DRA manager and ours side by side, each with a driver of its own and a folder."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.kubelet_sides import IN_MEMORY, Answer, LineProgram
from tests.support.oracle import told
from tests.support.patience import LIMIT_S

PAUSE_S = 0.001


class DraSide:
    """One manager and its driver."""

    def __init__(self, manager: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dra-", dir=IN_MEMORY if IN_MEMORY.is_dir() else "/tmp"))
        place = ["--dir", str(self.folder)]
        self._programs = {
            "manager": LineProgram([*manager, *place]),
            "driver": LineProgram([sys.executable, "-m", "tests.support.dra_driver", *place]),
        }

    def tell(self, whom: str, cmd: str, fields: dict[str, Any]) -> None:
        """Send a command; DIR in it stands for the folder."""
        line = json.dumps({"cmd": cmd, **fields}).replace('"DIR/', f'"{self.folder}/')
        self._programs[whom].tell_line(line.encode())

    def hear(self, whom: str) -> Answer:
        answer: Answer = told(self._programs[whom].hear(), self.folder)
        return answer

    def clear(self) -> None:
        """Remove all files."""
        for path in self.folder.iterdir():
            path.unlink()

    def close(self) -> None:
        for program in self._programs.values():
            program.end()
        shutil.rmtree(self.folder)


class DraSides:
    """Both; answers come as (real, ours)."""

    def __init__(self, oracle: Path, minor: str) -> None:
        ours = [sys.executable, "-m", "simkubelet.stdio", "--manager", "dra", "--kubelet-version", minor]
        self.both = DraSide([str(oracle)]), DraSide(ours)

    def ask(self, whom: str, cmd: str, **fields: Any) -> tuple[Answer, Answer]:
        for side in self.both:
            side.tell(whom, cmd, fields)
        real, ours = (side.hear(whom) for side in self.both)
        return real, ours

    def wait(self, whom: str, cmd: str, until: Callable[[Answer], object], **fields: Any) -> None:
        """Ask until both answers are as wanted."""
        deadline = time.monotonic() + LIMIT_S
        while not all(map(until, answers := self.ask(whom, cmd, **fields))):
            assert time.monotonic() < deadline, answers
            time.sleep(PAUSE_S)

    def close(self) -> None:
        for side in self.both:
            side.close()
