"""Faults and their healing: of calls, of initialisation, of waits, of GPUs, at once and by plan."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakegpu import InputError, Machine, _layout
from fakegpu.actions import ActionKind
from fakegpu.event_type import EventType
from fakegpu.rules import Hits, parse_latency
from fakegpu.schedule import When, parse_duration_us

from .test_fakegpu_events import XID, EventSet, device_of

SUCCESS, UNINITIALIZED, NOT_FOUND, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST, VERSION_MISMATCH = 0, 1, 6, 9, 10, 15, 18
UNKNOWN = 999
NOWHERE = 0xFFFFFFFF
DOUBLE_BIT, CLOCK, RETIREMENT = 0x2, 0x10, 0x400


class Answers:
    """Return codes of getters that are called again and again."""

    def __init__(self, nvml: ctypes.CDLL) -> None:
        self._nvml = nvml
        self._number = ctypes.c_uint()
        self._memory = (ctypes.c_ulonglong * 8)()

    def memory(self, gpu: int = 0) -> int:
        code: int = self._nvml.nvmlDeviceGetMemoryInfo(self._handle(gpu), self._memory)
        return code

    def temperature(self, gpu: int = 0) -> int:
        code: int = self._nvml.nvmlDeviceGetTemperature(self._handle(gpu), 0, ctypes.byref(self._number))
        return code

    def celsius(self, gpu: int = 0) -> int:
        assert self.temperature(gpu) == SUCCESS
        return self._number.value

    def _handle(self, gpu: int) -> ctypes.c_void_p:
        return device_of(self._nvml, gpu)


@pytest.fixture
def answers(nvml: ctypes.CDLL) -> Answers:
    return Answers(nvml)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "never"
        time.sleep(0.001)


# Calls


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
        rule = _layout.Faults.from_address(address + _layout.Header.faults.offset).rules[1]
        rule.until_us -= 3600 * 1_000_000
    until(lambda: answers.memory() == SUCCESS)


# Initialisation


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


# Waits


def test_stuck_wait_outlives_its_timeout_and_loses_nothing(machine: Machine, nvml: ctypes.CDLL) -> None:
    events, seen = EventSet(nvml), list[tuple[int, int]]()
    events.register(0)
    machine.faults.stick_waits()
    waiter = threading.Thread(target=lambda: seen.append((lambda got: (got[0], got[1].data))(events.wait(1))))
    waiter.start()
    machine.fail(0, xid=48)
    waiter.join(0.2)
    assert waiter.is_alive()
    assert machine.faults.are_waits_stuck

    machine.faults.stick_waits(False)
    waiter.join(20)

    assert seen == [(SUCCESS, 48)]
    assert events.wait(0)[0] == TIMEOUT
    events.free()


# GPUs


def test_hot_gpu_slows_down_and_cools(machine: Machine, nvml: ctypes.CDLL, answers: Answers) -> None:
    machine.set(1, "clocks_event_reasons", 4)
    before, clock, reasons = answers.celsius(1), ctypes.c_uint(), ctypes.c_ulonglong()

    machine.faults.throttle(1)
    machine.faults.throttle(1)

    assert answers.celsius(1) > before + 30
    nvml.nvmlDeviceGetClockInfo(device_of(nvml, 1), 0, ctypes.byref(clock))
    nvml.nvmlDeviceGetCurrentClocksEventReasons(device_of(nvml, 1), ctypes.byref(reasons))
    assert (clock.value, reasons.value) == (machine._segment.read(1).clocks.graphics_min_mhz, 0x48)
    machine.faults.cool(1)
    nvml.nvmlDeviceGetCurrentClocksEventReasons(device_of(nvml, 1), ctypes.byref(reasons))
    assert (answers.celsius(1), reasons.value) == (before, 4)


def test_memory_errors_count_and_tell(machine: Machine, nvml: ctypes.CDLL) -> None:
    events = EventSet(nvml)
    events.register(0, DOUBLE_BIT)

    machine.faults.ecc(0, uncorrected=3)

    assert events.take() == [(DOUBLE_BIT, 0)]
    for counter in (0, 1):
        count = ctypes.c_ulonglong()
        assert nvml.nvmlDeviceGetTotalEccErrors(device_of(nvml, 0), 1, counter, ctypes.byref(count)) == SUCCESS
        assert count.value == 3
    machine.heal(0)
    state = machine._segment.read(0)
    assert (state.ecc.errors[1][0][2], state.ecc.errors[1][1][2]) == (0, 3), "the aggregate stays"
    events.free()


def test_remapped_rows_are_pending_until_healed(machine: Machine, nvml: ctypes.CDLL) -> None:
    events = EventSet(nvml)
    machine.set(0, "event_types", RETIREMENT | XID)
    events.register(0, RETIREMENT | XID)
    rows = [ctypes.c_uint() for _ in range(4)]

    machine.faults.retire(0, 2)

    assert events.take() == [(XID, 63), (RETIREMENT, 0)]
    for expected in ([0, 2, 1, 0], [0, 2, 0, 0]):
        assert nvml.nvmlDeviceGetRemappedRows(device_of(nvml, 0), *map(ctypes.byref, rows)) == SUCCESS
        assert [row.value for row in rows] == expected
        machine.heal(0)
    events.free()


def test_board_without_remapping_retires_pages(tmp_path_factory: pytest.TempPathFactory) -> None:
    t4 = Machine.create(tmp_path_factory.mktemp("t4") / "node", "t4", 1)
    nvml = ctypes.CDLL(str(t4.library))
    assert nvml.nvmlInit_v2() == SUCCESS
    count, addresses, pending = ctypes.c_uint(0), (ctypes.c_ulonglong * 8)(), ctypes.c_uint()

    t4.faults.retire(0, 2)

    assert nvml.nvmlDeviceGetRetiredPages(device_of(nvml, 0), 1, ctypes.byref(count), None) == 7
    assert nvml.nvmlDeviceGetRetiredPages(device_of(nvml, 0), 1, ctypes.byref(count), addresses) == SUCCESS
    assert nvml.nvmlDeviceGetRetiredPagesPendingStatus(device_of(nvml, 0), ctypes.byref(pending)) == SUCCESS
    assert (count.value, len(set(addresses[:2])), pending.value) == (2, 2, 1)
    nvml.nvmlShutdown()


def test_links_go_down_and_up(machine: Machine, nvml: ctypes.CDLL) -> None:
    def active() -> list[int]:
        found, state = [], ctypes.c_uint()
        for link in range(18):
            assert nvml.nvmlDeviceGetNvLinkState(device_of(nvml, 0), link, ctypes.byref(state)) == SUCCESS
            found += [link] * state.value
        return found

    machine.faults.links_down(0, (3, 5))
    assert active() == [link for link in range(18) if link not in (3, 5)]
    machine.faults.links_up(0, (3,))
    assert 3 in active()
    machine.faults.links_down(0)
    assert active() == []
    machine.heal(0)

    assert len(active()) == 18


def test_event_names_its_instance(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.mig(0).create("1g.10gb", "3g.40gb")
    events = EventSet(nvml)
    events.register(0)

    machine.faults.xid(0, 43, instance=(13, 0))
    machine.faults.xid(0, 79)

    seen = [events.wait()[1] for _ in range(2)]
    assert [(event.data, event.gpu_instance, event.compute_instance) for event in seen] == [
        (43, 13, 0),
        (79, NOWHERE, NOWHERE),
    ]
    events.free()
    with pytest.raises(InputError, match="no GPU instance 4"):
        machine.faults.xid(0, 43, instance=(4, 0))
    with pytest.raises(InputError, match="no compute instance 2"):
        machine.faults.xid(0, 43, instance=(13, 2))


@pytest.mark.parametrize("event", EventType)
def test_every_event_can_be_sent_and_received(machine: Machine, nvml: ctypes.CDLL, event: EventType) -> None:
    machine.set(0, "event_types", event.nvml_bit)
    events = EventSet(nvml)
    assert events.register(0, event.nvml_bit) == SUCCESS

    machine.faults.event(0, event)

    assert events.take() == [(event.nvml_bit, 0)]
    events.free()


def test_unplugged_gpu_is_lost_for_who_knows_it_and_absent_for_others(
    machine: Machine, answers: Answers, nvml: ctypes.CDLL, see: Callable[[Machine, str], str]
) -> None:
    events = EventSet(nvml)
    events.register(1)
    gone = machine.gpu(1)
    listing = """
