"""A plugin may write anything into the file of its node's fake GPUs: each call works, or ends with one clear line."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakegpu import FakeGpuError, InputError, Load, Machine, When
from fakegpu.state import layout
from fakegpu.state.mapping import record_at

GPUS = 2
EDGES = (0, 1, 7, 8, 16, 18, 31, 32, 255, 2**16 - 1, 2**31, 2**32 - 1)
FIRST = record_at(0) + layout.GpuRecord.states.offset
STATES = FIRST, FIRST + ctypes.sizeof(layout.GpuState)

CALLS: dict[str, Callable[[Machine], object]] = {
    "list": lambda machine: [gpu.health for gpu in machine.gpus],
    "version": lambda machine: machine.driver_version,
    "xid": lambda machine: machine.fail(0, xid=79),
    "lose": lambda machine: machine.fail(0, lost=True),
    "heal": lambda machine: machine.heal(0),
    "unplug": lambda machine: machine.unplug(0),
    "plug": lambda machine: machine.plug(0),
    "set": lambda machine: machine.set_many(0, {"temperature": 50, "memory_used": "1GiB", "numa_node": 1}),
    "profiles": lambda machine: machine.mig(0).profiles,
    "partition": lambda machine: machine.mig(0).create("1g.10gb", "2g.20gb"),
    "part": lambda machine: [machine.mig(0).create_compute(part.id, 1) for part in machine.mig(0).instances],
    "devices": lambda machine: machine.mig(0).devices,
    "destroy": lambda machine: [machine.mig(0).destroy(part.id) for part in machine.mig(0).instances],
    "reset": lambda machine: machine.mig(0).reset(),
    "load": lambda machine: machine.load(0, Load(0.5)),
    "enter": lambda machine: machine.enter_process(0, os.getpid(), 1 << 20),
    "strike": lambda machine: machine.strike_process(0, os.getpid()),
    "plan": lambda machine: machine.faults.xid(0, 13, when=When.of(every="1s")),
    "rule": lambda machine: machine.faults.slow("nvmlDeviceGet*", "1ms"),
    "rules": lambda machine: (machine.faults.rules, machine.faults.plans, machine.faults.are_waits_stuck),
    "clear": lambda machine: machine.faults.clear(),
    "links": lambda machine: machine.faults.links_down(0),
}


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, Path]]:
    """A machine with something in each part of its file, and a copy of that."""
    machine = Machine.create(tmp_path_factory.mktemp("machines") / "node", profile="h100-80gb", count=GPUS)
    for call in ("load", "enter", "partition", "plan", "rule"):
        CALLS[call](machine)
    yield machine, Path(shutil.copy(machine.directory / "segment", tmp_path_factory.mktemp("copies")))
    machine.close()


def leaves(kind: Any, start: int = 0) -> Iterator[tuple[int, int]]:
    """The place and the size of each number and text in a structure."""
    if issubclass(kind, ctypes.Structure):
        for name, *_ in kind._fields_:
            field = getattr(kind, name)
            yield from leaves(dict(kind._fields_)[name], start + field.offset)
    elif issubclass(kind, ctypes.Array) and kind._type_ is not ctypes.c_char:
        for index in range(kind._length_):
            yield from leaves(kind._type_, start + index * ctypes.sizeof(kind._type_))
    else:
        yield start, ctypes.sizeof(kind)


def writes_of(kind: Any, starts: Sequence[int]) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    """Something in the place of a number or a text of a structure, at each of these places of it."""
    places = st.sampled_from(list(leaves(kind)))
    edges = st.sampled_from(EDGES).map(lambda number: number.to_bytes(8, sys.byteorder))
    return st.builds(
        lambda leaf, content: [(start + leaf[0], content[: leaf[1]].ljust(leaf[1], b"\xff")) for start in starts],
        places,
        st.one_of(edges, st.binary(min_size=8, max_size=8)),
    )


# Both copies of a state, as either may be in force. Each topic is as likely as another.
WRITES = st.one_of(
    st.tuples(st.integers(0, layout.Header.ring.offset - 4), st.binary(min_size=4, max_size=4)).map(lambda one: [one]),
    writes_of(layout.Faults, [layout.Header.faults.offset]),
    *(
        writes_of(
            kind,
            [start + getattr(layout.GpuState, name).offset for start in STATES],
        )
        for name, kind in layout.GpuState._fields_
    ),
)


@settings(deadline=None)
@given(
    writes=st.lists(WRITES, min_size=1, max_size=12).map(lambda several: list(chain.from_iterable(several))),
    calls=st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=6),
)
def test_each_call_works_or_says_what_is_wrong(
    origin: tuple[Machine, Path], writes: list[tuple[int, bytes]], calls: list[str]
) -> None:
    machine, copy = origin
    file = os.open(machine.directory / "segment", os.O_WRONLY)
    try:
        os.pwrite(file, copy.read_bytes(), 0)
        for place, value in writes:
            os.pwrite(file, value, place)
        for call in calls:
            with suppress(FakeGpuError):
                CALLS[call](machine)
    finally:
        os.close(file)


def _all_profiles(state: layout.GpuState, **members: Any) -> None:
    for profile in state.mig.profiles:
        for name, value in members.items():
            setattr(profile, name, value)


def _all_instances(state: layout.GpuState, **members: Any) -> None:
    for instance in (*state.mig.gpu_instances, *state.mig.compute_instances):
        for name, value in {"is_here": 1, **members}.items():
            if hasattr(instance, name):
                setattr(instance, name, value)


WRONG: dict[str, tuple[Callable[[layout.GpuState], object], str]] = {
    "name of a profile": (lambda state: _all_profiles(state, name=b"\xff" * 24), "profiles"),
    "size of a profile": (lambda state: _all_profiles(state, size=0), "partition"),
    "profile of an instance": (lambda state: _all_instances(state, profile=1 << 31), "devices"),
    "number of an instance": (lambda state: _all_instances(state, gpu_instance=1 << 31), "devices"),
    "place of an instance": (lambda state: _all_instances(state, start=200), "part"),
    "generation": (lambda state: setattr(state.pci, "link_generation_max", 1 << 31), "plug"),
    "bus": (lambda state: setattr(state.pci, "bus", 1 << 31), "plug"),
    "window": (lambda state: setattr(state.memory, "bar1_total_bytes", (1 << 64) - 1), "plug"),
    "minor": (lambda state: setattr(state.identity, "minor_number", (1 << 32) - 1), "plug"),
    "processes": (lambda state: setattr(state.processes, "count", 1 << 31), "enter"),
    "links": (lambda state: setattr(state.nvlink, "count", 1 << 31), "links"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_state_that_cannot_be_ends_no_call_in_a_traceback(origin: tuple[Machine, Path], wrong: str) -> None:
    machine, copy = origin
    change, call = WRONG[wrong]
    with (machine.directory / "segment").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:] = copy.read_bytes()
        for start in STATES:
            state = layout.GpuState.from_buffer_copy(memory, start)
            change(state)
            memory[start : start + ctypes.sizeof(state)] = bytes(state)

    with suppress(FakeGpuError):
        CALLS[call](machine)


@pytest.mark.parametrize(
    ("member", "place"), [(layout.Faults.rules, layout.Rule.delay_count), (layout.Faults.plans, layout.Plan.action)]
)
def test_plans_and_rules_that_cannot_be_are_an_error(origin: tuple[Machine, Path], member: Any, place: Any) -> None:
    machine, copy = origin
    with (machine.directory / "segment").open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), copy.read_bytes(), 0)
        os.pwrite(file.fileno(), b"\xff" * 4, layout.Header.faults.offset + member.offset + place.offset)

    with pytest.raises(InputError, match="segment is damaged: another program wrote over it"):
        CALLS["rules"](machine)
