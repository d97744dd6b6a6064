"""A machine that may be read only: somebody else's, or on a file system that nobody writes."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from fakegpu import HostError, Machine
from fakegpu.cli.main import main
from fakegpu.faults.schedule import When

CHANGES: dict[str, Callable[[Machine], object]] = {
    "set": lambda machine: machine.set(0, "temperature", 50),
    "fail": lambda machine: machine.fail(0, xid=79),
    "heal": lambda machine: machine.heal(0),
    "load": lambda machine: machine.rest(0),
    "process": lambda machine: machine.enter_process(0, os.getpid()),
    "mig": lambda machine: machine.mig(0).create("1g.10gb"),
    "unplug": lambda machine: machine.unplug(0),
    "plan": lambda machine: machine.faults.xid(0, 79, when=When(after_us=1)),
}


def test_what_the_owner_changes_is_seen(foreign: Machine) -> None:
    seen = Machine.open(foreign.directory)
    before = seen.gpu(1).temperature_c

    foreign.set(1, "temperature", before + 9)
    foreign.mig(0).create("1g.10gb")

    assert seen.gpu(1).temperature_c == before + 9
    assert [device.name for device in seen.mig(0).devices] == ["1g.10gb"]
    assert seen.gpus == foreign.gpus


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_refused_in_one_line(foreign: Machine, change: str) -> None:
    seen, before = Machine.open(foreign.directory), foreign.gpus

    with pytest.raises(HostError, match="segment can only be read here: its owner, or root, may change the machine"):
        CHANGES[change](seen)

    assert foreign.gpus == before
    assert all((foreign.dev / f"nvidia{gpu.minor}").exists() for gpu in before)


@pytest.mark.parametrize(
    "command",
    [["list"], ["list", "-o", "json"], ["mig", "list"], ["mig", "profiles", "0"], ["cdi"], ["fault", "list"]],
    ids=" ".join,
)
def test_commands_that_look_work(foreign: Machine, command: list[str]) -> None:
    assert main([*command, "--dir", str(foreign.directory)]) == 0


def test_command_that_changes_says_why_not(foreign: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["set", "--dir", str(foreign.directory), "0", "temperature=1"]) == 3

    assert capsys.readouterr().err.startswith(f"error: {foreign.directory}/segment can only be read here: its owner")


def test_a_plan_that_is_due_is_left_to_others(foreign: Machine) -> None:
    foreign.faults.xid(0, 79, when=When(after_us=1))
    seen = Machine.open(foreign.directory)

    assert [plan.argument for plan in seen.faults.plans] == [79]
    assert seen.gpu(0).last_xid is None

    assert foreign.gpu(0).last_xid == 79
    assert seen.gpu(0).last_xid == 79
