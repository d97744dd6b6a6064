"""The commands on a whole machine: ``fakegpu up``, ``down``, ``exec`` and ``smi``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from ..errors import HostError, InputError
from ..files.folder import absolute, default_directory, is_claimed, refuse_foreign, remove_folder
from ..machine.machine import DEFAULT_PROFILE, Machine
from ..state.segment import SEGMENT
from . import directory_option
from .completion import gpus as some_gpu
from .completion import profiles
from .numbers import Int, IntRange

_FAKEGPU = __name__.removesuffix(".cli.machine_commands")


@click.command()
@click.option(
    "--profile",
    shell_complete=profiles,
    help=f"GPU model, see `fakegpu profiles`, or a profile or recording file; {DEFAULT_PROFILE}.",
)
@click.option("-n", "--count", type=Int(), help="Number of GPUs; 8, or those of the recording, if not given.")
@click.option("--gpu", "gpus", multiple=True, metavar="MODEL=N", help="N GPUs of this model; repeatable.")
@click.option(
    "--imex-channels", type=IntRange(0, 2048), default=0, help="Number of IMEX channels to make device nodes for."
)
@click.option("--seed", help="The same seed gives the same UUIDs; random if not given.")
@directory_option
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
    if not model or not re.fullmatch("[0-9]{1,9}", number):
        raise InputError(f"--gpu {text}: write MODEL=N, such as l4=2")
    return model, int(number)


@click.command()
@directory_option
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
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="GPU",
    shell_complete=some_gpu,
    help="Register the command on this GPU.",
)
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
    help="Also show an installed driver: device nodes, PCI devices, libraries.",
)
@directory_option
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
    if gpus:
        from ..machine.settings import parse_size

        for gpu in gpus:
            machine.enter_process(gpu, os.getpid(), parse_size("--memory", memory), kind)
    _become(command, environment)


def _become_as_installed(
    machine: Machine, command: Sequence[str], gpus: Sequence[str], memory: str, kind: str, environment: dict[str, str]
) -> NoReturn:
    import shutil

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


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h"]}
)
@directory_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF NVIDIA-SMI...]")
def smi(directory: Path | None, arguments: tuple[str, ...]) -> None:
    """Show GPUs as nvidia-smi does, through NVML only; `fakegpu smi -- --help` lists the options.

    Without --dir it shows the machine that the environment names, else the default machine, else the host's own GPUs.
    In a process of `fakegpu exec` it is on the PATH as nvidia-smi.

    \b
    Example:
      fakegpu smi
      fakegpu smi -L
      fakegpu smi --query-gpu=index,temperature.gpu --format=csv,noheader
    """
    environment = dict(os.environ)
    is_inside = directory is None and "FAKEGPU_SEGMENT" in environment
    if not is_inside and (directory is not None or (default_directory() / SEGMENT).exists()):
        environment |= Machine.open(directory).environment()
    # A process looks for its NVML when it starts, so the view is a process of its own.
    command = [sys.executable, "-P", "-m", f"{_FAKEGPU}.smi", *arguments]
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # noqa: S606 - no shell is wanted
