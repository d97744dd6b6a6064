"""Bundled plugins of many nodes, forked from one process that has loaded them (`plugin.fork_server`).

Each is a process of its own, since NVML is one machine for each process, and since a plugin is killed, paused and
measured as a process. Forked it starts faster and needs less memory. Plugins of users, and those that run in a view of
their node, are started as anywhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

from simkubelet.host import BoundProgram, Bounds, module_name, python_path, tied_to_parent
from simkubelet.model.errors import HostError, SimkubeletError

from .child import Child, MarkedProcess, PluginCommand, spawn_process
from .marked_processes import MARK

_ROOM: Final = 1 << 11
"""Bytes of a plugin's command line, and of what its environment has more than that of this process; see the server."""
_LONGEST_ANSWER: Final = 1 << 10
_SERVERS: Final = 2
"""How many are tried for a plugin: the first may have been killed."""


def bundled_program() -> tuple[str, ...]:
    """The argv of a bundled plugin, up to its name."""
    # -P: the folder in which the command was given is no place to look for Python modules.
    return (sys.executable, "-P", "-m", module_name("plugin"))


class PluginForks:
    """Starts plugins of nodes, see `child.Spawn`; the first one that can be forked starts the server.

    What the interpreter and the loader read of their variables when they start is of this process for all of them,
    except for the first folder of ``LD_LIBRARY_PATH``.
    """

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._lock = asyncio.Lock()

    async def spawn(self, command: PluginCommand, log: BinaryIO) -> Child:
        """Start a process of the machine.

        Raises:
            InputError: The program cannot be run.
            HostError: No process could be made.
        """
        words = _words(command)
        if not words:
            return await spawn_process(command, log)
        starting = asyncio.ensure_future(self._fork(command, words, log))
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            with contextlib.suppress(SimkubeletError):
                child = await starting
                child.kill()
                await child.kill_all()
            raise
        return starting.result()

    async def close(self) -> None:
        """End the server, and with it what it has forked."""
        async with self._lock:
            if self._server is not None:
                await self._server.close()

    async def _fork(self, command: PluginCommand, words: tuple[str, ...], log: BinaryIO) -> Child:
        async with self._lock:
            for _ in range(_SERVERS):
                if self._server is not None and self._server.has_ended:
                    await self._server.close()
                    self._server = None
                if self._server is None:
                    self._server = await _Server.start()
                process = await self._server.fork(command, words, log)
                if process is not None:
                    return MarkedProcess(process, command.mark)
        raise HostError(f"plugin '{command.name}': the process that starts it has ended; its last lines say why")


def _words(command: PluginCommand) -> tuple[str, ...]:
    """The name and the arguments of a bundled plugin that can be forked; empty for any other program."""
    program = tuple(tied_to_parent(bundled_program()))
    is_plain = not command.takes_commands and command.folder is None
    return command.argv[len(program) :] if is_plain and command.argv[: len(program)] == program else ()


