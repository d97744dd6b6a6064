"""Faults of calls and of initialisation: slow, failing, and healed."""

from __future__ import annotations

import ctypes
import time

from fakegpu import Machine
from fakegpu.faults.rules import Hits
from fakegpu.faults.schedule import When
from fakegpu.state import layout
from tests.support.machines import Answers
from tests.support.patience import eventually

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
    eventually(lambda: answers.memory() == UNKNOWN)
    with machine._segment._exclusive() as address:
        rule = layout.Faults.from_address(address + layout.Header.faults.offset).rules[1]
        rule.until_us -= 3600 * 1_000_000
    eventually(lambda: answers.memory() == SUCCESS)
