"""A stand-in for CUDA's control daemon of the Multi-Process Service, ``nvidia-cuda-mps-control``: a module to run.

``-d`` starts the daemon in the background, ``-f`` in the foreground; without either, commands are read from stdin and
sent to the daemon, and its answers are printed. The daemon of a pipe folder listens on the socket ``control`` there,
its process id is in a file beside it; it shares no GPU, it only keeps what was set:

- ``get_default_active_thread_percentage``, ``set_default_active_thread_percentage PERCENT``
- ``get_default_device_pinned_mem_limit GPU``, ``set_default_device_pinned_mem_limit GPU LIMIT``
- ``get_server_list``: nothing, as no client ever connects
- ``quit``

Source: NVIDIA Multi-Process Service, "nvidia-cuda-mps-control".
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main"]

_PIPE_FOLDER: Final = "/tmp/nvidia-mps"  # noqa: S108 - where the original has it
_LOG_FOLDER: Final = "/var/log/nvidia-mps"
_NOBODY: Final = "Cannot find MPS control daemon process"
_GREATEST_PERCENTAGE: Final = 100.0
_BYTES: Final = 4096


class _Daemon:
    """What a control daemon knows."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._percentage = _GREATEST_PERCENTAGE
        self._limits: dict[str, str] = {}
        self.is_over = False

    def answer(self, command: str) -> str:
        """Carry out one command; the answer has a line for each thing asked for."""
        self._note(f"NEW UI CONNECTION, command: {command}")
        match command.split():
            case ["get_default_active_thread_percentage"]:
                return f"{self._percentage:.1f}\n"
            case ["set_default_active_thread_percentage", percentage] if _is_percentage(percentage):
                self._percentage = float(percentage)
                return f"{self._percentage:.1f}\n"
            case ["get_default_device_pinned_mem_limit", gpu]:
                return f"{self._limits.get(gpu, '0G')}\n"
            case ["set_default_device_pinned_mem_limit", gpu, limit]:
                self._limits[gpu] = limit
                return ""
            case ["get_server_list"] | []:
                return ""
            case ["quit", *_]:
                self.is_over = True
                return ""
        return f"Unknown or malformed command: {command}\n"

    def _note(self, text: str) -> None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S")
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"[{moment}.000 Control {os.getpid():5}] {text}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the daemon, or pass on the commands of stdin.

    Returns:
        1 where there is no daemon to ask, or one already where another was asked for.
    """
    parser = argparse.ArgumentParser(prog="nvidia-cuda-mps-control")
    # Python 3.14 colours the help otherwise.
    vars(parser)["color"] = False
    parser.add_argument("-d", dest="in_background", action="store_true", help="start the daemon in the background")
    parser.add_argument("-f", dest="in_foreground", action="store_true", help="start the daemon in the foreground")
    options = parser.parse_args(arguments)
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or _PIPE_FOLDER)
    if options.in_background or options.in_foreground:
        return _start(folder, in_background=options.in_background)
    return _send(folder / "control", sys.stdin.read())


def _is_percentage(text: str) -> bool:
    with contextlib.suppress(ValueError):
        return text.isascii() and "_" not in text and 0 < float(text) <= _GREATEST_PERCENTAGE
    return False


def _start(folder: Path, *, in_background: bool) -> int:
    log = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY") or _LOG_FOLDER) / "control.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        if _is_served(folder / "control"):
            return _fail("An instance of this daemon is already running")
        (folder / "control").unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(folder / "control"))
        server.listen()
    except OSError as error:
        return _fail(f"Failed to start: {folder}: {error.strerror or error}")
    ready, done = os.pipe()
    # Commands are answered, and the daemon's id is in its file, as soon as the first process has ended.
    if in_background and os.fork():
        os.close(done)
        os.read(ready, 1)
        return 0
    if in_background:
        _leave_terminal()
    pid_file = folder / "nvidia-cuda-mps-control.pid"
    pid_file.write_text(f"{os.getpid()}\n")
    os.close(done)
    _serve(server, (folder / "control", pid_file), _Daemon(log))
    return 0


def _leave_terminal() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)


def _serve(server: socket.socket, files: Sequence[Path], daemon: _Daemon) -> None:
    """Answer until the end, and then remove the daemon's files."""
    try:
        while not daemon.is_over:
            client, _ = server.accept()
            with client, contextlib.suppress(OSError):
                commands = client.makefile(encoding="utf-8", errors="replace").read().splitlines()
                client.sendall("".join(map(daemon.answer, commands)).encode())
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
        for path in files:
            path.unlink(missing_ok=True)


def _is_served(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(place)) == 0


def _send(place: Path, commands: str) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(place))
            client.sendall(commands.encode())
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(_BYTES):
                sys.stdout.buffer.write(part)
        except OSError:
            return _fail(_NOBODY)
    return 0


def _fail(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
