"""The commands that break one GPU and heal it: ``fakegpu fail``, ``heal``, ``unplug`` and ``plug``."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..errors import InputError
from ..faults.schedule import When
from ..machine.machine import Machine
from ..state import layout
from . import options

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _scheduled(function: _Function) -> _Function:
    """The options of a ``When``."""
    for option in (
        click.option("--times", type=int, help="With --every: number of times; without limit if not given."),
        click.option("--every", metavar="DURATION", help="Repeat at this interval, such as 5s or 100ms."),
        click.option("--after", default="0", metavar="DURATION", help="Delay, such as 30s; none if not given."),
    ):
        function = option(function)
    return function


@click.command()
@options.gpu
@click.option("--xid", type=click.IntRange(min=1), help="XID error to report.")
@click.option("--gi", type=int, help="With --xid: id of the affected GPU instance.")
@click.option("--ci", type=int, help="With --gi: id of the compute instance.")
@click.option("--lost", is_flag=True, help="Make the GPU fall off the bus.")
@click.option("--ecc-corrected", type=int, metavar="N", help="Count N single-bit errors of the memory.")
@click.option("--ecc-uncorrected", type=int, metavar="N", help="Count N double-bit errors of the memory.")
@click.option("--retire", type=int, metavar="N", help="Remap N rows, or retire N pages.")
@click.option("--hot", is_flag=True, help="Heat above the slowdown threshold, with clocks at their minimum.")
@click.option("--links-down", metavar="LINKS", help="NVLinks to take down: 0,3 or all.")
@_scheduled
@options.directory
def fail(
    gpu: str,
    xid: int | None,
    gi: int | None,
    ci: int | None,
    lost: bool,
    ecc_corrected: int | None,
    ecc_uncorrected: int | None,
    retire: int | None,
    hot: bool,
    links_down: str | None,
    after: str,
    every: str | None,
    times: int | None,
    directory: Path | None,
) -> None:
    """Break GPU (an index or a UUID), at once or by plan. No process needs to run for a plan.

    \b
    Example:
      fakegpu fail 3 --xid 79 --lost
      fakegpu fail 3 --ecc-corrected 1 --every 100ms
      fakegpu fail 3 --hot --after 30s
    """
    machine, when = Machine.open(directory), When.of(after, every, times)
    index, faults = machine.index(gpu), machine.faults
    plans: list[int | None] = []
    if lost:
        plans.append(faults.lose(index, xid=xid, when=when))
    elif xid is not None:
        instance = tuple(layout.NO_INSTANCE if part is None else part for part in (gi, ci))
        plans.append(faults.xid(index, xid, instance=(instance[0], instance[1]), when=when))
    if ecc_corrected is not None:
        plans.append(faults.ecc(index, corrected=ecc_corrected, when=when))
    if ecc_uncorrected is not None:
        plans.append(faults.ecc(index, uncorrected=ecc_uncorrected, when=when))
    if retire is not None:
        plans.append(faults.retire(index, retire, when=when))
    if hot:
        plans.append(faults.throttle(index, when=when))
    if links_down is not None:
        plans.append(faults.links_down(index, _links(links_down), when=when))
    if not plans:
        raise InputError("nothing to fail: give --xid N, --lost, or another of `fakegpu fail --help`")
    for number in plans:
        if number is not None:
            click.echo(f"plan {number}")


def _links(text: str) -> tuple[int, ...]:
    if text == "all":
        return ()
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--links-down {text}: write 0,3 or all") from None


@click.command()
@click.argument("gpu", required=False, metavar="[GPU]")
@click.option("--all", "everything", is_flag=True, help="Heal all GPUs and remove all rules and plans.")
@_scheduled
@options.directory
def heal(
    gpu: str | None, everything: bool, after: str, every: str | None, times: int | None, directory: Path | None
) -> None:
    """Heal GPU (an index or a UUID): on the bus, cool, links up, XIDs and pending repairs forgotten.

    \b
    Example:
      fakegpu heal 3
      fakegpu heal 3 --after 10s
      fakegpu heal --all
    """
    machine, when = Machine.open(directory), When.of(after, every, times)
    if everything == (gpu is not None):
        raise InputError("heal which? Give a GPU, or --all")
    if gpu is not None and not when.is_now:
        click.echo(f"plan {machine.faults.heal(machine.index(gpu), when=when)}")
        return
    if everything:
        machine.faults.clear()
    for selector in (gpu,) if gpu is not None else range(len(machine.gpus)):
        machine.heal(selector)


@click.command()
@options.gpu
@options.directory
def unplug(gpu: str, directory: Path | None) -> None:
    """Remove GPU (an index or a UUID) from the running machine.

    \b
    Example:
      fakegpu unplug 3
    """
    Machine.open(directory).unplug(gpu)


@click.command()
@options.gpu
@options.directory
def plug(gpu: str, directory: Path | None) -> None:
    """Put GPU (an index or a UUID) back into the machine.

    \b
    Example:
      fakegpu plug 3
    """
    Machine.open(directory).plug(gpu)
