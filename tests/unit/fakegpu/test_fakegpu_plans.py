"""Faults by plan: who carries them out, how often, and that nothing is lost or doubled."""

from __future__ import annotations

import ctypes

import pytest

from fakegpu import InputError, Machine
from fakegpu.faults.schedule import When
from fakegpu.state import layout
from fakegpu.state.layout import ActionKind
from tests.support.machines import Answers
from tests.support.patience import eventually

from .test_fakegpu_events import device_of

SUCCESS, GPU_IS_LOST = 0, 15


def test_getter_carries_out_a_plan_and_its_healing(machine: Machine, answers: Answers) -> None:
    handle, memory = device_of(answers._nvml, 0), (ctypes.c_ulonglong * 8)()

    machine.faults.lose(0, when=When.of(after="50ms"))
    eventually(lambda: answers._nvml.nvmlDeviceGetMemoryInfo(handle, memory) == GPU_IS_LOST)
    machine.faults.heal(0, when=When.of(after="50ms"))
    eventually(lambda: answers._nvml.nvmlDeviceGetMemoryInfo(handle, memory) == SUCCESS)


def test_times_of_a_plan_are_counted(machine: Machine) -> None:
    machine.faults.ecc(0, corrected=2, when=When.of(every="1ms", times=20))

    eventually(lambda: machine.faults.plans == ())

    assert machine._segment.read(0).ecc.errors[0][0][2] == 40


def test_plan_that_nobody_looked_at_makes_up_for_a_ring_of_events_only(machine: Machine) -> None:
    machine.faults.ecc(0, corrected=1, when=When.of(after="1h", every="1ms"))
    with machine._segment._exclusive() as address:
        plan = layout.Faults.from_address(address + layout.Header.faults.offset).plans[0]
        plan.due_us -= 2 * 3600 * 1_000_000
        layout.Faults.from_address(address + layout.Header.faults.offset).due_us = plan.due_us

    machine.faults.clear()

    assert 1024 <= machine._segment.read(0).ecc.errors[0][0][2] < 100_000


def test_rules_and_plans_are_listed_and_removed(machine: Machine) -> None:
    faults = machine.faults
    slow = faults.slow("nvmlInit", "3s", when=When.of(after="1h"))
    later = faults.throttle(1, when=When.of(after="2h"))
    often = faults.xid(1, 13, when=When.of(after="1h", every="5s"))

    assert [rule.number for rule in faults.rules] == [slow]
    assert [(plan.number, plan.kind, plan.every_s, plan.left) for plan in faults.plans] == [
        (often, ActionKind.XID, 5.0, None),
        (later, ActionKind.THROTTLE, None, 1),
    ]
    assert later is not None
    faults.remove(later)
    with pytest.raises(InputError, match=f"no rule or plan {later}: there are {slow}, {often}"):
        faults.remove(later)
    faults.clear()

    assert (faults.rules, faults.plans, machine._segment.flags()) == ((), (), 0)


def test_room_for_rules_and_plans_ends(machine: Machine) -> None:
    for _ in range(32):
        machine.faults.slow("nvmlInit", "1ms")
    with pytest.raises(InputError, match="32 rules"):
        machine.faults.slow("nvmlInit", "1ms")
    for _ in range(64):
        machine.faults.throttle(0, when=When.of(after="1h"))
    with pytest.raises(InputError, match="64 plans"):
        machine.faults.throttle(0, when=When.of(after="1h"))
