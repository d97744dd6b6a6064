"""Faults of calls and of initialisation: slow, failing, and healed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fakegpu import Machine
from fakegpu.faults.rules import Hits
from tests.support.machines import Answers

SUCCESS, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH = 0, 9, 15, 18
UNKNOWN = 999
BY_CHANCE = """
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def fails():
    try: n.nvmlDeviceGetMemoryInfo(h)
    except n.NVMLError_Unknown: return "x"
    return "."
print("".join(fails() for _ in range(200)))
"""


def test_chance_is_the_same_in_every_process(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(chance=0.25, seed=7))

    first, second = see(machine, BY_CHANCE), see(machine, BY_CHANCE)

    assert first == second
    assert 25 <= first.count("x") <= 75
    machine.faults.clear()
    machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(chance=0.25, seed=8))
    assert see(machine, BY_CHANCE) != first


def test_number_of_failures_is_counted_over_all_processes(
    machine: Machine, answers: Answers, see: Callable[[Machine, str], str]
) -> None:
    machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(times=5))

    assert [answers.memory(), answers.memory()] == [UNKNOWN, UNKNOWN]
    assert see(machine, BY_CHANCE).strip() == "x" * 3 + "." * 197
    assert answers.memory() == SUCCESS
    assert machine.faults.rules == ()


def init_codes(machine: Machine, see: Callable[[Machine, str], str], tries: int = 1) -> list[str]:
    code = f"""
for _ in range({tries}):
    try: n.nvmlInit(); print(n.nvmlDeviceGetCount())
    except n.NVMLError as error: print(error.value)
"""
    return see(machine, code).split()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("DRIVER_NOT_LOADED", DRIVER_NOT_LOADED, id="driver not loaded"),
        pytest.param("LIB_RM_VERSION_MISMATCH", VERSION_MISMATCH, id="library of another version"),
    ],
)
def test_init_reports_a_broken_driver(
    machine: Machine, see: Callable[[Machine, str], str], answers: Answers, name: str, code: int
) -> None:
    machine.faults.fail_init(name)

    assert init_codes(machine, see) == [str(code)]
    assert answers.memory() == SUCCESS, "who has initialised goes on"
    machine.faults.clear()
    assert init_codes(machine, see) == ["4"]


def test_init_works_after_some_failures_of_any_process(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    machine.faults.fail_init("DRIVER_NOT_LOADED", times=3)

    assert init_codes(machine, see, tries=2) == ["9", "9"]
    assert init_codes(machine, see, tries=2) == ["9", "4"]
