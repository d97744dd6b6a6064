"""The commands on a whole machine, and those that look at its GPUs or set their figures: up, down, exec, list, set."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from ..errors import HostError, InputError
from ..files.folder import absolute, is_claimed, refuse_foreign, remove_folder
from ..machine.machine import DEFAULT_PROFILE, Machine
from ..machine.settings import SETTINGS, parse_size
from . import options

_FAKEGPU = __name__.removesuffix(".cli.machine_commands")


def _settings_help() -> str:
    width = max(map(len, SETTINGS))
    return "\b\nKeys:\n" + "\n".join(f"  {key:{width}}  {setting.meaning}" for key, setting in SETTINGS.items())


@click.command()
@click.option(
    "--profile", help=f"GPU model, see `fakegpu profiles`, or a profile or recording file; {DEFAULT_PROFILE}."
)
@click.option("-n", "--count", type=int, help="Number of GPUs; 8, or those of the recording, if not given.")
@click.option("--gpu", "gpus", multiple=True, metavar="MODEL=N", help="N GPUs of this model; repeatable.")
@click.option(
    "--imex-channels", type=click.IntRange(0, 2048), default=0, help="Number of IMEX channels to make device nodes for."
)
@click.option("--seed", help="The same seed gives the same UUIDs; random if not given.")
@options.directory
def up(
    profile: str | None,
    count: int | None,
    gpus: tuple[str, ...],
    imex_channels: int,
    seed: str | None,
    directory: Path | None,
) -> None:
    """Make a machine and return. A machine is a folder of files, without a daemon.

    \b
    Example:
      fakegpu up --profile t4 -n 2 --dir /tmp/node-1
      fakegpu up --gpu h100-80gb=4 --gpu l4=2
      fakegpu up --profile ./recorded.yaml
    """
    if gpus and (profile is not None or count is not None):
        raise InputError("--gpu names models and their numbers: leave --profile and --count away")
    groups = [_model_and_number(text) for text in gpus] or None
    machine = Machine.create(directory, profile or DEFAULT_PROFILE, count, gpus=groups, seed=seed)
    machine.add_imex_channels(imex_channels)
    names = Counter(gpu.name for gpu in machine.gpus)
    click.echo(f"{', '.join(f'{number} x {name}' for name, number in names.items())} in {machine.directory}")


def _model_and_number(text: str) -> tuple[str, int]:
    model, _, number = text.rpartition("=")
    if not model or not (number.isdecimal() and len(number) < 10):
        raise InputError(f"--gpu {text}: write MODEL=N, such as l4=2")
    return model, int(number)


@click.command()
@options.directory
def down(directory: Path | None) -> None:
    """Remove a machine; programs that use it keep their GPUs until they end.

    This also removes devices of other vendors in the folder, and folders that contain only the files of `fakegpu amd
    up`, `iluvatar` or `files`.

    \b
    Example:
      fakegpu down --dir /tmp/node-1
    """
    target = absolute(directory)
    if is_claimed(target):
        refuse_foreign(target)
        remove_folder(target)
    else:
        Machine.open(directory).destroy()


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--gpu", "gpus", multiple=True, metavar="GPU", help="Register the command as a process on this GPU.")
@click.option(
    "--memory",
    default="512MiB",
    show_default=True,
    help="With --gpu: memory that it uses on each GPU.",
)
@click.option("--kind", default="compute", show_default=True, help="With --gpu: compute, graphics, both or mps.")
@click.option(
    "--driver-root",
    is_flag=True,
    help="Also show an installed driver: device nodes, PCI devices, libraries. Needs bwrap.",
)
@options.directory
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def execute(
    gpus: tuple[str, ...],
    memory: str,
    kind: str,
    driver_root: bool,
    directory: Path | None,
    command: Sequence[str],
) -> None:
    """Run a command with the fake GPUs, and exit with its status.

    Enough for programs that use NVML. Programs that look for the driver's files, such as NVIDIA's container tools,
    need --driver-root.

    \b
    Example:
      fakegpu exec -- python -c 'import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())'
      fakegpu exec --gpu 0 --gpu 1 --memory 20GiB -- python train.py
      fakegpu exec --driver-root -- nvidia-ctk cdi generate
    """
    if not command:
        raise InputError("no command to run: put it behind two dashes, `fakegpu exec -- nvidia-smi -L`")
    machine = Machine.open(directory)
    environment = dict(os.environ) | machine.environment()
    if driver_root:
        _become_as_installed(machine, command, [f"--gpu={gpu}" for gpu in gpus], memory, kind, environment)
    for gpu in gpus:
        machine.enter_process(gpu, os.getpid(), parse_size("--memory", memory), kind)
    _become(command, environment)


def _become_as_installed(
    machine: Machine, command: Sequence[str], gpus: Sequence[str], memory: str, kind: str, environment: dict[str, str]
) -> NoReturn:
    from ..machine.containers import as_installed

    if shutil.which(command[0], path=environment["PATH"]) is None:
        raise InputError(f"no command '{command[0]}': not found in PATH")
    if gpus:
        # The process on the GPU is the command, not what makes its namespace.
        again = [sys.executable, "-P", "-m", _FAKEGPU, "exec", f"--dir={machine.directory}"]
        command = [*again, *gpus, f"--memory={memory}", f"--kind={kind}", "--", *command]
    command, more = as_installed(machine, command)
    _become(command, environment | more)


def _become(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(command[0], list(command), environment)  # noqa: S606 - no shell is wanted
    except FileNotFoundError:
        raise InputError(f"no command '{command[0]}': not found in PATH") from None
    except PermissionError:
        raise InputError(f"cannot run '{command[0]}': not a program, or not one that this user may run") from None
    except OSError as error:
        raise HostError(f"cannot run '{command[0]}': {error.strerror}") from error


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@options.directory
def list_gpus(as_json: bool, directory: Path | None) -> None:
    """Show the GPUs of a machine as they are now.

    \b
    Example:
      fakegpu list --json
    """
    gpus = Machine.open(directory).gpus
    if as_json:
        from dataclasses import asdict

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


@click.command("set", epilog=_settings_help())
@options.gpu
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@options.directory
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
