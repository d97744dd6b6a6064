"""The command ``fakegpu load``: let GPUs work, replay a recording, or end it."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

from pathlib import Path

import click

from ..errors import InputError
from ..load import ROOM_C, Load, Pattern
from ..machine.machine import Machine
from ..machine.settings import parse_size
from . import directory_option, gpu_argument
from .numbers import Float


@click.command()
@gpu_argument
@click.option(
    "--utilization", type=Float(), help="Percent of the engines; for a pattern the maximum. 100 if not given."
)
@click.option("--memory", help="Memory in use: bytes, or with KiB, MiB, GiB; unchanged if not given.")
@click.option("--pattern", type=click.Choice([str(pattern) for pattern in Pattern]), help="steady if not given.")
@click.option("--period", type=Float(), metavar="SECONDS", help="Period of a pattern; 60 if not given.")
@click.option("--for", "duration", type=Float(), metavar="SECONDS", help="Duration; without end if not given.")
@click.option("--room", type=Float(), metavar="CELSIUS", help=f"Air temperature; {ROOM_C:g} if not given.")
@click.option("--replay", type=click.Path(path_type=Path), help="Replay the figures of a CSV file instead.")
@click.option("--loop", is_flag=True, help="With --replay: start again after the last row.")
@click.option("--stop", is_flag=True, help="End the load now; figures return to the values that are set.")
@directory_option
def load(
    gpu: str,
    utilization: float | None,
    memory: str | None,
    pattern: str | None,
    period: float | None,
    duration: float | None,
    room: float | None,
    replay: Path | None,
    loop: bool,
    stop: bool,
    directory: Path | None,
) -> None:
    """Put load on GPU (an index, a UUID, or all). No process has to run for a load.

    Power follows utilisation, heat and fans follow power, and a board that would overheat slows down. --replay reads
    the CSV output of `nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw,temperature.gpu
    --format=csv`.

    \b
    Example:
      fakegpu load 0 --utilization 90 --memory 60GiB
      fakegpu load all --pattern burst --period 20
      fakegpu load 3 --replay monday.csv --loop
      fakegpu load all --stop
    """
    asked = {
        "gpu_percent": utilization,
        "memory_bytes": None if memory is None else parse_size("--memory", memory),
        "pattern": None if pattern is None else Pattern(pattern),
        "period_s": period,
        "duration_s": duration,
        "room_c": room,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if sum((bool(given), replay is not None, stop)) > 1:
        raise InputError("a load, --replay and --stop exclude each other: give one of them")
    if loop and replay is None:
        raise InputError("--loop goes with --replay; a pattern repeats by itself")
    machine = Machine.open(directory)
    for index in [each.index for each in machine.gpus] if gpu == "all" else [gpu]:
        if stop:
            machine.rest(index)
        elif replay is not None:
            machine.replay(index, replay, loop=loop)
        else:
            machine.load(index, Load(**given))  # type: ignore[arg-type]  # each value is of its field's type
