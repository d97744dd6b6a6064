"""The command ``fakegpu smi``: our nvidia-smi on a machine's GPUs, or on the host's own where no machine is up."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ..files.folder import default_directory
from ..machine.machine import Machine
from ..state.segment import SEGMENT
from . import options

_FAKEGPU = __name__.removesuffix(".cli.smi_command")


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": ["-h"]}
)
@options.directory
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
