"""A change of state as running processes see it: at once, as a whole, whatever happens to the writer."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from pathlib import Path
from uuid import UUID

import pytest

from fakegpu import InputError, Machine
from fakegpu.machine.settings import SETTINGS
from fakegpu.state import layout
from fakegpu.state.library import compiled_layout, declared_layout, find_library, load_writer
from fakegpu.state.mapping import Mapping

GPU_IS_LOST, NOT_FOUND = 15, 6


def device_of(nvml: ctypes.CDLL, gpu: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == 0
    return device


def temperature(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> tuple[int, int]:
    value = ctypes.c_uint()
    return nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value)), value.value


def test_setting_is_seen_by_the_next_getter(machine: Machine, nvml: ctypes.CDLL) -> None:
    device = device_of(nvml, 3)
    assert temperature(nvml, device) == (0, 29)

    machine.set(3, "temperature", 91)

    assert temperature(nvml, device) == (0, 91)
    assert machine.gpu(3).temperature_c == 91
    assert machine.gpu(2).temperature_c == 29


def test_lost_gpu_is_counted_keeps_its_name_and_gives_no_handle(machine: Machine, nvml: ctypes.CDLL) -> None:
    device = device_of(nvml, 2)
    machine.fail(2, lost=True)
    count, minor, found = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_void_p()
    uuid = ctypes.create_string_buffer(96)

    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == 4
    assert temperature(nvml, device)[0] == GPU_IS_LOST
    assert nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(found)) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetHandleByUUID(machine.gpu(2).uuid.encode(), ctypes.byref(found)) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetMinorNumber(device, ctypes.byref(minor)) == 0
    assert nvml.nvmlDeviceGetUUID(device, uuid, 96) == 0
    assert (minor.value, uuid.value.decode()) == (2, machine.gpu(2).uuid)


def test_heal_puts_back_and_forgets(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.fail(0, xid=79, lost=True)
    assert (machine.gpu(0).health, machine.gpu(0).last_xid, machine.gpu(0).is_lost) == ("lost, xid 79", 79, True)

    machine.heal(0)

    assert (machine.gpu(0).health, machine.gpu(0).last_xid, machine.gpu(0).is_lost) == ("ok", None, False)
    assert temperature(nvml, device_of(nvml, 0)) == (0, 29)


def test_read_that_a_write_overtakes_is_done_again() -> None:
    header, record = ctypes.sizeof(layout.Header), ctypes.sizeof(layout.GpuRecord)
    memory = (ctypes.c_char * (header + record))()
    layout.Header.from_buffer(memory).gpu_count = 1
    gpu = layout.GpuRecord.from_buffer(memory, header)
    for number, state in enumerate(gpu.states):
        state.power.energy_mj = number
        state.load.started_ns = 1
    # The copy's last word lands on the sequence, as if a writer had put the other state in force meanwhile.
    copy = layout.GpuState.from_buffer(memory, header + 8 - ctypes.sizeof(layout.GpuState))

    load_writer().fakegpu_add_mapping(ctypes.addressof(memory), 1)
    code = load_writer().fakegpu_read_state(ctypes.addressof(memory), 0, ctypes.byref(copy))
    load_writer().fakegpu_remove_mapping(ctypes.addressof(memory))

    assert code == 0
    assert gpu.sequence == 1
    assert copy.power.energy_mj == 1


def test_writer_that_dies_half_way_leaves_readers_and_writers_working(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.set(1, "temperature", 77)
    offset = ctypes.sizeof(layout.Header) + ctypes.sizeof(layout.GpuRecord)
    with (machine.directory / "segment").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        record = layout.GpuRecord.from_buffer_copy(memory, offset)
        spare = 1 - record.sequence % 2
        start = offset + layout.GpuRecord.states.offset + spare * ctypes.sizeof(layout.GpuState)
        memory[start : start + 500] = b"\xff" * 500

    assert temperature(nvml, device_of(nvml, 1)) == (0, 77)
    machine.set(1, "power_usage", 5)
    assert temperature(nvml, device_of(nvml, 1)) == (0, 77)
    assert machine.gpu(1).name == "NVIDIA H100 80GB HBM3"


def test_two_machines_in_one_process_do_not_mix(machine: Machine, nvml: ctypes.CDLL, tmp_path: Path) -> None:
    other = Machine.create(tmp_path / "other", "t4", 2)
    other_nvml = ctypes.CDLL(str(other.library))
    assert other_nvml.nvmlInit_v2() == 0

    other.set(1, "temperature", 60)

    assert temperature(other_nvml, device_of(other_nvml, 1)) == (0, 60)
    assert temperature(nvml, device_of(nvml, 1)) == (0, 29)
    other_nvml.nvmlShutdown()
    other.destroy()


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_takes_both_ends_of_its_range_or_says_why_not(tmp_path: Path, key: str) -> None:
    machine = Machine.create(tmp_path / "node", "gb200", 1)
    setting = SETTINGS[key]

    machine.set(0, key, setting.low)
    if key == "memory_used":
        with pytest.raises(InputError, match="bytes for allocations"):
            machine.set(0, key, setting.high)
    else:
        machine.set(0, key, setting.high)
    with pytest.raises(InputError, match="out of range"):
        machine.set(0, key, setting.high + 1)


def test_refused_value_changes_none_of_several(machine: Machine) -> None:
    with pytest.raises(InputError):
        machine.set_many(0, {"temperature": 90, "memory_used": "1000GiB"})

    assert machine.gpu(0).temperature_c == 29


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fabric_clique", "1", "Tesla T4 registers with no NVLink fabric"),
        ("fabric_cluster", str(UUID(int=1)), "Tesla T4 registers with no NVLink fabric"),
        ("module_power_usage", "100000", "Tesla T4 reports no power of a module of GPU and CPU"),
        ("module_power_limit", "100000", "Tesla T4 reports no power of a module of GPU and CPU"),
    ],
)
def test_setting_of_what_the_board_has_not_is_refused(tmp_path: Path, key: str, value: str, message: str) -> None:
    machine = Machine.create(tmp_path / "node", "t4", 1)

    with pytest.raises(InputError, match=message):
        machine.set(0, key, value)


def test_text_that_is_not_a_uuid_is_refused(machine: Machine) -> None:
    with pytest.raises(
        InputError, match=r"^fabric_cluster=rack-7: not a UUID, such as .* \(UUID of the NVLink fabric's"
    ):
        machine.set(0, "fabric_cluster", "rack-7")


def test_memory_temperature_needs_a_sensor(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "t4", 1)

    with pytest.raises(InputError, match="Tesla T4 has no memory sensor"):
        machine.set(0, "memory_temperature", 50)


def test_numa_node_changes_in_sysfs_too(machine: Machine) -> None:
    machine.set(3, "numa_node", 1)

    gpu = machine.gpu(3)
    assert gpu.numa_node == 1
    folder = machine.sys / "bus/pci/devices" / gpu.sysfs_name
    assert (folder / "numa_node").read_text() == "1\n"
    assert (folder / "numa_node").stat().st_mode & 0o777 == 0o644
    assert not list(folder.glob(".*"))


def test_layout_matches_library() -> None:
    assert compiled_layout(ctypes.CDLL(str(find_library()))) == declared_layout()


def test_mapping_that_a_signal_interrupts_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What went wrong later would be printed as a traceback."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    later: list[object] = []
    monkeypatch.setattr("fakegpu.state.mapping.load_writer", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", later.append)

    with pytest.raises(KeyboardInterrupt):
        Mapping(mmap.mmap(-1, mmap.PAGESIZE), 1)

    gc.collect()
    assert later == []
