"""Partitioned GPUs: NVIDIA's tables, what fits where, and MIG devices as NVML shows them."""

from __future__ import annotations

import ctypes
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fakegpu import InputError, Machine
from fakegpu.mig_parts import MigProfile
from fakegpu.mig_profiles import mig_tables

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, IN_USE, NO_ROOM = 0, 2, 3, 4, 6, 19, 23
MIG_CONFIG_CHANGE = 0x100
NOWHERE = 0xFFFFFFFF

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


@pytest.fixture
def a100(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "a100", "a100-40gb", 1, seed="test")
    yield made
    made.close()


# The placements that nvidia-smi mig -lgipp prints on every seven-slice GPU, by profile id.
SEVEN_SLICES = {
    19: ({0, 1, 2, 3, 4, 5, 6}, 1),
    20: ({0, 1, 2, 3, 4, 5, 6}, 1),
    15: ({0, 2, 4, 6}, 2),
    14: ({0, 2, 4}, 2),
    9: ({0, 4}, 4),
    5: ({0}, 4),
    0: ({0}, 8),
}
FOUR_SLICES = {14: ({0, 1, 2, 3}, 1), 21: ({0, 1, 2, 3}, 1), 5: ({0, 2}, 2), 6: ({0, 2}, 2), 0: ({0}, 4)}


@pytest.mark.parametrize("name", mig_tables())
def test_placements_are_nvidias(name: str) -> None:
    table = mig_tables()[name]

    placements = {figures.id: (set(figures.starts), figures.size) for figures in table.profiles.values()}

    assert placements == (FOUR_SLICES if name == "a30" else SEVEN_SLICES)


@pytest.mark.parametrize("name", mig_tables())
def test_profile_holds_no_more_than_the_gpu(name: str) -> None:
    table = mig_tables()[name]
    whole = max(table.profiles.values(), key=lambda figures: figures.multiprocessors)

    for profile_name, figures in table.profiles.items():
        slices = int(profile_name[0])
        assert figures.multiprocessors * figures.instances <= whole.multiprocessors or figures is whole
        assert figures.memory_mib * table.memory_slices // figures.size <= whole.memory_mib * 1.03
        assert figures.instances <= table.compute_slices // slices


# What the user guide shows as the ways to cut an A100, by compute slices from the left.
CONFIGURATIONS = (
    *("7", "43", "421", "4111", "33", "321", "3111", "223", "2113", "1123", "11113"),
    *("2221", "21121", "11221", "211111", "112111", "111121", "1111111"),
)
WIDTHS = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
NAMES = {1: "1g.5gb", 2: "2g.10gb", 3: "3g.20gb", 4: "4g.20gb", 7: "7g.40gb"}


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_every_configuration_of_the_user_guide_can_be_made(a100: Machine, configuration: str) -> None:
    slices = [int(digit) for digit in configuration]
    starts = [0, *itertools.accumulate(WIDTHS[number] for number in slices)]

    for number, start in zip(slices, starts, strict=False):
        a100.mig(0).create(NAMES[number], start=start)

    assert [instance.start for instance in sorted(a100.mig(0).instances, key=lambda each: each.start)] == starts[:-1]
    assert len(a100.mig(0).devices) == len(slices)


@pytest.mark.parametrize(
    ("profiles", "ids"),
    [
        pytest.param(["1g.5gb"] * 7, [13, 11, 12, 7, 8, 9, 10], id="seven of the smallest"),
        pytest.param(["3g.20gb", "3g.20gb"], [2, 1], id="two halves"),
        pytest.param(["1g.5gb", "2g.10gb", "4g.20gb"], [13, 5, 1], id="small to large"),
        pytest.param(["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"], [2, 3, 9, 10], id="all-balanced of mig-parted"),
        pytest.param(["7g.40gb"], [0], id="the whole"),
    ],
)
def test_driver_chooses_places_and_ids_as_nvidia_smi_shows_them(
    a100: Machine, profiles: list[str], ids: list[int]
) -> None:
    made = [a100.mig(0).create(profile)[0].id for profile in profiles]

    assert made == ids


def test_a30_counts_its_instances_from_three(tmp_path: Path) -> None:
    a30 = Machine.create(tmp_path / "a30", "a30", 1)

    made = a30.mig(0).create(*["1g.6gb"] * 4)

    assert [instance.id for instance in made] == [3, 4, 5, 6]


def test_media_extensions_are_there_once(tmp_path: Path) -> None:
    a30 = Machine.create(tmp_path / "a30", "a30", 1)
    a30.mig(0).create("1g.6gb+me")

    with pytest.raises(InputError, match=r"no room for 2g\.12gb\+me: it has for 3 x 1g\.6gb, 1 x 2g\.12gb"):
        a30.mig(0).create("2g.12gb+me")


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


