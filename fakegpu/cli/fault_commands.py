"""The commands that break and heal: ``fakegpu fail``, ``heal``, ``unplug``, ``plug`` a GPU, ``fault`` the library."""
# ruff: noqa: D301 - click takes the character \b as "keep these lines as they are", so it must not be a raw backslash

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..errors import InputError
from ..faults.faults import XID_ROW_REMAPPED
from ..faults.schedule import When
from ..machine.machine import Machine
from ..state import layout
from ..state.gpu import link_numbers
from ..state.layout import ActionKind
from . import directory_option, gpu_argument, output_option
from .completion import errors, functions, gpus
from .numbers import Float, Int, IntRange

if TYPE_CHECKING:
    from ..faults.rules import Rule
    from ..faults.schedule import Plan

_Function = TypeVar("_Function", bound=Callable[..., Any])
_PLANNED: Final = {
    ActionKind.LOSE: "lost",
    ActionKind.CORRECTED_ECC: "ecc corrected",
    ActionKind.UNCORRECTED_ECC: "ecc uncorrected",
    ActionKind.THROTTLE: "hot",
}
"""What a plan does where the name of its kind is not what `Gpu.faults` calls it."""
_WAITS: Final = ("stick", "release")


def _scheduled(function: _Function) -> _Function:
    """The options of a ``When``."""
    for option in (
        click.option("--times", type=Int(), help="With --every: number of times; without limit if not given."),
        click.option("--every", metavar="DURATION", help="Repeat at this interval, such as 5s or 100ms."),
        click.option("--after", default="0", metavar="DURATION", help="Delay, such as 30s; none if not given."),
    ):
        function = option(function)
    return function


