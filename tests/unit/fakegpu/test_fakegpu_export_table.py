"""The table of undeclared functions that NVIDIA's own nvidia-smi asks for."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

import pytest

from fakegpu import Machine

UNINITIALIZED, INVALID_ARGUMENT, INSUFFICIENT_SIZE = 1, 2, 7
COMMON_ANCESTOR, IS_SUPPORTED, BUS_ID, ENFORCED_POWER_LIMIT = 0xB8, 0x240, 0x288, 0x360
COMPUTE_PROCESSES, MPS_PROCESSES, GRAPHICS_PROCESSES, TEMPERATURE_LIMIT = 0x6A8, 0x6B0, 0x6B8, 0x780
ENTRY_BYTES = 0x1020
SAME_SWITCH, NODE, SYSTEM = 0, 3, 4


class Table:
    def __init__(self, library: ctypes.CDLL) -> None:
        place = ctypes.c_void_p()
        assert library.nvmlInternalGetExportTable(ctypes.byref(place), b"\0" * 16) == 0
        assert place.value is not None
        self.words = ctypes.cast(place, ctypes.POINTER(ctypes.c_uint64))
        self.size_bytes = self.words[0]

    def pointers(self) -> dict[int, int]:
        words = {offset: self.words[offset // 8] for offset in range(8, self.size_bytes, 8)}
        return {offset: pointer for offset, pointer in words.items() if pointer}

    def __getitem__(self, offset: int) -> Callable[..., int]:
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(self.words[offset // 8])


@pytest.fixture
def table(nvml: ctypes.CDLL) -> Table:
    return Table(nvml)


def handle_of(nvml: ctypes.CDLL, gpu: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle)) == 0
    return handle


def test_table_is_larger_than_what_is_asked_for(table: Table) -> None:
    assert table.size_bytes == 8192
    assert 0 < len(table.pointers()) < 20


def test_missing_place_is_refused(nvml: ctypes.CDLL) -> None:
    place = ctypes.c_void_p()

    assert nvml.nvmlInternalGetExportTable(None, b"\0" * 16) == INVALID_ARGUMENT
    assert nvml.nvmlInternalGetExportTable(ctypes.byref(place), None) == INVALID_ARGUMENT
    assert place.value is None


def test_every_function_refuses_nothing_and_garbage(table: Table, machine: Machine) -> None:
    for offset in table.pointers():
        assert table[offset](None, None, None, None) == INVALID_ARGUMENT, hex(offset)
        if offset != COMMON_ANCESTOR:
            assert table[offset](0x1234, None, None, None) == INVALID_ARGUMENT, hex(offset)


def test_every_function_needs_a_session(machine: Machine) -> None:
    library = ctypes.CDLL(str(machine.library))
    table = Table(library)
    room = ctypes.create_string_buffer(2 * ENTRY_BYTES)

    for offset in table.pointers():
        assert table[offset](room, room, room, room) == UNINITIALIZED, hex(offset)


@pytest.mark.parametrize(
    ("bus_id", "other", "expected"),
    [
        ("00000000:1B:00.0", "00000000:43:00.0", NODE),
        ("00000000:1B:00.0", "00000000:1B:00.0", SAME_SWITCH),
        ("00000000:1B:00.0", "0000:ff:00.0", SYSTEM),
    ],
)
def test_distance_of_two_functions(table: Table, bus_id: str, other: str, expected: int) -> None:
    steps = ctypes.c_uint(99)

    assert table[COMMON_ANCESTOR](bus_id.encode(), other.encode(), ctypes.addressof(steps), None) == 0

    assert steps.value == expected


def test_too_small_an_array_of_processes_stays_untouched(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    machine.enter_process(0, os.getpid(), 1 << 30)
    count, room = ctypes.c_uint(0), ctypes.create_string_buffer(b"\x55" * ENTRY_BYTES, ENTRY_BYTES)

    code = table[COMPUTE_PROCESSES](handle_of(nvml, 0), ctypes.addressof(count), ctypes.addressof(room), None)

    assert code == INSUFFICIENT_SIZE
    assert room.raw == b"\x55" * ENTRY_BYTES


def test_process_has_number_memory_and_name(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    machine.enter_process(0, os.getpid(), 1 << 30)
    count, room = ctypes.c_uint(2), ctypes.create_string_buffer(b"\x55" * 2 * ENTRY_BYTES, 2 * ENTRY_BYTES)

    code = table[COMPUTE_PROCESSES](handle_of(nvml, 0), ctypes.addressof(count), ctypes.addressof(room), None)

    assert (code, count.value) == (0, 1)
    assert int.from_bytes(room.raw[:4], "little") == os.getpid()
    assert int.from_bytes(room.raw[8:16], "little") == 1 << 30
    assert room.raw[32:].partition(b"\0")[0]
    assert room.raw[ENTRY_BYTES:] == b"\x55" * ENTRY_BYTES


def test_mig_device_has_its_own_processes(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    machine.mig(0).create("1g.10gb", "1g.10gb")
    first, second = machine.mig(0).devices
    machine.enter_process(first.uuid, os.getpid(), 1 << 30)
    machine.enter_process(second.uuid, os.getppid(), 1 << 30)
    device, count, room = ctypes.c_void_p(), ctypes.c_uint(2), ctypes.create_string_buffer(2 * ENTRY_BYTES)
    nvml.nvmlDeviceGetHandleByUUID(second.uuid.encode(), ctypes.byref(device))

    code = table[COMPUTE_PROCESSES](device, ctypes.addressof(count), ctypes.addressof(room), None)

    assert (code, count.value) == (0, 1)
    assert int.from_bytes(room.raw[:4], "little") == os.getppid()
    assert int.from_bytes(room.raw[16:20], "little") == second.gpu_instance
    assert int.from_bytes(room.raw[20:24], "little") == 0


def test_process_under_mps_is_in_two_lists(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    machine.enter_process(0, os.getpid(), kind="mps")

    def count_in(offset: int) -> int:
        count, room = ctypes.c_uint(2), ctypes.create_string_buffer(2 * ENTRY_BYTES)
        assert table[offset](handle_of(nvml, 0), ctypes.addressof(count), ctypes.addressof(room), None) == 0
        return count.value

    assert [count_in(offset) for offset in (COMPUTE_PROCESSES, MPS_PROCESSES, GRAPHICS_PROCESSES)] == [1, 1, 0]


def test_lost_gpu_has_its_address(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    machine.fail(1, lost=True)
    text = ctypes.create_string_buffer(b"\x55" * 34, 34)

    assert table[BUS_ID](1, ctypes.addressof(text), 34, None) == 0
    assert text.value == machine.gpu(1).pci_bus_id[4:].encode()
    assert table[BUS_ID](1, ctypes.addressof(text), 4, None) == INSUFFICIENT_SIZE
    assert table[BUS_ID](4, ctypes.addressof(text), 34, None) == INVALID_ARGUMENT


def test_enforced_limit_is_the_published_functions(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    limit_mw = ctypes.c_uint()
    machine.set(0, "power_limit", 512_000)

    assert table[ENFORCED_POWER_LIMIT](handle_of(nvml, 0), ctypes.addressof(limit_mw), None, None) == 0

    assert limit_mw.value == 512_000


def test_margin_is_the_published_functions(table: Table, nvml: ctypes.CDLL, machine: Machine) -> None:
    margin = ctypes.c_int()
    machine.set(0, "temperature", 50)

    assert table[TEMPERATURE_LIMIT](handle_of(nvml, 0), ctypes.addressof(margin), None, None) == 0

    assert margin.value == 37
