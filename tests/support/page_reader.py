"""A reader who plays the blocks of a page: one terminal for commands, one more for each program that keeps running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.doc_pages import AFTER_CTRL_C, FILE, KEEPS_RUNNING, Block, is_printed
from tests.support.patience import PROGRAM_LIMIT_S

RUNTIME_FOLDER = "/run/user/1000"
"""How pages write the reader's ``XDG_RUNTIME_DIR``."""
INTERRUPTED = 130


class PageReader:
    """Plays blocks in a folder of its own.

    Args:
        scratch: the home of what is played; its path is short, as sockets are made below it.
        programs: added to the front of the ``PATH``.
    """

    def __init__(self, scratch: Path, environment: dict[str, str], programs: Iterable[Path] = ()) -> None:
        self.folder = scratch / "page"
        self.folder.mkdir(exist_ok=True)
        self._state = scratch / "environment"
        path = ":".join([*map(str, programs), environment["PATH"]])
        self._environment = {**environment, "HOME": str(scratch), "PATH": path, "PWD": str(self.folder)}
        self._running: list[tuple[Block, subprocess.Popen[str]]] = []

    def read(self, page: Iterable[Block], but: Callable[[Block], bool]) -> None:
        """Play the blocks of a page in their order.

        Args:
            but: says which ones are left out.
        """
        for block in page:
            if AFTER_CTRL_C in block.notes:
                self.interrupt()
            if block.is_played and not but(block):
                self._play(block)

    def _play(self, block: Block) -> None:
        if FILE in block.notes:
            (self.folder / block.notes[FILE]).write_text(block.text)
        elif KEEPS_RUNNING in block.notes:
            self._start(block)
        elif block.language == "python":
            self._check(block, self._run(["python", "-c", block.text]))
        elif block.language == "sh":
            self._check(block, self._run(self._shell(block.text, is_kept=True)))
        else:
            self._compare(block)

    def interrupt(self) -> None:
        """Press Ctrl-C in the terminals of what runs, the latest first."""
        while self._running:
            block, process = self._running.pop()
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=PROGRAM_LIMIT_S)
            assert process.returncode in (0, INTERRUPTED), f"{block.place}: {process.returncode}\n{printed}"

    def kill(self) -> None:
        """End what runs, of a page that failed."""
        while self._running:
            _, process = self._running.pop()
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=PROGRAM_LIMIT_S)

    def _start(self, block: Block) -> None:
        process = subprocess.Popen(
            self._shell(block.text),
            cwd=self._environment["PWD"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running.append((block, process))

    def _compare(self, block: Block) -> None:
        commands = list(block.commands())
        for command, shown in commands:
            done = self._check(block, self._run(self._shell(command, is_kept=True)))
            assert is_printed(self._here(shown), done.stdout), f"{block.place}: {command}prints\n{done.stdout}"
        if not commands:
            _, process = self._running[-1]
            assert process.stdout is not None
            # What it prints later is read when it ends.
            printed = "".join(process.stdout.readline() for _ in block.text.splitlines())
            assert is_printed(self._here(block.text), printed), f"{block.place}: is really\n{printed}"

    def _shell(self, commands: str, *, is_kept: bool = False) -> list[str]:
        """Return the command line of a shell; if it `is_kept`, the next block continues with its variables."""
        bash = shutil.which("bash")
        assert bash is not None
        end = f"trap 'env -0 >{self._state}' EXIT\n" if is_kept else ""
        return [bash, "-eu", "-o", "pipefail", "-c", end + self._here(commands)]

    def _here(self, text: str) -> str:
        return text.replace(RUNTIME_FOLDER, self._environment["XDG_RUNTIME_DIR"])

    def _run(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        self._state.unlink(missing_ok=True)
        done = subprocess.run(
            argv,
            cwd=self._environment["PWD"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PROGRAM_LIMIT_S,
            check=False,
        )
        if self._state.exists():
            variables = (line.partition("=") for line in self._state.read_text().split("\0") if line)
            self._environment = {name: value for name, _, value in variables}
        return done

    @staticmethod
    def _check(block: Block, done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
        assert done.returncode == 0, f"{block.place}: status {done.returncode}\n{block.text}\n{done.stdout}"
        return done


@contextmanager
def page_reader(scratch: Path, environment: dict[str, str], programs: Iterable[Path] = ()) -> Iterator[PageReader]:
    """A reader until the end of the block; what keeps running has ended then, as Ctrl-C ends it."""
    reader = PageReader(scratch, environment, programs)
    try:
        yield reader
        reader.interrupt()
    finally:
        reader.kill()
