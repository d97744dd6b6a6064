"""``python -m simkubelet.stdio``: its command line, and the two streams of its lines.

The input's end ends the session after the last answer, a SIGTERM or Ctrl-C at once; either way the device manager is
stopped as by a kubelet that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from ..devices.plugin_folder import PluginFolder
from ..model.errors import InputError, SimkubeletError
from ..model.version import DEFAULT, SUPPORTED, Version, version
from . import checkpoint_commands, device_commands, kubelet_commands, pod_commands
from .node import Node
from .session import CommandTable, Session

COMMANDS: Final = CommandTable(
    kubelet_commands.commands | pod_commands.commands | device_commands.commands | checkpoint_commands.commands
)
"""All, in the order of the help."""
_INTERRUPTED = 130
_CHUNK_BYTES: Final = 1 << 16


class _Help(click.Command):
    """Closes the help with the table of commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands, with the fields that each takes"):
            for entry in COMMANDS.values():
                _write_command(formatter, entry.name, entry.takes, entry.about)
            _write_command(formatter, "await", ("name", "timeout_ms"), "The answer of a command with async: name.")
        super().format_epilog(ctx, formatter)


def _write_command(formatter: click.HelpFormatter, name: str, takes: Sequence[str], about: str) -> None:
    formatter.write_text(" ".join((name, *takes)))
    with formatter.indentation(), formatter.indentation():
        formatter.write_text(about)


@click.command(cls=_Help, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The device plugin folder; kubelet.sock and the checkpoint are made in it. Made where it is missing.",
)
@click.option(
    "--kubelet-version",
    default=DEFAULT,
    show_default=True,
    metavar="MINOR",
    help=f"The Kubernetes minor to behave as: {SUPPORTED[0]} to {SUPPORTED[-1]}.",
)
def command(directory: Path, kubelet_version: str) -> None:
    """Drive the device side of a simulated kubelet, one JSON object a line.

    Each line of the standard input is a command, each line of the standard output the answer to one, in order. Device
    plugins find the kubelet where they always do: they register at DIR/kubelet.sock.

    \b
    Begin here:
      {"cmd": "start"}
      {"cmd": "wait_capacity", "resource": "example.com/gpu", "allocatable": 1, "timeout_ms": 10000}
      {"cmd": "add_pod", "uid": "u1", "containers": [{"name": "c", "limits": {"example.com/gpu": 1}}]}
      {"cmd": "admit", "pod": "u1"}
      {"cmd": "run_options", "pod": "u1", "container": "c"}

    An answer has "ok", and "error" where that is false; "us" is how long it took in microseconds, "t" the time at its
    end in nanoseconds of the monotonic clock.
    """  # noqa: D301  # click's mark for lines that stay as they are
    behaviour = version(kubelet_version)
    folder = PluginFolder(directory.absolute())
    folder.prepare()
    asyncio.run(_serve(folder, behaviour))


async def _serve(folder: PluginFolder, behaviour: Version) -> None:
    """Answer lines until the input ends, its reader is gone, or a signal says so."""
    async with asyncio.TaskGroup() as tasks:
        node = Node(folder, behaviour, tasks)
        session = Session(node, COMMANDS, tasks)
        answering = asyncio.create_task(_answer_all(session))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, answering.cancel)
        try:
            await asyncio.wait({answering})
        finally:
            answering.cancel()
            session.cancel()
            await node.stop()
        if not answering.cancelled():
            with contextlib.suppress(BrokenPipeError):
                answering.result()


async def _answer_all(session: Session) -> None:
    with _LineReader(sys.stdin.fileno()) as lines:
        while (line := await lines.next()) is not None:
            if line.strip():
                _write_line(sys.stdout.fileno(), await session.answer(line))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Serve until the input ends, then exit with the status.

    Args:
        arguments: The command line without the program's name; that of this process where it is left out.
    """
    try:
        command.main(arguments, prog_name="python -m simkubelet.stdio", standalone_mode=False)
        status = 0
    except click.UsageError as error:
        _complain(f"{error.format_message().rstrip('.')}; see --help")
        status = InputError.exit_status
    except SimkubeletError as error:
        _complain(str(error))
        status = error.exit_status
    except (KeyboardInterrupt, click.Abort):
        status = _INTERRUPTED
    sys.exit(status)


def _complain(message: str) -> None:
    click.echo(f"error: {message}", err=True)


class _LineReader:
    """Reads lines as they come from a pipe, a socket, a terminal or a file; the loop stays free meanwhile.

    Use as a context manager inside a running loop.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._unfinished = bytearray()
        self._is_at_end = False
        self._is_watched = False
        self._arrived = asyncio.Event()

    def __enter__(self) -> _LineReader:
        try:
            asyncio.get_running_loop().add_reader(self._descriptor, self._read)
            self._is_watched = True
        except PermissionError:
            # A regular file cannot be watched, and never makes its reader wait.
            self._arrived.set()
        return self

    def __exit__(self, *exception: object) -> None:
        self._unwatch()

    async def next(self) -> bytes | None:
        """The next line without its end, as soon as it is there; None at the end of the input."""
        while not self._lines:
            if self._is_at_end:
                return None
            if not self._is_watched:
                self._read()
                continue
            self._arrived.clear()
            await self._arrived.wait()
        return self._lines.popleft()

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK_BYTES)
        self._arrived.set()
        if not chunk:
            self._is_at_end = True
            self._unwatch()
            if self._unfinished:
                self._lines.append(bytes(self._unfinished))
            return
        first, *more = chunk.split(b"\n")
        self._unfinished += first
        for part in more:
            self._lines.append(bytes(self._unfinished))
            self._unfinished = bytearray(part)

    def _unwatch(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._is_watched = False


def _write_line(descriptor: int, line: bytes) -> None:
    """Write a line whole; waits while the other side does not read."""
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(descriptor, left) :]


if __name__ == "__main__":
    main()