@click.command()
@gpu_argument
@click.option("--xid", type=IntRange(min=1), help="XID error to report.")
@click.option("--gi", type=Int(), help="With --xid: id of the affected GPU instance.")
@click.option("--ci", type=Int(), help="With --gi: id of the compute instance.")
@click.option("--lost", is_flag=True, help="Make the GPU fall off the bus.")
@click.option("--ecc-corrected", type=Int(), metavar="N", help="Count N single-bit errors of the memory.")
@click.option("--ecc-uncorrected", type=Int(), metavar="N", help="Count N double-bit errors of the memory.")
@click.option("--retire", type=Int(), metavar="N", help="Remap N rows, or retire N pages; XID 63 reports it.")
@click.option("--hot", is_flag=True, help="Heat above the slowdown threshold, with clocks at their minimum.")
@click.option("--links-down", metavar="LINKS", help="NVLinks to take down: 0,3 or all.")
@_scheduled
@directory_option
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
    elif xid is not None and (retire is None or (xid, gi) != (XID_ROW_REMAPPED, None)):
        # A retirement reports its XID itself.
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
    if not re.fullmatch("[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise InputError(f"--links-down {text}: write 0,3 or all")
    return tuple(int(part) for part in text.split(","))


@click.command()
@click.argument("gpu", required=False, metavar="[GPU]", shell_complete=gpus)
@click.option("--all", "everything", is_flag=True, help="Heal all GPUs and remove all rules and plans.")
@_scheduled
@directory_option
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
@gpu_argument
@directory_option
def unplug(gpu: str, directory: Path | None) -> None:
    """Remove GPU (an index or a UUID) from the running machine.

    \b
    Example:
      fakegpu unplug 3
    """
    Machine.open(directory).unplug(gpu)


@click.command()
@gpu_argument
@directory_option
def plug(gpu: str, directory: Path | None) -> None:
    """Put GPU (an index or a UUID) back into the machine.

    \b
    Example:
      fakegpu plug 3
    """
    Machine.open(directory).plug(gpu)


def _ruled(function: _Function) -> _Function:
    """The options of a rule."""
    for option in (
        click.option("--times", type=Int(), help="Maximum number of calls, over all processes."),
        click.option("--for", "lasting", metavar="DURATION", help="Duration, such as 10s; until removed if not given."),
        click.option("--after", default="0", metavar="DURATION", help="Start after this delay, such as 30s."),
        click.option("--seed", type=Int(), default=0, help="With --chance: the same seed gives the same calls."),
        click.option("--chance", type=Float(), help="Probability: 0.1 for a tenth of the calls."),
        click.option("--every", type=Int(), default=1, help="Every n-th call of a process."),
        click.option("--gpu", shell_complete=gpus, help="Only calls for this GPU (an index or a UUID)."),
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
@click.argument("function", shell_complete=functions)
@click.argument("latency")
@_ruled
@directory_option
def slow(function: str, latency: str, directory: Path | None, **rule: Any) -> None:
    """Make calls of FUNCTION slow: 5ms, 1ms..10ms, or percentiles. `nvmlDeviceGet*` stands for every such function.

    \b
    Example:
      fakegpu fault slow nvmlInit 3s
      fakegpu fault slow 'nvmlDeviceGet*' p50=1ms,p99=20ms --gpu 3
    """
    from ..faults.rules import parse_latency

    parse_latency(latency)
    machine = Machine.open(directory)
    click.echo(f"rule {machine.faults.slow(function, latency, **_rule_options(machine, **rule))}")


@fault_group.command("error")
@click.argument("function", shell_complete=functions)
@click.argument("code", shell_complete=errors)
@_ruled
@directory_option
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
    from ..faults.rules import Hits

    return {
        "gpu": None if gpu is None else machine.index(gpu),
        "hits": Hits(every=every, chance=chance, seed=seed, times=times),
        "when": When.of(after),
        "lasting": lasting,
    }


@fault_group.command("init")
@click.argument("code", shell_complete=errors)
@click.option("--times", type=Int(), help="Number of failures, over all processes; every call fails if not given.")
@click.option("--after", default="0", metavar="DURATION", help="Start after this delay, such as 30s.")
@directory_option
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
@directory_option
def waits(state: str, directory: Path | None) -> None:
    """Make waits for events hang beyond their timeout, or release them.

    \b
    Example:
      fakegpu fault waits stick
    """
    Machine.open(directory).faults.stick_waits(state == "stick")


@fault_group.command("list")
@output_option
@directory_option
def list_faults(output: str, directory: Path | None) -> None:
    """List what is wrong with GPUs and calls now, and what is planned, each with the command that ends it.

    \b
    Example:
      fakegpu fault list
      fakegpu fault list -o json
    """
    machine = Machine.open(directory)
    faults, gpus = machine.faults, machine.gpus
    if output == "json":
        active = [{"gpu": gpu.index, "faults": gpu.faults} for gpu in gpus if gpu.faults]
        plans = [asdict(plan) | {"kind": plan.kind.name.lower()} for plan in faults.plans]
        rules = [asdict(rule) for rule in faults.rules]
        listed = {"active": active, "rules": rules, "plans": plans, "waitsAreStuck": faults.are_waits_stuck}
        click.echo(json.dumps(listed, indent=2))
        return
    end = "" if directory is None else f" --dir {shlex.quote(str(directory))}"
    rows = [(str(gpu.index), fault, "now", f"{_ending(gpu.index, fault)}{end}") for gpu in gpus for fault in gpu.faults]
    if faults.are_waits_stuck:
        rows.append(("any", "waits for events hang", "now", f"fakegpu fault waits release{end}"))
    for number, gpu, what, when in (*map(_rule_cells, faults.rules), *map(_plan_cells, faults.plans)):
        rows.append((gpu, what, when, f"fakegpu fault clear {number}{end}"))
    if not rows:
        click.echo("no faults")
        return
    from .gpu_commands import print_table

    print_table(("GPU", "Fault", "When", "End it"), {"Fault", "When", "End it"}, rows)


def _ending(gpu: int, fault: str) -> str:
    """The command that ends a fault of a GPU."""
    if fault == "unplugged":
        return f"fakegpu plug {gpu}"
    return f"fakegpu set {gpu} temperature=40" if fault.endswith("°C") else f"fakegpu heal {gpu}"


def _rule_cells(rule: Rule) -> tuple[int, str, str, str]:
    """A rule: its number, GPU, what it does, and when."""
    from ..faults.rules import error_name

    does = [f"fails with {error_name(rule.error)}"] if rule.error else []
    if rule.delays:
        does.append(f"takes up to {rule.delays[-1][1] / 1000:g} ms")
    calls = "" if rule.every == 1 else f"every {rule.every}th call" if rule.every else f"{rule.chance:.0%} of calls"
    parts = (f"in {rule.in_s:.0f} s" if rule.in_s else "now", "" if rule.for_s is None else f"for {rule.for_s:.0f} s")
    left = "" if rule.left is None else f"{rule.left} left"
    when = ", ".join(filter(None, (" ".join(filter(None, parts)), calls, left)))
    return rule.number, "any" if rule.gpu is None else str(rule.gpu), f"{rule.function} {' and '.join(does)}", when


def _plan_cells(plan: Plan) -> tuple[int, str, str, str]:
    """A plan, as `_rule_cells` has a rule."""
    what = _PLANNED.get(plan.kind, plan.kind.name.lower().replace("_", " "))
    is_mask = plan.kind in (ActionKind.LINKS_DOWN, ActionKind.LINKS_UP)
    argument = f" {link_numbers(plan.argument) if is_mask else plan.argument}" if plan.argument else ""
    every = "" if plan.every_s is None else f"every {plan.every_s:g} s"
    left = "" if plan.left is None or plan.every_s is None else f"{plan.left} left"
    when = ", ".join(filter(None, (f"in {plan.in_s:.0f} s", every, left)))
    return plan.number, str(plan.gpu), f"{what}{argument}", when


@fault_group.command("clear")
@click.argument("number", type=Int(), required=False)
@directory_option
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
