"""Two kubelets side by side, the real device manager and the simulated one, each with stub plugins of its own.

Whatever a test does, it does to both; `Sides` hears both answers at once, so that neither waits for the other.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simkubelet.model.version import DEFAULT, version
from tests.support.oracle import told
from tests.support.patience import LIMIT_S

FIRST_MANAGER = version("1.29.0")
SETTLE_S = 4.0
PAUSE_S = 0.001
"""Between two looks: who asks without a pause takes the core from those it waits for."""
IN_MEMORY = Path("/dev/shm")
ONE_CORE = {"GOMAXPROCS": "1"}
"""Of a Go program: what it does here is one thing after the other, and its threads would only wake each other."""

Answer = dict[str, Any]


class NoAnswerError(AssertionError):
    """A program ended or fell silent."""


class LineProgram:
    """A program that answers JSON lines with JSON lines."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={**os.environ, **ONE_CORE}
        )
        self._read = bytearray()
        self.is_lost = False

    def tell(self, cmd: str, **fields: Any) -> None:
        self.tell_line(json.dumps({"cmd": cmd, **fields}).encode())

    def tell_line(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
        except BrokenPipeError:
            self.is_lost = True
            raise NoAnswerError(f"{self.command[0]} has ended; exit status {self._process.poll()}") from None

    def hear(self) -> Answer:
        assert self._process.stdout is not None
        deadline = time.monotonic() + LIMIT_S
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not chunk:
                self.is_lost = True
                raise NoAnswerError(f"{self.command[0]}: no answer; exit status {self._process.poll()}")
            self._read += chunk
        line, _, rest = self._read.partition(b"\n")
        self._read = bytearray(rest)
        answer: Answer = json.loads(line)
        return answer

    def ask(self, cmd: str, **fields: Any) -> Answer:
        self.tell(cmd, **fields)
        return self.hear()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@dataclass(frozen=True)
class Programs:
    """Where the oracle and its stub plugin are, and which minor they are of."""

    oracle: Path
    stub: Path
    minor: str

    @classmethod
    def named_by_environment(cls) -> Programs | None:
        """The programs that the nox session `oracle` built; None where nobody did."""
        named = [os.environ.get(f"SIMKUBELET_ORACLE{which}") for which in ("", "_STUB")]
        if not all(named):
            return None
        oracle, stub = (Path(str(path)) for path in named)
        minor = os.environ.get("SIMKUBELET_ORACLE_VERSION", DEFAULT)
        # The oracle of an older minor is that of the usual one.
        return cls(oracle, stub, minor if version(minor) >= FIRST_MANAGER else DEFAULT)

    @property
    def ours(self) -> list[str]:
        """The simulated kubelet's command line without its folder, as the same minor."""
        return [sys.executable, "-m", "simkubelet.stdio", "--kubelet-version", self.minor]


class Side:
    """One kubelet in a folder of its own, and its plugins by name."""

    def __init__(self, name: str, kubelet: list[str], stub: Path, place: Path | None = None) -> None:
        self.name = name
        place = place or (IN_MEMORY if IN_MEMORY.is_dir() else Path("/tmp"))
        self.folder = Path(tempfile.mkdtemp(prefix="sk-", dir=place))
        self._kubelet, self._stub = kubelet, stub
        self.programs = {"kubelet": LineProgram([*kubelet, "--dir", str(self.folder)])}

    def spawn(self, plugin: str) -> None:
        """Start a plugin's process, in the place of the last one; it serves nothing until it is `reset`."""
        self.end(plugin)
        program = LineProgram([str(self._stub), "--dir", str(self.folder), "--no-register", "--socket", f".{plugin}"])
        self.programs[plugin] = program
        program.hear()

    def hear(self, whom: str) -> Answer:
        """The next answer, as the other side would give it too."""
        answer: Answer = told(self.programs[whom].hear(), self.folder)
        return answer

    def revive(self, plugins: Iterable[str], *, is_kubelet_lost: bool) -> None:
        """Start again what has ended or fallen silent."""
        if is_kubelet_lost or self.programs["kubelet"].is_lost:
            self.respawn_kubelet()
        for plugin in plugins:
            if self.programs[plugin].is_lost:
                self.spawn(plugin)

    def respawn_kubelet(self) -> None:
        self.end("kubelet")
        self.programs["kubelet"] = LineProgram([*self._kubelet, "--dir", str(self.folder)])

    def clear_folder(self) -> None:
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def end(self, name: str) -> None:
        program = self.programs.pop(name, None)
        if program is not None:
            program.end()

    def close(self) -> None:
        for name in list(self.programs):
            self.end(name)
        shutil.rmtree(self.folder)


class Sides:
    """The real kubelet and ours; answers come as (real, ours).

    Args:
        programs: What is compared.
        plugins: Names of stubs.
        place: Where both have their folders; in memory where it is None.
    """

    def __init__(self, programs: Programs, plugins: tuple[str, ...], place: Path | None = None) -> None:
        self.real = Side("real", [str(programs.oracle)], programs.stub, place)
        self.ours = Side("ours", programs.ours, programs.stub, place)
        self.plugins = plugins
        for side in self.both:
            for plugin in plugins:
                side.spawn(plugin)

    @property
    def both(self) -> tuple[Side, Side]:
        return self.real, self.ours

    def ask(self, whom: str, cmd: str, **fields: Any) -> tuple[Answer, Answer]:
        """Tell both sides the same, then hear both; without what is measured, see `told`."""
        for side in self.both:
            side.programs[whom].tell(cmd, **fields)
        return self.real.hear(whom), self.ours.hear(whom)

    def reset(self, plugin: str, **options: Any) -> None:
        """Bring a plugin's processes back to the start of their lives: serving, and not registered."""
        for side in self.both:
            side.programs[plugin].tell("reset", dir=str(side.folder), register=False, **options)
        for side in self.both:
            side.programs[plugin].hear()

    def wait(self, whom: str, cmd: str, until: Callable[[Answer], object], **fields: Any) -> tuple[Answer, Answer]:
        """Ask each side until its answer is as wanted or it has had its time; the answers are the last ones."""
        deadline = time.monotonic() + SETTLE_S
        answers: list[Answer] = []
        for side in self.both:
            answer = side.programs[whom].ask(cmd, **fields)
            while not until(answer) and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                answer = side.programs[whom].ask(cmd, **fields)
            answers.append(answer)
        return answers[0], answers[1]

    def ask_until(
        self, whom: str, cmd: str, are_alike: Callable[[Answer, Answer], object], **fields: Any
    ) -> tuple[Answer, Answer]:
        """Ask both until their answers are alike or they have had their time; the answers are the last ones."""
        deadline = time.monotonic() + SETTLE_S
        real, ours = self.ask(whom, cmd, **fields)
        while not are_alike(real, ours) and time.monotonic() < deadline:
            time.sleep(PAUSE_S)
            real, ours = self.ask(whom, cmd, **fields)
        return real, ours

    def wait_until_alike(self, whom: str, cmd: str) -> None:
        """Ask both until they answer the same, or have had their time."""
        self.ask_until(whom, cmd, lambda real, ours: real == ours or not (real["ok"] or ours["ok"]))

    def close(self) -> None:
        for side in self.both:
            side.close()