n.nvmlInit()
handles = map(n.nvmlDeviceGetHandleByIndex, range(n.nvmlDeviceGetCount()))
print([n.nvmlDeviceGetMinorNumber(handle) for handle in handles])
"""

    machine.unplug(1)

    assert answers.memory(0) == SUCCESS
    assert events.wait()[0] == GPU_IS_LOST
    assert see(machine, listing) == "[0, 2, 3]\n"
    assert not (machine.dev / "nvidia1").exists()
    assert not (machine.sys / "bus/pci/devices" / gone.sysfs_name).exists()
    machine.plug(1)
    assert answers.memory(1) == SUCCESS
    assert see(machine, listing) == "[0, 1, 2, 3]\n"
    assert (machine.dev / "nvidia1").exists()
    assert (machine.sys / "bus/pci/devices" / gone.sysfs_name / "vendor").read_text() == "0x10de\n"
    events.free()


def test_heal_plugs_in(machine: Machine, answers: Answers) -> None:
    machine.unplug(2)

    machine.heal(2)

    assert answers.memory(2) == SUCCESS
    assert (machine.dev / "nvidia2").exists()


# Plans

COUNT_EVENTS = """
import pynvml as n
import sys
wanted = int(sys.argv[1])
n.nvmlInit()
h, events = n.nvmlDeviceGetHandleByIndex(0), n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
seen = [n.nvmlEventSetWait_v2(events, 30000).eventData for _ in range(wanted)]
try: n.nvmlEventSetWait_v2(events, 100); print("one more")
except n.NVMLError_Timeout: print(len(seen))
"""


def waiters_of(machine: Machine, count: int, wanted: int, stack: ExitStack) -> list[subprocess.Popen[str]]:
    """Processes that have registered for the XIDs of GPU 0 and want so many."""
    waiters = [
        stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", COUNT_EVENTS, str(wanted)],
                env=os.environ | machine.environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        for _ in range(count)
    ]
    for waiter in waiters:
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "ready\n"
    return waiters


def test_wait_of_another_process_carries_out_a_plan(machine: Machine) -> None:
    with ExitStack() as stack:
        (waiter,) = waiters_of(machine, 1, 1, stack)
        machine.faults.xid(0, 79, when=When.of(after="100ms"))

        assert waiter.communicate(timeout=60)[0] == "1\n"

    assert machine._segment.flags() == 0, "the plan was carried out without us"
    assert machine.gpu(0).last_xid == 79


def test_getter_carries_out_a_plan_and_its_healing(machine: Machine, answers: Answers) -> None:
    handle, memory = device_of(answers._nvml, 0), (ctypes.c_ulonglong * 8)()

    machine.faults.lose(0, when=When.of(after="50ms"))
    until(lambda: answers._nvml.nvmlDeviceGetMemoryInfo(handle, memory) == GPU_IS_LOST)
    machine.faults.heal(0, when=When.of(after="50ms"))
    until(lambda: answers._nvml.nvmlDeviceGetMemoryInfo(handle, memory) == SUCCESS)


def post_hundred(machine: Machine) -> None:
    for _ in range(100):
        machine.fail(0, xid=13)


@pytest.mark.slow
def test_events_of_many_writers_reach_every_process_once(machine: Machine) -> None:
    with ExitStack() as stack:
        waiters = waiters_of(machine, 2, 400, stack)
        owners = [Machine.open(machine.directory) for _ in range(4)]
        threads = [threading.Thread(target=post_hundred, args=[owner]) for owner in owners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [waiter.communicate(timeout=120)[0] for waiter in waiters] == ["400\n"] * 2

    assert machine._segment.read(0).fault.xid_count == 400


@pytest.mark.slow
def test_storm_reaches_every_process_once_and_in_full(machine: Machine) -> None:
    with ExitStack() as stack:
        waiters = waiters_of(machine, 3, 300, stack)
        machine.faults.xid(0, 94, when=When.of(after="10ms", every="1ms", times=300))

        counts = [waiter.communicate(timeout=120)[0] for waiter in waiters]

    assert counts == ["300\n"] * 3
    assert machine._segment.read(0).fault.xid_count == 300


def test_times_of_a_plan_are_counted(machine: Machine) -> None:
    machine.faults.ecc(0, corrected=2, when=When.of(every="1ms", times=20))

    until(lambda: machine.faults.plans == ())

    assert machine._segment.read(0).ecc.errors[0][0][2] == 40


def test_plan_that_nobody_looked_at_makes_up_for_a_ring_of_events_only(machine: Machine) -> None:
    machine.faults.ecc(0, corrected=1, when=When.of(after="1h", every="1ms"))
    with machine._segment._exclusive() as address:
        plan = _layout.Faults.from_address(address + _layout.Header.faults.offset).plans[0]
        plan.due_us -= 2 * 3600 * 1_000_000
        _layout.Faults.from_address(address + _layout.Header.faults.offset).due_us = plan.due_us

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


# Bad input


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda faults: faults.slow("nvmlDeviceGetFlavour", "1ms"), "no NVML function 'nvmlDeviceGetFlavour'"),
        (lambda faults: faults.slow("nvmlX*", "1ms"), "no NVML function 'nvmlX"),
        (lambda faults: faults.slow("nvmlInit", "soon"), "'soon' is no duration"),
        (lambda faults: faults.slow("nvmlInit", "p50=9ms,p99=1ms"), "does not rise"),
        (lambda faults: faults.slow("nvmlInit", "p101=9ms"), "no percentile"),
        (lambda faults: faults.slow("nvmlInit", "1ms", hits=Hits(chance=2)), "chance 2: a number above 0"),
        (lambda faults: faults.slow("nvmlInit", "1ms", hits=Hits(every=0)), "every 0"),
        (lambda faults: faults.fail_calls("nvmlInit", "BROKEN"), "no NVML error 'BROKEN': there are .*TIMEOUT"),
        (lambda faults: faults.fail_calls("nvmlInit", 777), "no NVML error '777'"),
        (lambda faults: faults.ecc(0), "corrected or of uncorrected"),
        (lambda faults: faults.links_down(0, (18,)), "no NVLink 18: it has 18, 0 to 17"),
        (lambda faults: faults.xid(0, 0), "no XID 0"),
        (lambda faults: faults.retire(0, 0), "retire 0"),
        (lambda faults: faults.xid(0, 1, when=When.of(every="1us")), "a millisecond is the shortest"),
        (lambda faults: faults.xid(0, 1, when=When.of(times=3)), "say how often"),
        (lambda faults: faults.xid(0, 1, when=When.of(after="2000h", every="9999h")), "longer than a year"),
    ],
)
def test_mistakes_are_one_line(machine: Machine, action: Callable[..., object], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        action(machine.faults)

    assert "\n" not in str(raised.value)


@given(st.floats(0, 1000, allow_nan=False), st.sampled_from(["us", "ms", "s", ""]))
def test_durations_are_read_as_written(number: float, unit: str) -> None:
    factor = {"us": 1, "ms": 1e3, "s": 1e6, "": 1e6}[unit]

    assert parse_duration_us(f"{number:f}{unit}") == round(float(f"{number:f}") * factor)


def test_latencies_are_shares_of_calls() -> None:
    assert parse_latency("5ms") == ((1.0, 5000),)
    assert parse_latency("1ms..10ms") == ((0.0, 1000), (1.0, 10_000))
    assert parse_latency("p50=1ms,p99=20ms") == ((0.5, 1000), (0.99, 20_000))
