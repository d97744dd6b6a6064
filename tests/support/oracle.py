"""Programs of the oracle's line protocol as processes: a JSON object a line goes in, an answer a line comes out.

`OracleProcess` is a kubelet, the real device manager (``tests/oracle``, Go) or ``python -m simkubelet.stdio``;
`StubProcess` is a plugin; `OracleProgram` is for answers that come at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.patience import LIMIT_S

Answer = dict[str, Any]

LONGEST_LINE = 64 << 20
ROUNDS = int(os.environ.get("SIMKUBELET_ORACLE_ROUNDS", "1"))
EXAMPLES = int(os.environ.get("SIMKUBELET_ORACLE_EXAMPLES", "200" if os.environ.get("CI") else "25"))
"""Random examples of each test that compares with the real programs; CI has the time for eight times as many."""
SEED = int(os.environ.get("SIMKUBELET_ORACLE_SEED", "20260801"))
MEASURED = {"t", "us", "seen_t", "send_t", "took_ms", "took_us", "stop_us", "start_us"}


def compared(**more: Any) -> settings:
    """How a test draws what it asks ours and a real program; `more` are further settings of Hypothesis."""
    return settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        **more,
    )


def told(answer: Any, folder: Path) -> Any:
    """An answer as another kubelet gives it too: nothing measured, no address of memory, DIR for the folder."""
    if isinstance(answer, dict):
        return {key: told(value, folder) for key, value in answer.items() if key not in MEASURED}
    if isinstance(answer, list):
        return [told(item, folder) for item in answer]
    if not isinstance(answer, str):
        return answer
    text = answer
    # Most texts are names: hundreds of thousands of them in a session.
    if " " in text:
        text = re.sub(r"endpoint &\{.*\} has been stopped", "endpoint &{…} has been stopped", text)
        text = re.sub(r"(nil pointer dereference) \[.*\]", r"\1", text)
    return text.replace(str(folder), "DIR") if "/" in text else text


class ProcessEndedError(Exception):
    """The program ended instead of answering; the message holds what it wrote to standard error."""


class LineProcess:
    """A program that answers each line with one line.

    `start` begins it, `close` ends it from any state; as an async context manager it does both. Commands are asked one
    after the other; a second one waits for the first one's answer.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process

    async def start(self) -> None:
        """Start the program; nothing is read yet."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            limit=LONGEST_LINE,
        )

    async def ask(self, **command: Any) -> Answer:
        """Send one command and return its answer, whether or not its ``ok`` is true.

        Raises:
            ProcessEndedError: There is no answer, as the program has ended.
            TimeoutError: There was no answer for a minute.
        """
        async with self._turn:
            process = self._running()
            assert process.stdin is not None
            process.stdin.write(json.dumps(command).encode() + b"\n")
            try:
                await process.stdin.drain()
            except ConnectionError:
                raise self._ended() from None
            return await self.read()

    async def read(self) -> Answer:
        """Return the next line; for those that come without being asked for."""
        process = self._running()
        assert process.stdout is not None
        async with asyncio.timeout(LIMIT_S):
            line = await process.stdout.readline()
        if not line:
            await process.wait()
            raise self._ended()
        answer: Answer = json.loads(line)
        return answer

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._running().pid

    async def wait(self) -> int:
        """Return the exit status once the program has ended; below zero it is a signal."""
        return await self._running().wait()

    async def close(self) -> None:
        """Kill the program, if it still runs, and wait for its end."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if self._process is not None:
            await self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._errors.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"{self._command[0]} was not started")
        return self._process

    def _ended(self) -> ProcessEndedError:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        status = None if self._process is None else self._process.returncode
        return ProcessEndedError(f"{' '.join(self._command)} ended with status {status}: {said or 'it said nothing'}")


class OracleProgram:
    """A program that answers each line at once, until `close`; it is waited for."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **command: Any) -> Answer:
        """Send one command and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command, ensure_ascii=False) + "\n")
        self._process.stdin.flush()
        answer: Answer = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def oracle_program(variable: str) -> Iterator[OracleProgram]:
    """The program that the session `oracle` names in a variable, for a fixture; without it its tests are skipped."""
    path = os.environ.get(variable)
    if path is None:
        pytest.skip(f"no oracle: {variable} is not set, as the nox session `oracle` does")
    program = OracleProgram(path)
    yield program
    program.close()


class OracleProcess(LineProcess):
    """A kubelet that speaks the protocol: the Go oracle, or simkubelet's adapter.

    Args:
        binary: The program, or its command line without ``--dir``.
        directory: The device plugin folder.
    """

    def __init__(self, binary: str | Path | Sequence[str], directory: Path) -> None:
        command = [str(binary)] if isinstance(binary, str | Path) else list(binary)
        super().__init__([*command, "--dir", str(directory)])


class StubProcess(LineProcess):
    """The scriptable Go plugin; `started` is what it said when it was up, its registration included.

    Args:
        binary: The stub's program.
        directory: The device plugin folder.
        options: The stub's flags by name, ``register`` included: ``devices=4, numa="0,1", register=False``.
    """

    def __init__(self, binary: str | Path, directory: Path, **options: Any) -> None:
        super().__init__([str(binary), "--dir", str(directory), *stub_flags(options)])
        self.started: Answer = {}

    async def start(self) -> None:
        """Start the plugin and wait until it serves and, by default, has tried to register."""
        await super().start()
        self.started = await self.read()

    async def reset(self, directory: Path, **options: Any) -> Answer:
        """Bring the process back to the start of its life, in another folder; the answer is like `started`."""
        answer = await self.ask(cmd="reset", dir=str(directory), **options)
        answer["event"] = "started"
        self.started = answer
        return answer


def stub_flags(options: Mapping[str, Any]) -> list[str]:
    """Return the stub's command line flags for options by name."""
    flags = [f"--{name}={json.dumps(value) if isinstance(value, bool) else value}" for name, value in options.items()]
    return ["--no-register" if flag == "--register=false" else flag for flag in flags if flag != "--register=true"]
