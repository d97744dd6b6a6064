"""Faults of GPUs and of waits, and their healing; what cannot be a fault."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakegpu import InputError, Machine
from fakegpu.faults.rules import Hits, parse_latency
from fakegpu.faults.schedule import When, parse_duration_us
from fakegpu.state.event_type import EventType
from tests.support.machines import Answers
from tests.support.patience import LIMIT_S

from .test_fakegpu_events import XID, EventSet, device_of

SUCCESS, TIMEOUT, GPU_IS_LOST = 0, 10, 15
NOWHERE = 0xFFFFFFFF
DOUBLE_BIT, RETIREMENT = 0x2, 0x400


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
    waiter.join(LIMIT_S)

    assert seen == [(SUCCESS, 48)]
    assert events.wait(0)[0] == TIMEOUT
    events.free()


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


def test_heal_plugs_in(machine: Machine, answers: Answers) -> None:
    machine.unplug(2)

    machine.heal(2)

    assert answers.memory(2) == SUCCESS
    assert (machine.dev / "nvidia2").exists()


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


@pytest.mark.parametrize("text", ["\u0663s", "1\u0660s", "1_0s", "\uff11", "1e3s", "s", ""])
def test_duration_is_written_in_plain_digits(text: str) -> None:
    with pytest.raises(InputError, match="is no duration"):
        parse_duration_us(text)


@given(st.floats(0, 1000, allow_nan=False), st.sampled_from(["us", "ms", "s", ""]))
def test_durations_are_read_as_written(number: float, unit: str) -> None:
    factor = {"us": 1, "ms": 1e3, "s": 1e6, "": 1e6}[unit]

    assert parse_duration_us(f"{number:f}{unit}") == round(float(f"{number:f}") * factor)


def test_latencies_are_shares_of_calls() -> None:
    assert parse_latency("5ms") == ((1.0, 5000),)
    assert parse_latency("1ms..10ms") == ((0.0, 1000), (1.0, 10_000))
    assert parse_latency("p50=1ms,p99=20ms") == ((0.5, 1000), (0.99, 20_000))
