"""The commands that show GPUs, set their figures and partition them: ``fakegpu list``, ``set`` and ``mig``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..errors import InputError
from ..machine.machine import Machine
from ..machine.settings import SETTINGS
from ..output import one_line, print_styled
from . import directory_option, gpu_argument, output_option
from .completion import keys
from .numbers import Int

if TYPE_CHECKING:
    from ..mig import Mig

_PIPED_WIDTH: Final = 1000
"""Columns that a table may have where its output is no terminal; it takes what it needs."""


@click.command("list")
@output_option
@directory_option
def list_gpus(output: str, directory: Path | None) -> None:
    """Show the GPUs of a machine as they are now.

    \b
    Example:
      fakegpu list -o json
    """
    gpus = Machine.open(directory).gpus
    if output == "json":
        click.echo(json.dumps([asdict(gpu) | {"health": gpu.health} for gpu in gpus], indent=2))
        return
    titles = ("GPU", "Name", "UUID", "PCI", "NUMA", "Memory MiB", "°C", "State")
    rows = []
    for gpu in gpus:
        memory = f"{gpu.memory_used_bytes >> 20} / {gpu.memory_bytes >> 20}"
        figures = (str(gpu.numa_node), memory, str(gpu.temperature_c))
        rows.append((str(gpu.index), gpu.name, gpu.uuid, gpu.pci_bus_id, *figures, gpu.health))
    print_table(titles, {"Name", "UUID", "PCI", "State"}, rows)


def print_table(titles: Sequence[str], texts: Collection[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in which columns of texts are aligned to the left, those of figures to the right.

    Args:
        titles: of the columns; what is not ``ok`` in a column ``State`` is red.
        texts: those that have texts.
        rows: a cell for each column.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in titles:
        table.add_column(title, no_wrap=True, justify="left" if title in texts else "right")
    for row in rows:
        is_well = dict(zip(titles, row, strict=True)).get("State", "ok") == "ok"
        cells = [Text(one_line(cell)) for cell in row]
        if not is_well:
            cells[-1].stylize("bold red")
        table.add_row(*cells)
    # Piped into another program the table keeps its columns, however narrow a terminal would be.
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    with console.capture() as printed:
        console.print(table)
    print_styled(printed.get())


def _settings_help() -> str:
    width = max(map(len, SETTINGS))
    return "\b\nKeys:\n" + "\n".join(f"  {key:{width}}  {setting.meaning}" for key, setting in SETTINGS.items())


@click.command("set", epilog=_settings_help())
@gpu_argument
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=keys)
@directory_option
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


@click.group("mig")
def mig_group() -> None:
    """Partition a GPU into MIG devices.

    \b
    Example:
      fakegpu mig create 0 1g.10gb 3g.40gb
      fakegpu mig list
    """


def _mig(directory: Path | None, gpu: str) -> Mig:
    return Machine.open(directory).mig(gpu)


@mig_group.command("create")
@gpu_argument
@click.argument("profiles", nargs=-1, required=True, metavar="PROFILE...")
@click.option("--start", type=Int(), help="First memory slice, for a single profile.")
@click.option("--no-compute", is_flag=True, help="Make no compute instances, so no MIG devices.")
@directory_option
def create(gpu: str, profiles: tuple[str, ...], start: int | None, no_compute: bool, directory: Path | None) -> None:
    """Make GPU instances, each with a compute instance: all, or none when one does not fit. Turns MIG mode on.

    \b
    Example:
      fakegpu mig create 0 1g.10gb 3g.40gb
      fakegpu mig create 0 2g.20gb --start 4
    """
    for instance in _mig(directory, gpu).create(*profiles, start=start, compute=not no_compute):
        place = f"{instance.start}:{instance.size}"
        click.echo(f"GPU {gpu} GPU instance {instance.id:2}: MIG {instance.profile} at {place}")


@mig_group.command("list")
@output_option
@directory_option
def list_devices(output: str, directory: Path | None) -> None:
    """Show the MIG devices of all GPUs.

    \b
    Example:
      fakegpu mig list -o json
    """
    machine = Machine.open(directory)
    rows = [
        {"gpu": gpu.index} | asdict(device)
        for gpu in machine.gpus
        if machine.has_mig(gpu.index)
        for device in machine.mig(gpu.index).devices
    ]
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    figures = ("gpu", "index", "name", "gpu_instance", "compute_instance")
    cells = [(*(str(row[cell]) for cell in figures), str(row["memory_bytes"] >> 20), str(row["uuid"])) for row in rows]
    print_table(("GPU", "Device", "Name", "GI", "CI", "Memory MiB", "UUID"), {"Name", "UUID"}, cells)


@mig_group.command("profiles")
@gpu_argument
@directory_option
def list_profiles(gpu: str, directory: Path | None) -> None:
    """Show the GPU instance profiles of GPU, how many are free, and where they may start.

    \b
    Example:
      fakegpu mig profiles 0
    """
    for profile in _mig(directory, gpu).profiles:
        starts = ",".join(map(str, profile.starts))
        free = f"{profile.free}/{profile.instances}"
        click.echo(f"{profile.name:12} id {profile.id:2}  free {free}  {{{starts}}}:{profile.size}")


@mig_group.command("destroy")
@gpu_argument
@click.argument("instance", type=Int(), required=False)
@directory_option
def destroy(gpu: str, instance: int | None, directory: Path | None) -> None:
    """Destroy a GPU instance (its id) with its compute instances, or all of GPU.

    \b
    Example:
      fakegpu mig destroy 0 2
      fakegpu mig destroy 0
    """
    mig = _mig(directory, gpu)
    if instance is None:
        mig.clear()
    else:
        mig.destroy(instance)


@mig_group.command("mode")
@gpu_argument
@click.argument("mode", type=click.Choice(["on", "off"]))
@click.option("--pending", is_flag=True, help="Change the mode only at the next reset, as if the GPU were in use.")
@directory_option
def set_mode(gpu: str, mode: str, pending: bool, directory: Path | None) -> None:
    """Turn MIG mode on or off.

    \b
    Example:
      fakegpu mig mode 0 on --pending
      fakegpu mig reset 0
    """
    _mig(directory, gpu).set_mode(mode == "on", pending=pending)


@mig_group.command("reset")
@gpu_argument
@directory_option
def reset(gpu: str, directory: Path | None) -> None:
    """Reset GPU: remove its instances and apply the pending mode.

    \b
    Example:
      fakegpu mig reset 0
    """
    _mig(directory, gpu).reset()
