"""The commands ``fakegpu fault …``: break driver and library, list and clear all faults."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ..faults.rules import Hits, parse_latency
from ..faults.schedule import When
from ..machine.machine import Machine
from . import options

_Function = TypeVar("_Function", bound=Callable[..., Any])
_WAITS: Final = ("stick", "release")


def _ruled(function: _Function) -> _Function:
    """The options of a rule."""
    for option in (
        click.option("--times", type=int, help="Maximum number of calls, over all processes."),
        click.option("--for", "lasting", metavar="DURATION", help="Duration, such as 10s; until removed if not given."),
        click.option("--after", default="0", metavar="DURATION", help="Start after this delay, such as 30s."),
        click.option("--seed", type=int, default=0, help="With --chance: the same seed gives the same calls."),
        click.option("--chance", type=float, help="Probability: 0.1 for a tenth of the calls."),
        click.option("--every", type=int, default=1, help="Every n-th call of a process."),
        click.option("--gpu", help="Only calls for this GPU (an index or a UUID)."),
    ):
        function = option(function)
    return function


@click.group("fault")
def fault_group() -> None:
    """Inject faults into driver and library: calls, initialisation, waits. List and clear all faults.

    \b
    Example:
      fakegpu fault slow 'nvmlDeviceGet*' p50=1ms,p99=20ms
      fakegpu fault error nvmlDeviceGetMemoryInfo UNKNOWN --chance 0.1
      fakegpu fault init DRIVER_NOT_LOADED --times 3
      fakegpu fault clear
    """


@fault_group.command("slow")
@click.argument("function")
@click.argument("latency")
@_ruled
@options.directory
def slow(function: str, latency: str, directory: Path | None, **rule: Any) -> None:
    """Make calls of FUNCTION slow: 5ms, 1ms..10ms, or percentiles. `nvmlDeviceGet*` stands for every such function.

    \b
    Example:
      fakegpu fault slow nvmlInit 3s
      fakegpu fault slow 'nvmlDeviceGet*' p50=1ms,p99=20ms --gpu 3
    """
    parse_latency(latency)
    machine = Machine.open(directory)
    click.echo(f"rule {machine.faults.slow(function, latency, **_rule_options(machine, **rule))}")


@fault_group.command("error")
@click.argument("function")
@click.argument("code")
@_ruled
@options.directory
def error(function: str, code: str, directory: Path | None, **rule: Any) -> None:
    """Make calls of FUNCTION return an NVML error, given by name or number.

    \b
    Example:
      fakegpu fault error nvmlDeviceGetMemoryInfo UNKNOWN --every 3
      fakegpu fault error 'nvmlDevice*' TIMEOUT --chance 0.05 --seed 7 --after 30s --for 10s
    """
    machine = Machine.open(directory)
    click.echo(f"rule {machine.faults.fail_calls(function, code, **_rule_options(machine, **rule))}")


def _rule_options(
    machine: Machine,
    gpu: str | None,
    every: int,
    chance: float | None,
    seed: int,
    after: str,
    lasting: str | None,
    times: int | None,
) -> dict[str, Any]:
    return {
        "gpu": None if gpu is None else machine.index(gpu),
        "hits": Hits(every=every, chance=chance, seed=seed, times=times),
        "when": When.of(after),
        "lasting": lasting,
    }


@fault_group.command("init")
@click.argument("code")
@click.option("--times", type=int, help="Number of failures, over all processes; every call fails if not given.")
@click.option("--after", default="0", metavar="DURATION", help="Start after this delay, such as 30s.")
@options.directory
def init(code: str, times: int | None, after: str, directory: Path | None) -> None:
    """Make nvmlInit fail: DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, or any other NVML error.

    \b
    Example:
      fakegpu fault init LIB_RM_VERSION_MISMATCH
      fakegpu fault init DRIVER_NOT_LOADED --times 3
    """
    click.echo(f"rule {Machine.open(directory).faults.fail_init(code, times=times, when=When.of(after))}")


@fault_group.command("waits")
@click.argument("state", type=click.Choice(_WAITS))
@options.directory
def waits(state: str, directory: Path | None) -> None:
    """Make waits for events hang beyond their timeout, or release them.

    \b
    Example:
      fakegpu fault waits stick
    """
    Machine.open(directory).faults.stick_waits(state == "stick")


@fault_group.command("list")
@options.directory
def list_faults(directory: Path | None) -> None:
    """Print rules and plans as JSON.

    \b
    Example:
      fakegpu fault list
    """
    faults = Machine.open(directory).faults
    plans = [asdict(plan) | {"kind": plan.kind.name.lower()} for plan in faults.plans]
    rules = [asdict(rule) for rule in faults.rules]
    click.echo(json.dumps({"rules": rules, "plans": plans, "waitsAreStuck": faults.are_waits_stuck}, indent=2))


@fault_group.command("clear")
@click.argument("number", type=int, required=False)
@options.directory
def clear(number: int | None, directory: Path | None) -> None:
    """Take a rule or plan back, or all of them; stuck waits go on. `fakegpu heal` heals the GPUs.

    \b
    Example:
      fakegpu fault clear 2
      fakegpu fault clear
    """
    faults = Machine.open(directory).faults
    if number is None:
        faults.clear()
    else:
        faults.remove(number)
