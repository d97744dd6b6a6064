"""Docker's and kind's command lines as subprocesses.

Not the docker SDK for Python: kind itself runs ``docker``, so the program is there wherever kind works, contexts and
sign-ins included; the SDK blocks its thread, while a subprocess is waited for, streamed and ended in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from simkubelet.model.errors import HostError, SimkubeletError

_LINE_LIMIT_BYTES: Final = 16 * 1024 * 1024
_END_GRACE_S: Final = 5.0
_RUN_GRACE_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.05
_GONE: Final = "a node's container was ended under the story"
_FIXES = {
    "is not running": _GONE,
    "error executing setns process": _GONE,
    "permission denied": "the docker daemon lets this user do nothing; join its socket's group, or use sudo",
    "Cannot connect to the Docker daemon": "no docker daemon answers; start it, or name its socket in DOCKER_HOST",
    "failed to connect to the docker API": "no docker daemon answers; start it, or name its socket in DOCKER_HOST",
    "error during connect": "no docker daemon answers; start it, or name its socket in DOCKER_HOST",
}
_MISSING = {
    "docker": "there is no program 'docker'; install it, for example Debian's docker.io",
    "kind": "there is no program 'kind'; install it (https://kind.sigs.k8s.io) and put its folder on PATH",
}


class CommandError(HostError):
    """A command ended with an error; the message says which and why in one line."""


async def output_of(*argv: str, given: bytes | None = None, within_s: float = 60.0) -> str:
    """Run a command to its end and return what it wrote to standard output.

    Args:
        argv: The command.
        given: Its standard input.
        within_s: After so long it is killed.

    Raises:
        HostError: It is missing, fails or takes too long.
    """
    async with process(*argv, has_input=given is not None) as running:
        try:
            async with asyncio.timeout(within_s):
                out, err = await running.communicate(given)
        except TimeoutError:
            raise CommandError(f"{_named(argv)}: took longer than {within_s:g} s") from None
    if running.returncode != 0:
        raise CommandError(_explained(argv, (err or out).decode(errors="replace"), running.returncode))
    return out.decode(errors="replace")


@contextlib.asynccontextmanager
async def process(*argv: str, has_input: bool = True) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command with pipes for all it reads and writes; leaving ends it.

    Raises:
        HostError: It is missing, or no process could be made.
    """
    starting = asyncio.ensure_future(_started(argv, has_input))
    try:
        await asyncio.wait([starting])
    except asyncio.CancelledError:
        # A start that is cancelled half way would wait until nobody of the command's children writes any more.
        await _end(await starting)
        raise
    running = starting.result()
    try:
        yield running
    finally:
        if running.returncode is None:
            await _end(running)


async def _started(argv: Sequence[str], has_input: bool) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=pipe if has_input else asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            limit=_LINE_LIMIT_BYTES,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise HostError(_MISSING.get(argv[0], f"there is no program '{argv[0]}'")) from None
    except OSError as error:
        raise HostError(f"{argv[0]}: cannot start a process: {error}") from None


async def _end(running: asyncio.subprocess.Process) -> None:
    """End a command and what it has started: kind's own docker commands would go on without it.

    Its ``docker run`` do go on to their end: the daemon makes the container of one that was ended half way all the
    same, and later than whoever deletes the containers looks for them.
    """
    begin, told = time.monotonic(), set[int]()
    rest = asyncio.ensure_future(running.communicate())
    while members := _members(running.pid):
        took = time.monotonic() - begin
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                if took > (_RUN_GRACE_S if _makes_container(pid) else _END_GRACE_S):
                    os.kill(pid, signal.SIGKILL)
                elif pid not in told and not _makes_container(pid):
                    told.add(pid)
                    os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(_LOOK_AGAIN_S)
    await rest


def _members(group: int) -> list[int]:
    """Ids of the processes of a group that have not ended. Source: proc(5), fields 3 and 5 of /proc/PID/stat."""
    members = []
    # A pattern for the files in these folders would ask whether each is there, and fail at a process that ends.
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, its_group = (process / "stat").read_text(errors="replace").rpartition(") ")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                members.append(int(process.name))
    return members


def _makes_container(pid: int) -> bool:
    """Whether a process is ``docker run``, which may be a script of that name."""
    try:
        return b"run" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1:3]
    except OSError:
        return False


def _named(argv: Sequence[str]) -> str:
    return " ".join(argv[:3])


def _explained(argv: Sequence[str], said: str, status: int | None) -> str:
    for words, fix in _FIXES.items():
        if words in said:
            return fix
    lines = [line for line in said.splitlines() if line.strip()]
    line = next((line for line in lines if line.lower().startswith(("error", "failed"))), lines[-1] if lines else "")
    return f"{_named(argv)}: {line.strip() or f'ended with status {status}'}"


def is_gone(error: SimkubeletError) -> bool:
    """Whether a command failed because what it names is not there."""
    return "No such" in str(error) or "not found" in str(error)
