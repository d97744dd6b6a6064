"""The command ``fakegpu``: make, list, break, heal and remove fake machines.

Every error a user can cause is one line on stderr, ``error: …``, and exit status 2 (what was asked for is wrong) or 3
(the host refused). A command loads its own module only: a script may call ``fakegpu fail`` many times.
"""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import click

from ..errors import FakeGpuError, HostError, InputError
from ..output import OutputError, one_line, standard_streams
from .completion import COMPLETE, check_question

_INTERRUPTED: Final = 130
_COMMANDS: Final = {
    "amd": ("vendor_commands", "amd"),
    "cdi": ("description_commands", "cdi"),
    "completion": ("completion", "completion"),
    "diff": ("description_commands", "diff"),
    "down": ("machine_commands", "down"),
    "exec": ("machine_commands", "execute"),
    "fail": ("fault_commands", "fail"),
    "fault": ("fault_commands", "fault_group"),
    "files": ("vendor_commands", "files"),
    "heal": ("fault_commands", "heal"),
    "iluvatar": ("vendor_commands", "iluvatar"),
    "list": ("gpu_commands", "list_gpus"),
    "load": ("load_command", "load"),
    "mig": ("gpu_commands", "mig_group"),
    "plug": ("fault_commands", "plug"),
    "profiles": ("description_commands", "profiles"),
    "record": ("description_commands", "record"),
    "set": ("gpu_commands", "set_figures"),
    "smi": ("machine_commands", "smi"),
    "unplug": ("fault_commands", "unplug"),
    "up": ("machine_commands", "up"),
}
"""Command -> its module and name there."""


class _Commands(click.Group):
    """The commands, found when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, name = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f".{module}", __package__), name)
        return command


def _print_version(context: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        click.echo(f"fakegpu {version('simkubelet')}")
    except PackageNotFoundError:
        click.echo("fakegpu, from a checkout that is not installed")
    context.exit()


@click.group(
    "fakegpu", cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
@click.pass_context
def cli(context: click.Context) -> None:
    """Make fake NVIDIA GPUs, which programs see through NVML, and change their state.

    \b
    Example:
      fakegpu up --profile h100-80gb -n 8
      fakegpu exec -- python my_nvml_program.py
      fakegpu fail 3 --xid 79
      fakegpu list
      fakegpu down
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        arguments: without the program's name; those of the process if None.

    Returns:
        The exit status: 0, 2 for bad input, 3 when the host refused, 130 after Ctrl-C, 141 when nobody reads on.
    """
    with standard_streams() as output:
        status = _run(arguments)
        with suppress(OutputError):
            output.flush()
        if output.error is None:
            return status
        for line in output.error.args:
            _complain(line, output.error.exit_status)
        return status or output.error.exit_status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        if question := os.environ.get(COMPLETE):
            check_question(question)
        status: Any = cli.main(
            args=None if arguments is None else list(arguments), prog_name="fakegpu", standalone_mode=False
        )
        return status if isinstance(status, int) else 0
    except OutputError:
        # The end reports it, also where click has not passed it on.
        return 0
    except FakeGpuError as error:
        return _complain(str(error), error.exit_status)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else cli.name
        return _complain(f"{error.format_message().rstrip('.')} (see `{command} --help`)", InputError.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except OSError as error:
        return _complain(f"{error.filename or 'a system call'}: {error.strerror}", HostError.exit_status)


def _complain(message: str, status: int) -> int:
    click.echo(one_line(f"error: {message}"), err=True)
    return status