class _Forked:
    """A process that the server has forked, see `child.Process`."""

    stdin: None = None
    stdout: None = None
    is_held = False
    """It is the server's child, which takes its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def release(self) -> None:
        self.end(-signal.SIGKILL)

    def end(self, status: int) -> None:
        """Take its status, the first that comes."""
        if not self.ended.done():
            self.ended.set_result(status)

    def send_signal(self, number: int, /) -> None:
        if self.ended.done():
            raise ProcessLookupError
        os.kill(self.pid, number)


class _Server:
    """The process that forks, and the socket to it; orders are given one after the other.

    Args:
        connection: The socket.
        process: The process.
        bound: What bounds it and all that it has forked together.
    """

    def __init__(self, connection: socket.socket, process: asyncio.subprocess.Process, bound: BoundProgram) -> None:
        self._bound = bound
        self.has_ended = False
        self._connection = connection
        self._process = process
        self._running: dict[int, _Forked] = {}
        self._answer: asyncio.Future[_Forked | None] = asyncio.get_running_loop().create_future()
        """To the order that was given last; None where the server has ended."""
        asyncio.get_running_loop().add_reader(connection, self._receive)

    @classmethod
    async def start(cls) -> _Server:
        """Start it; it loads a plugin with the first order for it.

        Raises:
            HostError: It cannot be run.
        """
        module = f"{module_name('plugin')}.fork_server"
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # A folder without libraries.
        slot = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
        own = (str(theirs.fileno()), str(slot), " " * _ROOM)
        env = {
            **os.environ,
            "PYTHONPATH": python_path("plugin"),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [f"/proc/self/fd/{slot}", _inherited_path()])),
            "SIMKUBELET_ROOM": " " * _ROOM,
        }
        bound = BoundProgram(Bounds(Path(tempfile.gettempdir()), processes=None))
        try:
            process = await asyncio.create_subprocess_exec(
                *bound.argv([sys.executable, "-P", "-m", module, *own]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                env=env,
                pass_fds=(theirs.fileno(), slot),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            bound.end()
            raise HostError(f"cannot start a process for plugins: {error}") from None
        finally:
            theirs.close()
            os.close(slot)
        ours.setblocking(False)
        return cls(ours, process, bound)

    async def fork(self, command: PluginCommand, words: tuple[str, ...], log: BinaryIO) -> _Forked | None:
        """Start a plugin; returns when it has its environment, or None when the server has ended.

        Raises:
            HostError: No process could be made.
        """
        order = {
            "argv": (*bundled_program(), *words),
            "words": len(words),
            "env": {**command.env, MARK: command.mark},
            "library_folder": _own_library_folder(command),
        }
        self._answer = asyncio.get_running_loop().create_future()
        try:
            with _in_memory(json.dumps(order)) as file:
                socket.send_fds(self._connection, [b"+"], [file.fileno(), log.fileno()])
        except (BrokenPipeError, ConnectionResetError):
            self._end()
        except OSError as error:
            raise HostError(f"plugin '{command.name}': cannot start a process: {error}") from None
        return await self._answer

    async def close(self) -> None:
        """End it; returns when it has ended."""
        self._end()
        await self._process.wait()
        await self._bound.ended()

    def _receive(self) -> None:
        """Take an answer, see `plugin.fork_server.serve`."""
        try:
            data = self._connection.recv(_LONGEST_ANSWER)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        match json.loads(data) if data else []:
            case ["started", pid]:
                self._started(pid)
            case ["failed", number]:
                reason = os.strerror(number)
                self._answer.set_exception(HostError(f"cannot start a process for a plugin: {reason}"))
            case ["ended", pid, status]:
                # One that has ended before it could report its start was ordered last.
                forked = self._running[pid] if pid in self._running else self._started(pid)
                forked.end(status)
                del self._running[pid]
            case _:
                self._end()

    def _started(self, pid: int) -> _Forked:
        forked = self._running[pid] = _Forked(pid)
        self._answer.set_result(forked)
        return forked

    def _end(self) -> None:
        """Close the socket, which ends the server, whose end kills what it has forked."""
        if self.has_ended:
            return
        self.has_ended = True
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()
        for forked in self._running.values():
            forked.end(-signal.SIGKILL)
        if not self._answer.done():
            self._answer.set_result(None)


def _in_memory(text: str) -> BinaryIO:
    file = os.fdopen(os.memfd_create("order"), "w+b")
    file.write(text.encode())
    file.flush()
    return file


def _inherited_path() -> str:
    return os.environ.get("LD_LIBRARY_PATH", "")


def _own_library_folder(command: PluginCommand) -> str:
    """The folder that a command's ``LD_LIBRARY_PATH`` has before what this process has; empty where it has none."""
    path = command.env.get("LD_LIBRARY_PATH", "")
    return "" if path == _inherited_path() else path.partition(os.pathsep)[0]
