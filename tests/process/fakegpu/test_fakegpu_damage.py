"""A state whose bytes are nonsense: every call of the library returns a code of NVML."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.state import layout
from fakegpu.state.segment import record_at
from tests.support.nvml_calls import POSITIONS, Caller, fitting, read_header

MOST_ROOM = 120
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
