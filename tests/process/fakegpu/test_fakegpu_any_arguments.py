"""Every exported function takes any arguments: it answers with a code of NVML and writes where it may, nowhere else.

A buffer ends at a page that cannot be touched, so a byte too many is the end of the process; the file `last-call` in
the test's folder then names the function. The session `asan` runs the same on a library that checks itself.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakegpu import Machine
from tests.support.nvml_calls import COUNT, POSITIONS, Caller, Header, Style, fitting, read_header

MOST_ROOM = 120
"""More than the longest text, and list of clocks, of the boards here."""
CODES = {*range(31), 999}
HANDLE_KINDS = ("valid", "other", "null", "wild", "shifted")
"""The other device is a part of a GPU where the board can be partitioned."""
# These keep the session open, or answer with a text.
NOT_CALLED = {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}

numbers = st.one_of(st.integers(0, 20), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))


def by_position(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.tuples(*[values] * POSITIONS)


styles = st.builds(
    Style,
    handles=by_position(st.sampled_from(HANDLE_KINDS))
    | st.sampled_from(["valid", "other"]).map(lambda one: (one,) * POSITIONS),
    is_null=by_position(st.booleans()) | st.just((False,) * POSITIONS),
    numbers=by_position(numbers),
    room=st.integers(0, 8),
    room_of_text=st.integers(0, MOST_ROOM),
    fill=st.sampled_from([0, 1, 0x41, 0xFF]),
    has_version=st.booleans(),
)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    return read_header(tmp_path_factory.mktemp("header"))


def parts_of(machine: Machine, library: ctypes.CDLL, whole: ctypes.c_void_p) -> dict[str, int]:
    """Handles of a GPU instance, its compute instance and the MIG device of both; root alone gets the first two."""
    parts = machine.mig(2)
    parts.set_mode(True)
    (made,) = parts.create("3g.40gb")
    part, compute, device = (ctypes.c_void_p() for _ in range(3))
    if os.geteuid() == 0:
        assert library.nvmlDeviceGetGpuInstanceById(whole, made.id, ctypes.byref(part)) == 0
        assert library.nvmlGpuInstanceGetComputeInstanceById(part, 0, ctypes.byref(compute)) == 0
    assert library.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0, ctypes.byref(device)) == 0
    handles = {"nvmlGpuInstance_t": part, "nvmlComputeInstance_t": compute, "nvmlDevice_t": device}
    return {kind: handle.value or 0 for kind, handle in handles.items()}


@pytest.fixture(params=["h100-80gb", "t4"])
def caller(request: pytest.FixtureRequest, tmp_path: Path, header: Header) -> Iterator[Caller]:
    machine = Machine.create(tmp_path / "node", request.param, count=3)
    library = ctypes.CDLL(str(machine.library))
    assert library.nvmlInit_v2() == 0
    device, other, events, sample = (ctypes.c_void_p() for _ in range(4))
    assert library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
    assert library.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(other)) == 0
    assert library.nvmlEventSetCreate(ctypes.byref(events)) == 0
    assert library.nvmlGpmSampleAlloc(ctypes.byref(sample)) == 0
    caller = Caller(library, header, MOST_ROOM)
    valid = {
        "nvmlDevice_t": device.value or 0,
        "nvmlEventSet_t": events.value or 0,
        "nvmlGpmSample_t": sample.value or 0,
    }
    parts = parts_of(machine, library, other) if request.param == "h100-80gb" else {}
    caller.handles = {
        "valid": valid,
        "other": valid | {"nvmlDevice_t": other.value or 0} | parts,
        "null": {},
        "wild": {"": 0xDEADBEEF},
        "shifted": {kind: value + 8 for kind, value in valid.items()},
    }
    affinity = os.sched_getaffinity(0)
    yield caller
    os.sched_setaffinity(0, affinity)
    library.nvmlShutdown()
    machine.close()


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(style=styles)
def test_no_arguments_break_any_function(caller: Caller, header: Header, tmp_path: Path, style: Style) -> None:
    last = os.open(tmp_path / "last-call", os.O_CREAT | os.O_WRONLY)
    try:
        for signature in header.signatures:
            if signature.name not in NOT_CALLED:
                os.pwrite(last, f"{signature.name:80}".encode(), 0)
                code = caller.call(signature, style)
                assert code in CODES, f"{signature.name} answers {code}"
    finally:
        os.close(last)


def test_no_room_is_too_small(caller: Caller, header: Header) -> None:
    """Each text and list fits somewhere in between: one place less and it must not be written."""
    for signature in header.signatures:
        if any(COUNT.search(parameter.name) for parameter in signature.parameters):
            for room in range(MOST_ROOM):
                assert caller.call(signature, fitting(room=room, room_of_text=room)) in CODES, signature.name


def test_handles_that_are_none_are_refused(caller: Caller, header: Header) -> None:
    for kind in ("null", "wild", "shifted"):
        for signature in header.signatures:
            if signature.parameters and signature.parameters[0].type == "nvmlDevice_t":
                assert caller.call(signature, fitting(handles=(kind,) * POSITIONS)) == 2, signature.name


def test_missing_pointers_are_refused(caller: Caller, header: Header) -> None:
    for signature in header.signatures:
        if signature.name in NOT_CALLED or not any(parameter.is_pointer for parameter in signature.parameters):
            continue
        assert caller.call(signature, fitting(is_null=(True,) * POSITIONS)) in (2, 7), signature.name


# The board that has everything: a missing feature may be reported first.
@pytest.mark.parametrize("caller", ["h100-80gb"], indirect=True)
def test_structs_of_another_version_are_refused(caller: Caller, header: Header) -> None:
    for signature in header.signatures:
        is_versioned = any(p.is_pointer and p.base in header.versions for p in signature.parameters)
        first = signature.parameters[0].type if signature.parameters else ""
        if is_versioned and first == "nvmlDevice_t":
            code = caller.call(signature, fitting(has_version=False, fill=0xFF))
            if "GpuInstanceProfileInfo" in signature.name:
                assert code == 2, f"{signature.name} answers {code}"  # as driver 580 does
                continue
            assert code == 25, f"{signature.name} answers {code}"
