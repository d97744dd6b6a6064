"""The command ``fakegpu``: make, list, break, mend and remove fake machines.

Every error a user can cause is one line on stderr, ``error: …``, and exit status 2 (what was asked for is wrong) or 3
(the host refused).
"""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from .errors import FakeGpuError, HostError, InputError
from .machine import DEFAULT_PROFILE, Machine
from .settings import SETTINGS

_INTERRUPTED: Final = 130

_directory = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    help="Folder of the machine; $XDG_RUNTIME_DIR/fakegpu or /tmp/fakegpu-<uid> if not given.",
)
_gpu = click.argument("gpu", metavar="GPU")


def _settings_help() -> str:
    width = max(map(len, SETTINGS))
    return "\b\nKeys:\n" + "\n".join(f"  {key:{width}}  {setting.meaning}" for key, setting in SETTINGS.items())


@click.group("fakegpu", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def cli(context: click.Context) -> None:
    """Fake NVIDIA GPUs: programs see them through NVML, you decide how they are.

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


@cli.command()
@click.option("--profile", default=DEFAULT_PROFILE, show_default=True, help="Model of GPU; see `fakegpu profiles`.")
@click.option("-n", "--count", default=8, show_default=True, help="Number of GPUs.")
@click.option("--seed", help="The same seed gives the same UUIDs; new ones if not given.")
@_directory
def up(profile: str, count: int, seed: str | None, directory: Path | None) -> None:
    """Make a machine and return; it is files, no daemon.

    \b
    Example:
      fakegpu up --profile t4 -n 2 --dir /tmp/node-1
    """
    machine = Machine.create(directory, profile, count, seed=seed)
    click.echo(f"{count} x {machine.gpus[0].name} in {machine.directory}")


@cli.command()
@_directory
def down(directory: Path | None) -> None:
    """Remove a machine; programs that use it keep their GPUs until they end.

    \b
    Example:
      fakegpu down --dir /tmp/node-1
    """
    Machine.open(directory).destroy()


@cli.command("exec", context_settings={"ignore_unknown_options": True})
@_directory
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def execute(directory: Path | None, command: tuple[str, ...]) -> None:
    """Run a command that sees the fake GPUs; its exit status is passed on.

    \b
    Example:
      fakegpu exec -- python -c 'import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())'
    """
    if not command:
        raise InputError("no command to run: put it behind two dashes, `fakegpu exec -- nvidia-smi -L`")
    machine = Machine.open(directory)
    _become(command, dict(os.environ) | machine.environment())


def _become(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        raise InputError(f"no command '{command[0]}': not found in PATH") from None
    except PermissionError:
        raise InputError(f"cannot run '{command[0]}': it is no program, or not ours to run") from None
    except OSError as error:
        raise HostError(f"cannot run '{command[0]}': {error.strerror}") from error


@cli.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@_directory
def list_gpus(as_json: bool, directory: Path | None) -> None:
    """Show the GPUs of a machine as they are now.

    \b
    Example:
      fakegpu list --json
    """
    gpus = Machine.open(directory).gpus
    if as_json:
        click.echo(json.dumps([asdict(gpu) | {"health": gpu.health} for gpu in gpus], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in ("GPU", "Name", "UUID", "PCI", "NUMA", "Memory MiB", "°C", "State"):
        table.add_column(
            title, no_wrap=True, justify="right" if title in {"GPU", "NUMA", "Memory MiB", "°C"} else "left"
        )
    for gpu in gpus:
        memory = f"{gpu.memory_used_bytes >> 20} / {gpu.memory_bytes >> 20}"
        state = gpu.health if gpu.health == "ok" else f"[bold red]{gpu.health}[/]"
        figures = (str(gpu.numa_node), memory, str(gpu.temperature_c))
        table.add_row(str(gpu.index), gpu.name, gpu.uuid, gpu.pci_bus_id, *figures, state)
    # Piped into another program the table keeps its columns, however narrow a terminal would be.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@cli.command()
@_gpu
@click.option("--xid", type=click.IntRange(min=1), help="XID error to report.")
@click.option("--lost", is_flag=True, help="Let the GPU fall off the bus.")
@_directory
def fail(gpu: str, xid: int | None, lost: bool, directory: Path | None) -> None:
    """Break GPU (an index or a UUID): report an XID error, lose it, or both.

    \b
    Example:
      fakegpu fail 3 --xid 79
      fakegpu fail 3 --lost
    """
    if xid is None and not lost:
        raise InputError("nothing to fail: give --xid N, --lost, or both")
    Machine.open(directory).fail(gpu, xid=xid, lost=lost)


@cli.command()
@_gpu
@_directory
def heal(gpu: str, directory: Path | None) -> None:
    """Mend GPU (an index or a UUID): put it back on the bus and forget its XIDs.

    \b
    Example:
      fakegpu heal 3
    """
    Machine.open(directory).heal(gpu)


@cli.command("set", epilog=_settings_help())
@_gpu
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@_directory
def set_figures(gpu: str, values: tuple[str, ...], directory: Path | None) -> None:
    """Change figures of GPU (an index or a UUID) for every program at once.

    \b
    Example:
      fakegpu set 3 temperature=91 power_usage=650000 memory_used=40GiB
    """
    figures: dict[str, int | str] = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals:
            raise InputError(f"'{value}' is not KEY=VALUE: write temperature=91")
        figures[key] = text
    Machine.open(directory).set_many(gpu, figures)


@cli.command()
def profiles() -> None:
    """List the models of GPU.

    \b
    Example:
      fakegpu profiles
    """
    from .profile import load_profile, profile_names

    for name in profile_names():
        click.echo(f"{name:12} {load_profile(name).description}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line.

    Args:
        arguments: without the program's name; those of the process if None.

    Returns:
        The exit status: 0, 2 for bad input, 3 when the host refused, 130 after Ctrl-C.
    """
    try:
        status: Any = cli.main(
            args=None if arguments is None else list(arguments), prog_name="fakegpu", standalone_mode=False
        )
        return status if isinstance(status, int) else 0
    except FakeGpuError as error:
        return _complain(str(error), error.exit_status)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else cli.name
        return _complain(f"{error.format_message().rstrip('.')} (see `{command} --help`)", InputError.exit_status)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except BrokenPipeError:
        _give_up_output()
        return 0
    except OSError as error:
        if error.filename is None:
            _give_up_output()
        return _complain(f"{error.filename or 'output'}: {error.strerror}", HostError.exit_status)


def _give_up_output() -> None:
    """What standard output still holds cannot be written; the interpreter would complain again when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, status: int) -> int:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    return status
