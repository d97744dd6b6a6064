"""Event sets: who gets which event, within one process and across processes."""

from __future__ import annotations

import ctypes
import errno
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from tests.support.machines import EventData, EventSet, device_of
from tests.support.patience import LIMIT_S, eventually

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST = 0, 1, 2, 3, 10, 15
SINGLE_BIT, DOUBLE_BIT, PSTATE, XID, CLOCK = 0x1, 0x2, 0x4, 0x8, 0x10
NOWHERE = 0xFFFFFFFF
FOREVER_MS = 0xFFFFFFFF
FUTEX_WAITV = 449


def has_futex_waitv() -> bool:
    """Whether the kernel lets us wait on two words; without it a wait ends at the next event or its timeout."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(FUTEX_WAITV, None, 0, 0, None, 0)
    return ctypes.get_errno() == errno.EINVAL


needs_waitv = pytest.mark.skipif(not has_futex_waitv(), reason="needs futex_waitv (Linux 5.16)")


@pytest.fixture
def event_set(nvml: ctypes.CDLL) -> Iterator[EventSet]:
    made = EventSet(nvml)
    yield made
    made.free()


def test_xid_event_names_its_gpu_and_no_instance(machine: Machine, nvml: ctypes.CDLL, event_set: EventSet) -> None:
    event_set.register(2)

    machine.fail(2, xid=79)
    code, event = event_set.wait()

    assert (code, event.type, event.data) == (SUCCESS, XID, 79)
    assert event.device == device_of(nvml, 2).value
    assert (event.gpu_instance, event.compute_instance) == (NOWHERE, NOWHERE)


def test_each_event_comes_once(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)

    machine.fail(0, xid=13)
    machine.fail(0, xid=79)

    assert event_set.take() == [(XID, 13), (XID, 79)]
    assert event_set.take() == []


def test_two_sets_of_a_process_both_get_the_event(machine: Machine, nvml: ctypes.CDLL, event_set: EventSet) -> None:
    other = EventSet(nvml)
    event_set.register(1)
    other.register(1)

    machine.fail(1, xid=48)

    assert event_set.take() == other.take() == [(XID, 48)]
    other.free()


def test_set_gets_only_what_it_registered_for(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0, XID)
    event_set.register(1, DOUBLE_BIT)

    machine.fail(1, xid=1)
    machine.fail(2, xid=2)
    machine.set(1, "ecc_uncorrected", 1)
    machine.set(0, "ecc_uncorrected", 1)
    machine.fail(0, xid=3)

    assert event_set.take() == [(DOUBLE_BIT, 0), (XID, 3)]


def test_events_before_the_registration_are_not_recorded(machine: Machine, event_set: EventSet) -> None:
    machine.fail(0, xid=1)
    event_set.register(0, DOUBLE_BIT)
    machine.fail(0, xid=2)
    machine.set(0, "ecc_uncorrected", 1)
    event_set.register(0, XID)
    machine.fail(0, xid=3)

    assert event_set.take() == [(DOUBLE_BIT, 0), (XID, 3)]


def test_registering_again_keeps_what_already_waits(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)
    machine.fail(0, xid=1)

    event_set.register(0)

    assert event_set.take() == [(XID, 1)]


def test_figures_that_send_events(machine: Machine, event_set: EventSet) -> None:
    event_set.register(3, SINGLE_BIT | DOUBLE_BIT | PSTATE)

    machine.set(3, "ecc_corrected", 5)
    machine.set(3, "ecc_corrected", 5)
    machine.set(3, "performance_state", 2)
    machine.set(3, "temperature", 90)

    assert event_set.take() == [(SINGLE_BIT, 0), (PSTATE, 0)]


def test_supported_types_are_those_of_the_profile(nvml: ctypes.CDLL) -> None:
    types = ctypes.c_ulonglong()

    assert nvml.nvmlDeviceGetSupportedEventTypes(device_of(nvml, 0), ctypes.byref(types)) == SUCCESS

    assert types.value == 0xFF9F  # all that nvml.h has


@pytest.mark.parametrize(
    ("types", "code"),
    [
        pytest.param(CLOCK | XID, NOT_SUPPORTED, id="type this model does not send"),
        pytest.param(1 << 40, NOT_SUPPORTED, id="no type at all"),
        pytest.param(1 << 5, SUCCESS, id="a bit that real drivers accept and no event has"),
        pytest.param(0, SUCCESS, id="nothing"),
    ],
)
def test_registration_answers_as_driver_580(machine: Machine, event_set: EventSet, types: int, code: int) -> None:
    machine.set(0, "event_types", XID | PSTATE)

    assert event_set.register(0, types) == code

    machine.fail(0, xid=79)

    assert event_set.take() == []


def test_wait_without_timeout_returns_at_once(event_set: EventSet) -> None:
    took_s = []
    for _ in range(20):
        started = time.monotonic()
        assert event_set.wait(0)[0] == TIMEOUT
        took_s.append(time.monotonic() - started)

    # On a busy machine some of them do not run for longer.
    assert min(took_s) < 0.1


def test_wait_ends_at_its_timeout_even_when_other_events_wake_it(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)
    has_ended = threading.Event()

    def make_noise() -> None:
        while not has_ended.is_set():
            machine.fail(1, xid=1)

    noise = threading.Thread(target=make_noise, daemon=True)
    started = time.monotonic()

    # A wait that began again with each event would never end.
    noise.start()
    code, _ = event_set.wait(60)
    took_s = time.monotonic() - started
    has_ended.set()
    noise.join()

    assert code == TIMEOUT
    assert took_s >= 0.06


def test_wait_without_end_is_woken(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)
    seen: list[tuple[int, int]] = []
    ready = threading.Event()

    def wait() -> None:
        ready.set()
        code, event = event_set.wait(FOREVER_MS)
        seen.append((code, event.data))

    waiter = threading.Thread(target=wait)
    waiter.start()
    ready.wait(LIMIT_S)
    machine.fail(0, xid=94)
    waiter.join(LIMIT_S)

    assert seen == [(SUCCESS, 94)]


def while_asleep(event_set: EventSet, action: Callable[[], object]) -> int:
    """Runs the action once a thread sleeps in a wait without end; returns the code with which that wait ends."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(event_set.wait(FOREVER_MS)[0]), daemon=True)
    thread.start()
    call = Path(f"/proc/self/task/{thread.native_id}/syscall")
    eventually(lambda: call.read_text().startswith(f"{FUTEX_WAITV} "), lambda: "the wait does not sleep")
    action()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    return codes[0]


