"""Faults of calls and of initialisation: slow, failing, and healed."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import pytest

from fakegpu import Machine
from fakegpu.faults.rules import Hits
from fakegpu.faults.schedule import When
from fakegpu.state import layout

from .conftest import Answers, until

SUCCESS, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH = 0, 9, 15, 18
UNKNOWN = 999


def test_every_third_call_fails_until_the_rule_is_removed(machine: Machine, answers: Answers) -> None:
    number = machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(every=3))

    assert [answers.memory() for _ in range(6)] == [SUCCESS, SUCCESS, UNKNOWN] * 2
    assert answers.temperature() == SUCCESS
    machine.faults.remove(number)

    assert {answers.memory() for _ in range(6)} == {SUCCESS}
    assert machine._segment.flags() == 0, "a healthy machine costs nothing"


def test_rule_may_be_for_one_gpu_and_for_a_family_of_functions(machine: Machine, answers: Answers) -> None:
    machine.faults.fail_calls("nvmlDeviceGetMem*", "NVML_ERROR_GPU_IS_LOST", gpu=2)

    assert (answers.memory(2), answers.memory(1), answers.temperature(2)) == (GPU_IS_LOST, SUCCESS, SUCCESS)


def test_name_without_version_means_all_versions(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.faults.fail_calls("nvmlDeviceGetCount", 999)

    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(ctypes.c_uint())) == UNKNOWN
    assert nvml.nvmlDeviceGetCount(ctypes.byref(ctypes.c_uint())) == UNKNOWN


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


def test_process_that_cannot_write_counts_for_itself(machine: Machine, answers: Answers) -> None:
    machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", hits=Hits(times=2))
    segment = machine.directory / "segment"
    segment.rename(machine.directory / "away")

    assert [answers.memory() for _ in range(4)] == [UNKNOWN, UNKNOWN, SUCCESS, SUCCESS]

    (machine.directory / "away").rename(segment)
    assert machine.faults.rules[0].left == 2


def test_slow_calls_take_their_time(machine: Machine, answers: Answers) -> None:
    machine.faults.slow("nvmlDeviceGetTemperature", "30ms..40ms")
    answers.memory()

    started = time.monotonic()
    assert answers.temperature() == SUCCESS

    assert time.monotonic() - started >= 0.03


def test_latency_follows_its_percentiles(machine: Machine, answers: Answers) -> None:
    machine.faults.slow("nvmlDeviceGetTemperature", "p50=0.1ms,p90=1ms,p100=20ms")
    took = []
    for _ in range(100):
        started = time.monotonic()
        answers.temperature()
        took.append(time.monotonic() - started)

    assert sum(seconds > 0.001 for seconds in took) >= 3, "a tenth is slower than the 90th percentile"
    assert sum(took) >= 100 * 0.05 * 0.001


def test_rule_holds_from_some_time_on_and_for_some_time(machine: Machine, answers: Answers) -> None:
    machine.faults.fail_calls("nvmlDeviceGetTemperature", "UNKNOWN", when=When.of(after="1h"))
    machine.faults.fail_calls("nvmlDeviceGetMemoryInfo", "UNKNOWN", when=When.of(after="50ms"), lasting="1h")

    assert answers.temperature() == SUCCESS
    until(lambda: answers.memory() == UNKNOWN)
    with machine._segment._exclusive() as address:
        rule = layout.Faults.from_address(address + layout.Header.faults.offset).rules[1]
        rule.until_us -= 3600 * 1_000_000
    until(lambda: answers.memory() == SUCCESS)


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
def test_driver_that_is_not_well_is_told_by_init(
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