def test_device_minors_are_those_of_the_driver(machine: Machine, tmp_path: Path) -> None:
    minors = (machine.proc / "driver/nvidia-caps/mig-minors").read_text().splitlines()

    assert minors[:4] == ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4"]
    assert {"gpu0/gi2/access 21", "gpu0/gi2/ci0/access 22", "gpu1/gi0/access 138"} <= set(minors)
    assert [int(line.split()[1]) for line in minors] == list(range(1, len(minors) + 1))
    assert not Machine.create(tmp_path / "t4", "t4", 1).proc.exists()


def test_gpu_in_mig_mode_tells_no_utilization(machine: Machine, nvml: ctypes.CDLL) -> None:
    rates, two = (ctypes.c_uint * 2)(), (ctypes.c_uint * 2)()
    assert nvml.nvmlDeviceGetUtilizationRates(device_of(nvml, 0), rates) == SUCCESS

    machine.mig(0).set_mode(True)

    assert nvml.nvmlDeviceGetUtilizationRates(device_of(nvml, 0), rates) == NOT_SUPPORTED
    engine = ctypes.byref(two, 0), ctypes.byref(two, 4)
    assert nvml.nvmlDeviceGetEncoderUtilization(device_of(nvml, 0), *engine) == NOT_SUPPORTED
    assert number_of(nvml.nvmlDeviceGetComputeMode, device_of(nvml, 0))[0] == NOT_SUPPORTED


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
    assert number_of(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, device, 99)[0] == NOT_SUPPORTED


def test_who_is_no_administrator_may_look_but_not_change(machine: Machine, see: Callable[[Machine, str], str]) -> None:
    machine.mig(0).create("1g.10gb")
    code = """
import os
n.nvmlInit()
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
h = n.nvmlDeviceGetHandleByIndex(0)
print(n.nvmlDeviceGetName(n.nvmlDeviceGetMigDeviceHandleByIndex(h, 0)))
for call in (lambda: n.nvmlDeviceSetMigMode(h, 0), lambda: n.nvmlDeviceCreateGpuInstance(h, 19)):
    try: call()
    except n.NVMLError_NoPermission: print("no permission")
"""
    assert see(machine, code) == "NVIDIA H100 80GB HBM3 MIG 1g.10gb\nno permission\nno permission\n"


def test_changes_are_told(machine: Machine, nvml: ctypes.CDLL) -> None:
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


class Partition(RuleBasedStateMachine):
    """Random instances on one GPU against a model: sets of memory slices, and engines to share out."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.machine = Machine.create(Path(self.folder.name) / "node", "a100-40gb", 1)
        self.mig = self.machine.mig(0)
        self.table = mig_tables()["a100-40gb"].profiles
        self.taken: dict[int, tuple[str, set[int]]] = {}

    def teardown(self) -> None:
        self.machine.close()
        self.folder.cleanup()

    def left(self, name: str) -> int:
        """How many more the engines allow."""
        names, whole = [held for held, _ in self.taken.values()], self.table["7g.40gb"]
        wanted = self.table[name]
        left = [wanted.instances - names.count(name), (7 - sum(int(held[0]) for held in names)) // int(name[0])]
        for engine in ("decoders", "jpegs", "ofas"):
            each = getattr(wanted, engine)
            if each:
                left.append((getattr(whole, engine) - sum(getattr(self.table[held], engine) for held in names)) // each)
        return max(0, min(left))

    def places(self, name: str) -> list[set[int]]:
        """Places of a profile that are free."""
        taken = {memory for _, held in self.taken.values() for memory in held}
        spans = [set(range(start, start + self.table[name].size)) for start in self.table[name].starts]
        return [span for span in spans if not span & taken]

    @rule(name=st.sampled_from(sorted(mig_tables()["a100-40gb"].profiles)))
    def create(self, name: str) -> None:
        if self.left(name) and self.places(name):
            (made,) = self.mig.create(name, compute=False)
            span = set(range(made.start, made.start + made.size))
            assert span in self.places(name)
            self.taken[made.id] = name, span
        else:
            with pytest.raises(InputError, match="no room"):
                self.mig.create(name, compute=False)

    @rule(name=st.sampled_from(sorted(mig_tables()["a100-40gb"].profiles)), start=st.integers(-1, 9))
    def create_at(self, name: str, start: int) -> None:
        span = set(range(start, start + self.table[name].size))
        if start in self.table[name].starts and self.left(name) and span in self.places(name):
            (made,) = self.mig.create(name, start=start, compute=False)
            assert made.start == start
            self.taken[made.id] = name, span
        else:
            with pytest.raises(InputError):
                self.mig.create(name, start=start, compute=False)

    @precondition(lambda self: self.taken)
    @rule(data=st.data())
    def destroy(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.taken)))
        self.mig.destroy(number)
        del self.taken[number]

    @invariant()
    def tells_what_there_is(self) -> None:
        assert {instance.id: instance.profile for instance in self.mig.instances} == {
            number: name for number, (name, _) in self.taken.items()
        }
        for profile in self.mig.profiles:
            assert profile.free == self.expected_free(profile), profile.name

    def expected_free(self, profile: MigProfile) -> int:
        return min(self.left(profile.name), len(self.places(profile.name)))


TestPartition = Partition.TestCase
TestPartition.settings = settings(
    max_examples=25, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
