"""``python -m simkubelet.stdio``: its command line.

The input's end ends the session after the last answer, a SIGTERM or Ctrl-C at once; either way the device manager is
stopped as by a kubelet that ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from .._internal.output import one_line, standard_streams
from ..devices.plugin_folder import PluginFolder
from ..model.errors import InputError, SimkubeletError
from ..model.version import DEFAULT, DYNAMIC_RESOURCES, FEATURE_GATES, SUPPORTED, version
from . import checkpoint_commands, claim_commands, device_commands, dra_commands, kubelet_commands, pod_commands
from .dra_node import DraNode
from .lines import serve_lines
from .node import Node
from .session import CommandTable

COMMANDS: Final = CommandTable[Node](
    kubelet_commands.commands | pod_commands.commands | device_commands.commands | checkpoint_commands.commands
)
"""Those of the device manager, in the order of the help."""
DRA_COMMANDS: Final = CommandTable[DraNode](dra_commands.commands | claim_commands.commands)
"""Those of the DRA manager, in the order of the help."""
_INTERRUPTED = 130


class _Manager(StrEnum):
    """What the lines drive."""

    DEVICES = "devices"
    DRA = "dra"


class _Help(click.Command):
    """Closes the help with the table of commands."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        tables: dict[str, CommandTable[Any]] = {
            "Commands, with the fields that each takes": COMMANDS,
            "Commands of --manager dra": DRA_COMMANDS,
        }
        for title, commands in tables.items():
            with formatter.section(title):
                for entry in commands.values():
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
    help="The device plugin folder; kubelet.sock and the checkpoint are made in it, and sockets in it removed. Made "
    "where it is missing.",
)
@click.option(
    "--manager",
    default=_Manager.DEVICES.value,
    show_default=True,
    type=click.Choice([each.value for each in _Manager]),
    help="What is driven: the device manager, or the DRA manager, whose folder then is DIR.",
)
@click.option(
    "--kubelet-version",
    default=DEFAULT,
    show_default=True,
    metavar="MINOR",
    help=f"The Kubernetes minor to behave as: {SUPPORTED[0]} to {SUPPORTED[-1]}.",
)
def command(directory: Path, manager: str, kubelet_version: str) -> None:
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
    try:
        folder = PluginFolder(directory.absolute())
    except FileNotFoundError:
        raise InputError("--dir: the working directory is gone; change to another one") from None
    folder.prepare()
    if manager == _Manager.DEVICES:
        folder.refuse_foreign(behaviour)
        asyncio.run(serve_lines(partial(Node, folder, behaviour), COMMANDS))
        return
    if FEATURE_GATES[DYNAMIC_RESOURCES].at(behaviour) is None:
        raise InputError(
            f"--manager dra: the DRA manager of Kubernetes {kubelet_version} is not simulated; choose 1.32 or newer"
        )
    asyncio.run(serve_lines(partial(DraNode, folder.directory, behaviour), DRA_COMMANDS))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Serve until the input ends, then exit with the status.

    Args:
        arguments: The command line without the program's name; that of this process where it is left out.
    """
    with standard_streams():
        status = _run(arguments)
    sys.exit(status)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        command.main(arguments, prog_name="python -m simkubelet.stdio", standalone_mode=False)
        return 0
    except click.UsageError as error:
        _complain(f"{error.format_message().rstrip('.')}; see --help")
        return InputError.exit_status
    except SimkubeletError as error:
        _complain(str(error))
        return error.exit_status
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED


def _complain(message: str) -> None:
    click.echo(one_line(f"error: {message}"), err=True)


if __name__ == "__main__":
    main()
