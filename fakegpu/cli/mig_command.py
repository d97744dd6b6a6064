"""The commands ``fakegpu mig …``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from ..machine.machine import Machine
from ..mig import Mig
from . import options


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
@options.gpu
@click.argument("profiles", nargs=-1, required=True, metavar="PROFILE...")
@click.option("--start", type=int, help="First memory slice, for a single profile.")
@click.option("--no-compute", is_flag=True, help="Make no compute instances, so no MIG devices.")
@options.directory
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@options.directory
def list_devices(as_json: bool, directory: Path | None) -> None:
    """Show the MIG devices of all GPUs.

    \b
    Example:
      fakegpu mig list --json
    """
    machine = Machine.open(directory)
    rows = [
        {"gpu": gpu.index} | asdict(device)
        for gpu in machine.gpus
        if machine.has_mig(gpu.index)
        for device in machine.mig(gpu.index).devices
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for title in ("GPU", "Device", "Name", "GI", "CI", "Memory MiB", "UUID"):
        table.add_column(title, no_wrap=True, justify="left" if title in {"Name", "UUID"} else "right")
    for row in rows:
        cells = ("gpu", "index", "name", "gpu_instance", "compute_instance")
        table.add_row(*(str(row[cell]) for cell in cells), str(row["memory_bytes"] >> 20), str(row["uuid"]))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@mig_group.command("profiles")
@options.gpu
@options.directory
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
@options.gpu
@click.argument("instance", type=int, required=False)
@options.directory
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
@options.gpu
@click.argument("mode", type=click.Choice(["on", "off"]))
@click.option("--pending", is_flag=True, help="Change the mode only at the next reset, as if the GPU were in use.")
@options.directory
def set_mode(gpu: str, mode: str, pending: bool, directory: Path | None) -> None:
    """Turn MIG mode on or off.

    \b
    Example:
      fakegpu mig mode 0 on --pending
      fakegpu mig reset 0
    """
    _mig(directory, gpu).set_mode(mode == "on", pending=pending)


@mig_group.command("reset")
@options.gpu
@options.directory
def reset(gpu: str, directory: Path | None) -> None:
    """Reset GPU: remove its instances and apply the pending mode.

    \b
    Example:
      fakegpu mig reset 0
    """
    _mig(directory, gpu).reset()
