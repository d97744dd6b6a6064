"""Partitioned GPUs: for their owner, and as NVML shows them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from fakegpu.state.library import load_writer

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, IN_USE, NO_ROOM = 0, 2, 3, 6, 19, 23
MIG_CONFIG_CHANGE = 0x100
NOWHERE = 0xFFFFFFFF
DEFAULT, EXCLUSIVE = 0, 3
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator partitions GPUs through NVML")


class GpuInstanceInfo(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("id", ctypes.c_uint),
        ("profile", ctypes.c_uint),
        ("start", ctypes.c_uint),
        ("size", ctypes.c_uint),
    ]


class Placement(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def device_of(nvml: ctypes.CDLL, gpu: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == SUCCESS
    return device


def mig_device_of(nvml: ctypes.CDLL, gpu: int, index: int) -> ctypes.c_void_p:
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(device_of(nvml, gpu), index, ctypes.byref(device)) == SUCCESS
    return device


def text_of(function: Callable[..., int], device: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(96)
    assert function(device, buffer, 96) == SUCCESS
    return buffer.value.decode()


def number_of(function: Callable[..., int], *arguments: object) -> tuple[int, int]:
    number = ctypes.c_uint(0)
    return function(*arguments, ctypes.byref(number)), number.value


def test_several_instances_are_made_or_none(machine: Machine) -> None:
    with pytest.raises(InputError, match=r"no room for 4g\.40gb"):
        machine.mig(0).create("3g.40gb", "3g.40gb", "4g.40gb")

    assert machine.mig(0).instances == ()
    assert machine.mig(0).mode == (False, False)


def test_profile_is_found_by_name_and_id(machine: Machine) -> None:
    made = machine.mig(0).create("MIG 1g.10gb", 9, "19")

    assert [(instance.profile, instance.profile_id) for instance in made] == [
        ("3g.40gb", 9),
        ("1g.10gb", 19),
        ("1g.10gb", 19),
    ]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        pytest.param(lambda mig: mig.create("5g.50gb"), r"no MIG profile '5g.50gb': it has 1g.10gb, ", id="profile"),
        pytest.param(lambda mig: mig.create("3g.40gb", start=2), "cannot start at memory slice 2: .* 0, 4", id="start"),
        pytest.param(lambda mig: mig.create("1g.10gb", "1g.10gb", start=0), "a start goes with one", id="two starts"),
        pytest.param(lambda mig: mig.destroy(3), "no GPU instance 3: it has 1", id="instance"),
        pytest.param(lambda mig: mig.create_compute(1, 4), "has 4 slices: .* room|no room", id="full"),
        pytest.param(lambda mig: mig.create_compute(1, 3), "4 slices: no compute instance of 3", id="compute profile"),
        pytest.param(lambda mig: mig.destroy_compute(1, 5), "no compute instance 5", id="compute instance"),
        pytest.param(lambda mig: mig.use_memory(1, 1 << 60), "has 42412802048 bytes", id="memory"),
        pytest.param(lambda mig: mig.set_mode(False), "has GPU instances: destroy them", id="mode in use"),
    ],
)
def test_mistakes_are_one_line(machine: Machine, action: Callable[..., object], message: str) -> None:
    machine.mig(0).create("4g.40gb")

    with pytest.raises(InputError, match=message):
        action(machine.mig(0))


def test_compute_instance_wider_than_its_gpu_instance_has_no_room(machine: Machine) -> None:
    (small,) = machine.mig(0).create("1g.10gb", compute=False)
    state = machine._segment.read(0)
    four_slices, anywhere = 3, 2**32 - 1

    code = load_writer().fakegpu_mig_create_compute(
        ctypes.byref(state), small.id, four_slices, anywhere, ctypes.byref(ctypes.c_uint32())
    )

    assert code == NO_ROOM


def test_model_without_mig_refuses(tmp_path: Path) -> None:
    t4 = Machine.create(tmp_path / "t4", "t4", 1)

    with pytest.raises(InputError, match="Tesla T4 has no MIG"):
        t4.mig(0).create("1g.10gb")
    assert not t4.has_mig(0)


def test_pending_mode_waits_for_the_reset_that_takes_instances_away(machine: Machine, nvml: ctypes.CDLL) -> None:
    mig = machine.mig(0)
    current, pending = ctypes.c_uint(), ctypes.c_uint()

    mig.set_mode(True, pending=True)
    nvml.nvmlDeviceGetMigMode(device_of(nvml, 0), ctypes.byref(current), ctypes.byref(pending))
    assert (current.value, pending.value) == (0, 1)
    mig.reset()
    assert mig.mode == (True, True)
    mig.create("1g.10gb")
    mig.set_mode(False, pending=True)
    assert len(mig.devices) == 1
    mig.reset()

    assert mig.mode == (False, False)
    assert mig.instances == ()


def test_mig_devices_in_nvml(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.mig(1).create("3g.40gb", "1g.10gb")
    parent = device_of(nvml, 1)
    devices = machine.mig(1).devices

    assert number_of(nvml.nvmlDeviceGetMaxMigDeviceCount, parent) == (SUCCESS, 7)
    assert [device.name for device in devices] == ["3g.40gb", "1g.10gb"]
    for device in devices:
        handle, again, whole, memory = (
            mig_device_of(nvml, 1, device.index),
            ctypes.c_void_p(),
            ctypes.c_void_p(),
            Memory(),
        )
        assert text_of(nvml.nvmlDeviceGetName, handle) == f"NVIDIA H100 80GB HBM3 MIG {device.name}"
        assert text_of(nvml.nvmlDeviceGetUUID, handle) == device.uuid
        assert number_of(nvml.nvmlDeviceGetIndex, handle) == (SUCCESS, device.index)
        assert number_of(nvml.nvmlDeviceGetGpuInstanceId, handle) == (SUCCESS, device.gpu_instance)
        assert number_of(nvml.nvmlDeviceGetComputeInstanceId, handle) == (SUCCESS, 0)
        assert number_of(nvml.nvmlDeviceIsMigDeviceHandle, handle) == (SUCCESS, 1)
        assert nvml.nvmlDeviceGetHandleByUUID(device.uuid.encode(), ctypes.byref(again)) == SUCCESS
        assert nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle, ctypes.byref(whole)) == SUCCESS
        assert (again.value, whole.value) == (handle.value, parent.value)
        machine.mig(1).use_memory(device.gpu_instance, 1 << 30)
        assert nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == SUCCESS
        assert (memory.total, memory.used) == (device.memory_bytes, 1 << 30)
    assert number_of(nvml.nvmlDeviceIsMigDeviceHandle, parent) == (SUCCESS, 0)


@pytest.mark.parametrize(
    ("model", "profile", "bar1_mib"),
    [
        ("a100-40gb", "1g.5gb", 8191),
        ("a100-40gb", "2g.10gb", 16383),
        ("a100-40gb", "7g.40gb", 65535),
        ("a100-80gb", "3g.40gb", 65535),
        ("h100-80gb", "1g.10gb", 16383),
        ("h100-80gb", "2g.20gb", 32767),
        ("h200", "2g.35gb", 65535),
        ("a30", "1g.6gb", 8191),
        ("a30", "2g.12gb", 16383),
    ],
)
def test_bar1_of_a_mig_device_is_as_in_public_reports(tmp_path: Path, model: str, profile: str, bar1_mib: int) -> None:
    machine = Machine.create(tmp_path / model, model, 1)
    machine.mig(0).create(profile)
    nvml, window = ctypes.CDLL(str(machine.library)), Memory()
    assert nvml.nvmlInit_v2() == SUCCESS

    code = nvml.nvmlDeviceGetBAR1MemoryInfo(mig_device_of(nvml, 0, 0), ctypes.byref(window))

    assert (code, window.total, window.free, window.used) == (SUCCESS, bar1_mib << 20, bar1_mib << 20, 0)


def test_gpu_in_mig_mode_tells_no_utilization(machine: Machine, nvml: ctypes.CDLL) -> None:
    rates, two = (ctypes.c_uint * 2)(), (ctypes.c_uint * 2)()
    assert nvml.nvmlDeviceGetUtilizationRates(device_of(nvml, 0), rates) == SUCCESS

    machine.mig(0).set_mode(True)

    assert nvml.nvmlDeviceGetUtilizationRates(device_of(nvml, 0), rates) == NOT_SUPPORTED
    engine = ctypes.byref(two, 0), ctypes.byref(two, 4)
    assert nvml.nvmlDeviceGetEncoderUtilization(device_of(nvml, 0), *engine) == NOT_SUPPORTED


def test_gpu_in_mig_mode_has_the_default_compute_mode(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.set(0, "compute_mode", EXCLUSIVE)
    assert number_of(nvml.nvmlDeviceGetComputeMode, device_of(nvml, 0)) == (SUCCESS, EXCLUSIVE)

    machine.mig(0).create("1g.10gb")

    assert number_of(nvml.nvmlDeviceGetComputeMode, device_of(nvml, 0)) == (SUCCESS, DEFAULT)
    assert number_of(nvml.nvmlDeviceGetComputeMode, mig_device_of(nvml, 0, 0)) == (SUCCESS, DEFAULT)
    assert nvml.nvmlDeviceSetComputeMode(device_of(nvml, 0), EXCLUSIVE) == NOT_SUPPORTED


@needs_root
def test_all_that_fits_is_free_while_mig_is_off(machine: Machine, nvml: ctypes.CDLL) -> None:
    free = [
        number_of(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, device_of(nvml, 0), profile.id)
        for profile in machine.mig(0).profiles
    ]

    assert free == [(SUCCESS, profile.instances) for profile in machine.mig(0).profiles]


def test_handle_of_a_mig_device_dies_with_it(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.mig(0).create("1g.10gb")
    handle = mig_device_of(nvml, 0, 0)
    assert number_of(nvml.nvmlDeviceGetTemperature, handle, 0)[0] == NOT_SUPPORTED

    machine.mig(0).clear()

    assert number_of(nvml.nvmlDeviceGetTemperature, handle, 0)[0] == INVALID_ARGUMENT
    assert number_of(nvml.nvmlDeviceGetGpuInstanceId, handle)[0] == INVALID_ARGUMENT
    found = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(device_of(nvml, 0), 0, ctypes.byref(found)) == NOT_FOUND
    assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(device_of(nvml, 0), 7, ctypes.byref(found)) == INVALID_ARGUMENT


def test_uuid_is_the_same_when_the_device_is_made_again(machine: Machine) -> None:
    mig = machine.mig(0)
    mig.create("1g.10gb")
    before = mig.devices[0].uuid

    mig.clear()
    mig.create("1g.10gb", "1g.10gb")

    assert before in {device.uuid for device in mig.devices}
    assert len({device.uuid for gpu in range(4) for device in machine.mig(gpu).devices}) == 2


def test_compute_instances_share_a_gpu_instance(machine: Machine) -> None:
    mig = machine.mig(0)
    (instance,) = mig.create("4g.40gb", compute=False)
    assert mig.devices == ()

    one = mig.create_compute(instance.id, 1)
    other = mig.create_compute(instance.id, 2, start=2)

    assert (one.id, one.start, other.id, other.start) == (0, 0, 1, 2)
    assert [device.name for device in mig.devices] == ["1c.4g.40gb", "2c.4g.40gb"]
    mig.destroy_compute(instance.id, 0)
    assert [(device.index, device.compute_instance) for device in mig.devices] == [(0, 1)]
    mig.destroy(instance.id)
    assert mig.instances == ()


def test_processes_count_as_memory_of_their_instance(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.mig(0).create("1g.10gb", "1g.10gb")
    first, second = machine.mig(0).devices
    machine.enter_process(0, os.getpid(), 3 << 30)
    with machine._segment.change(0) as state:
        state.processes.entries[0].gpu_instance = second.gpu_instance
        state.processes.entries[0].compute_instance = second.compute_instance
    used = []
    for device in (first, second):
        memory = Memory()
        assert nvml.nvmlDeviceGetMemoryInfo(mig_device_of(nvml, 0, device.index), ctypes.byref(memory)) == SUCCESS
        used.append(memory.used)
    counts = [ctypes.c_uint(), ctypes.c_uint()]
    for index, count in enumerate(counts):
        nvml.nvmlDeviceGetComputeRunningProcesses_v3(mig_device_of(nvml, 0, index), ctypes.byref(count), None)

    assert used == [0, 3 << 30]
    assert [count.value for count in counts] == [0, 1]


@needs_root
def test_life_of_instances_through_nvml(machine: Machine, nvml: ctypes.CDLL) -> None:
    device, activation = device_of(nvml, 0), ctypes.c_int(-1)
    instance, compute, info = ctypes.c_void_p(), ctypes.c_void_p(), GpuInstanceInfo()

    assert nvml.nvmlDeviceCreateGpuInstance(device, 9, ctypes.byref(instance)) == NOT_SUPPORTED, "the mode is off"
    assert nvml.nvmlDeviceSetMigMode(device, 1, ctypes.byref(activation)) == SUCCESS
    assert activation.value == SUCCESS
    assert nvml.nvmlDeviceCreateGpuInstance(device, 9, ctypes.byref(instance)) == SUCCESS
    assert nvml.nvmlGpuInstanceGetInfo(instance, ctypes.byref(info)) == SUCCESS
    assert (info.device, info.id, info.profile, info.start, info.size) == (device.value, 2, 9, 4, 4)
    assert nvml.nvmlGpuInstanceCreateComputeInstance(instance, 2, ctypes.byref(compute)) == SUCCESS
    assert nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0, ctypes.byref(compute)) == NO_ROOM
    assert nvml.nvmlGpuInstanceDestroy(instance) == IN_USE, "it has a compute instance"
    assert nvml.nvmlDeviceSetMigMode(device, 0, ctypes.byref(activation)) == SUCCESS
    assert activation.value == IN_USE
    assert machine.mig(0).mode == (True, False)
    assert nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0, ctypes.byref(compute)) == SUCCESS
    assert nvml.nvmlComputeInstanceDestroy(compute) == SUCCESS
    assert nvml.nvmlComputeInstanceDestroy(compute) == INVALID_ARGUMENT
    assert nvml.nvmlGpuInstanceDestroy(instance) == SUCCESS
    assert nvml.nvmlGpuInstanceDestroy(instance) == INVALID_ARGUMENT
    assert machine.mig(0).instances == ()


@needs_root
def test_instance_in_use_by_a_process_stays(machine: Machine, nvml: ctypes.CDLL) -> None:
    machine.mig(0).create("1g.10gb", compute=False)
    machine.enter_process(0, os.getpid())
    with machine._segment.change(0) as state:
        state.processes.entries[0].gpu_instance = 13
    instance = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetGpuInstanceById(device_of(nvml, 0), 13, ctypes.byref(instance)) == SUCCESS

    assert nvml.nvmlGpuInstanceDestroy(instance) == IN_USE

    machine.strike_process(0, os.getpid())
    assert nvml.nvmlGpuInstanceDestroy(instance) == SUCCESS


@needs_root
def test_placements_and_capacity_in_nvml(machine: Machine, nvml: ctypes.CDLL) -> None:
    device, count = device_of(nvml, 0), ctypes.c_uint()
    placements, instance = (Placement * 8)(), ctypes.c_void_p()
    machine.mig(0).set_mode(True)

    assert nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, 14, placements, ctypes.byref(count)) == SUCCESS
    assert [(place.start, place.size) for place in placements[: count.value]] == [(0, 2), (2, 2), (4, 2)]
    place = Placement(2, 2)
    create = nvml.nvmlDeviceCreateGpuInstanceWithPlacement
    assert create(device, 14, ctypes.byref(place), ctypes.byref(instance)) == SUCCESS
    assert create(device, 14, ctypes.byref(place), ctypes.byref(instance)) == NO_ROOM
    assert create(device, 14, ctypes.byref(Placement(1, 2)), ctypes.byref(instance)) == INVALID_ARGUMENT
    assert create(device, 99, ctypes.byref(place), ctypes.byref(instance)) == INVALID_ARGUMENT
    capacities = {
        profile.id: number_of(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, device, profile.id)
        for profile in machine.mig(0).profiles
    }
    assert capacities == {
        19: (SUCCESS, 5),
        20: (SUCCESS, 1),
        15: (SUCCESS, 3),
        14: (SUCCESS, 2),
        9: (SUCCESS, 1),
        5: (SUCCESS, 0),
        0: (SUCCESS, 0),
    }
    assert number_of(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, device, 99)[0] == INVALID_ARGUMENT


def test_changes_are_events(machine: Machine, nvml: ctypes.CDLL) -> None:
    from .test_fakegpu_events import EventSet

    events = EventSet(nvml)
    events.register(0, MIG_CONFIG_CHANGE)
    machine.mig(0).set_mode(True)
    machine.mig(0).create("3g.40gb", "1g.10gb")
    machine.mig(0).destroy(7)

    seen = []
    while (taken := events.wait())[0] == SUCCESS:
        seen.append((taken[1].type, taken[1].gpu_instance))
    events.free()

    assert seen == [(MIG_CONFIG_CHANGE, instance) for instance in (NOWHERE, 2, 7, 7)]