@needs_waitv
def test_freeing_a_set_ends_its_wait(event_set: EventSet) -> None:
    event_set.register(0)

    assert while_asleep(event_set, event_set.free) == INVALID_ARGUMENT


@needs_waitv
def test_last_shutdown_ends_every_wait(nvml: ctypes.CDLL, event_set: EventSet) -> None:
    event_set.register(0)

    assert while_asleep(event_set, nvml.nvmlShutdown) == UNINITIALIZED
    assert nvml.nvmlInit_v2() == SUCCESS


@needs_waitv
def test_waiter_of_a_freed_set_leaves_the_events_of_the_next_one(
    machine: Machine, nvml: ctypes.CDLL, event_set: EventSet
) -> None:
    event_set.register(0)
    again: list[EventSet] = []

    def free_make_and_post() -> None:
        event_set.free()
        again.append(EventSet(nvml))
        again[0].register(0)
        machine.fail(0, xid=79)

    assert while_asleep(event_set, free_make_and_post) == INVALID_ARGUMENT
    assert again[0].handle.value == event_set.handle.value, "the slot is used again"
    assert again[0].take() == [(XID, 79)]


@pytest.mark.parametrize("types", [0, XID | DOUBLE_BIT])
def test_event_of_no_type_or_several_is_refused(machine: Machine, event_set: EventSet, types: int) -> None:
    event_set.register(0, XID | DOUBLE_BIT)

    with pytest.raises(InputError, match="give one type"):
        machine._segment.post(0, types)

    assert event_set.take() == []


def test_event_of_a_type_beyond_nvml_reaches_nobody(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)

    machine._segment.post(0, 1 << 16)

    assert event_set.wait()[0] == TIMEOUT


def test_lost_gpu_ends_a_wait_once_and_others_continue(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)
    event_set.register(1)

    machine.fail(0, lost=True)
    machine.fail(1, xid=48)

    assert event_set.wait()[0] == GPU_IS_LOST
    assert event_set.take() == [(XID, 48)]


def test_loss_with_an_xid_is_reported_by_the_xid(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)

    machine.fail(0, xid=79, lost=True)

    assert event_set.take() == [(XID, 79)]
    assert machine.gpu(0).is_lost


def test_loss_of_a_gpu_that_is_not_watched_ends_no_wait(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)

    machine.fail(1, lost=True)

    assert event_set.wait()[0] == TIMEOUT


def test_freed_set_and_other_pointers_are_refused(nvml: ctypes.CDLL) -> None:
    event_set = EventSet(nvml)

    assert event_set.free() == SUCCESS
    assert event_set.free() == INVALID_ARGUMENT
    assert event_set.wait()[0] == INVALID_ARGUMENT
    assert event_set.register(0) == INVALID_ARGUMENT


def test_sets_can_be_made_and_freed_without_end(machine: Machine, nvml: ctypes.CDLL) -> None:
    for _ in range(3000):
        event_set = EventSet(nvml)
        event_set.register(0)
        event_set.free()

    event_set = EventSet(nvml)
    machine.fail(0, xid=1)

    assert event_set.take() == [], "a set that was used before starts with nothing registered"
    event_set.free()


def test_slow_set_loses_the_oldest_events_and_continues(machine: Machine, event_set: EventSet) -> None:
    event_set.register(0)

    for number in range(1, 1101):
        machine.fail(0, xid=number)

    assert [data for _, data in event_set.take()] == list(range(77, 1101))


def test_first_version_of_the_wait_writes_no_further_than_its_struct(machine: Machine, nvml: ctypes.CDLL) -> None:
    event_set = EventSet(nvml)
    event_set.register(0)
    machine.fail(0, xid=79)
    event = EventData(gpu_instance=7, compute_instance=8)

    assert nvml.nvmlEventSetWait(event_set.handle, ctypes.byref(event), 0) == SUCCESS

    assert (event.data, event.gpu_instance, event.compute_instance) == (79, 7, 8)
    event_set.free()


def test_fail_refuses_what_is_no_failure(machine: Machine) -> None:
    for arguments in ({}, {"xid": 0}, {"xid": -79}, {"xid": 1 << 40}):
        with pytest.raises(InputError):
            machine.fail(0, **arguments)  # type: ignore[arg-type]
