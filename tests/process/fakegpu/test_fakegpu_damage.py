"""A state whose bytes are nonsense: every call of the library returns a code of NVML."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu import Load, Machine
from fakegpu.state import layout
from fakegpu.state.segment import record_at
from tests.support.nvml_calls import POSITIONS, Caller, fitting, read_header

MOST_ROOM = 120
# Where in a record handles of instances are: native/nvml/handles.h.
AT_GPU_INSTANCES, AT_COMPUTE_INSTANCES = 16, 40
CODES = {*range(31), 999}
# These keep the session open, or answer with a text.
NOT_CALLED = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}


@pytest.fixture
def last_call(tmp_path: Path) -> Iterator[int]:
    """The file ``last-call``, which names the function that ended the process."""
    file = os.open(tmp_path / "last-call", os.O_CREAT | os.O_WRONLY)
    yield file
    os.close(file)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_state_full_of_nonsense_breaks_no_function(
    machine: Machine, nvml: ctypes.CDLL, tmp_path: Path, last_call: int, seed: int
) -> None:
    header = read_header(tmp_path)
    caller = Caller(nvml, header, MOST_ROOM)
    device, events = ctypes.c_void_p(), ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
    assert nvml.nvmlEventSetCreate(ctypes.byref(events)) == 0
    caller.handles = {"valid": {"nvmlDevice_t": device.value or 0, "nvmlEventSet_t": events.value or 0}}
    style = fitting(numbers=(seed,) * POSITIONS, room=MOST_ROOM, room_of_text=MOST_ROOM)
    affinity = os.sched_getaffinity(0)

    _fill_with_nonsense(machine, seed)
    for signature in header.signatures:
        if signature.name not in NOT_CALLED:
            os.pwrite(last_call, f"{signature.name:80}".encode(), 0)
            assert caller.call(signature, style) in CODES, signature.name

    os.sched_setaffinity(0, affinity)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpu", "mig device"])
@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_cannot_be_break_no_function(
    machine: Machine, nvml: ctypes.CDLL, tmp_path: Path, last_call: int, kind: str, seed: int
) -> None:
    header = read_header(tmp_path)
    caller = Caller(nvml, header, MOST_ROOM)
    machine.mig(1).create("1g.10gb", "2g.20gb")
    machine.load(1, Load(0.5))
    machine.enter_process(1, os.getpid(), 1 << 20)
    machine.faults.slow("nvmlDeviceGetTemperature", "0us..1us")
    caller.handles = {"valid": _handles(machine, nvml, kind)}
    style = fitting(numbers=(seed,) * POSITIONS, room=MOST_ROOM, room_of_text=MOST_ROOM)
    affinity, chance = os.sched_getaffinity(0), random.Random(seed)  # noqa: S311 - the same bytes each time
    path = machine.directory / "segment"
    content = path.read_bytes()

    with path.open("r+b", buffering=0) as file:
        for signature in header.signatures:
            if signature.name in NOT_CALLED:
                continue
            os.pwrite(last_call, f"{signature.name:80}".encode(), 0)
            for _ in range(3):
                os.pwrite(file.fileno(), content, 0)
                _write_edges(file.fileno(), chance)
                assert caller.call(signature, style) in CODES, signature.name

    os.sched_setaffinity(0, affinity)


def _handles(machine: Machine, nvml: ctypes.CDLL, kind: str) -> dict[str, int]:
    """A handle of each kind: of GPU 1 or of a MIG device of it, and of an instance."""
    device, part, events = (ctypes.c_void_p() for _ in range(3))
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, 0, ctypes.byref(part)) == 0
    assert nvml.nvmlEventSetCreate(ctypes.byref(events)) == 0
    gpu = device.value or 0
    return {
        "nvmlDevice_t": gpu if kind == "gpu" else part.value or 0,
        "nvmlEventSet_t": events.value or 0,
        "nvmlGpuInstance_t": gpu + AT_GPU_INSTANCES + machine.mig(1).instances[0].id,
        "nvmlComputeInstance_t": gpu + AT_COMPUTE_INSTANCES,
    }


def _write_edges(file: int, chance: random.Random) -> None:
    """Writes numbers at which readers may go astray into the header, the rules, the plans, and GPU 1."""
    faults, record = layout.Header.faults, record_at(1)
    mig = record + layout.GpuRecord.states.offset + layout.GpuState.mig.offset
    places = [(0, 32), (faults.offset, faults.size), (record, ctypes.sizeof(layout.GpuRecord)), (record, 64)]
    places += [(mig + copy * ctypes.sizeof(layout.GpuState), layout.GpuState.mig.size) for copy in range(2)] * 3
    for _ in range(chance.randrange(1, 60)):
        start, size = chance.choice(places)
        number = chance.choice([0, 1, 7, 8, 15, 16, 17, 18, 31, 32, 2**16, 2**31, 2**32 - 1, chance.getrandbits(32)])
        os.pwrite(file, number.to_bytes(4, sys.byteorder), start + chance.randrange(size // 4) * 4)


def _fill_with_nonsense(machine: Machine, seed: int) -> None:
    """Writes over events, rules, plans and both copies of every state, but leaves the GPUs on the bus."""
    chance = random.Random(seed)  # noqa: S311 - the same bytes each time
    states = 2 * ctypes.sizeof(layout.GpuState)
    ring, faults = layout.Header.ring, layout.Header.faults
    places = [(ring.offset, ring.size), (faults.offset, faults.size)]
    places += [(record_at(gpu) + layout.GpuRecord.states.offset, states) for gpu in range(4)]
    with (machine.directory / "segment").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for start, size in places:
            memory[start : start + size] = chance.randbytes(size) if seed else b"\xff" * size
        for gpu in range(4):
            record = layout.GpuRecord.from_buffer(memory, record_at(gpu))
            record.live_topics = layout.LIVE_ALL * (seed % 2)
            for copy in range(2):
                record.states[copy].fault.is_lost = False
            del record
