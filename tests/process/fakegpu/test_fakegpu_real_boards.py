"""A fake machine made from a recording of a real H100 or H200 answers what the real one answered.

``h100.yaml`` and ``h200.yaml`` are what ``fakegpu record --anonymise`` wrote of one board each in a virtual machine,
driver 580.159.04.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.cli.record import ask_fake, differences
from fakegpu.recording.recording import Recording, parse_recording

as_recorded = pytest.mark.skipif(os.geteuid() != 0, reason="root has recorded, who is told more of MIG")
NOT_MODELLED = {
    "nvmlSystemGetNvlinkBwMode": "the mode of NVLink, where NVLink is switched off",
    "nvmlDeviceGetAPIRestriction 0": "applications clocks may be set, but nobody may ask who may set them",
    "nvmlDeviceGetAPIRestriction 1": "the same",
    "nvmlDeviceGetBBXTimeData_v1": "a function that is newer than the driver",
    "nvmlDeviceGetFieldValues 147": "links to NVSwitches, where NVLink is switched off",
    "nvmlDeviceGetFieldValues 228": "counters of NVLink 5, where NVLink is switched off",
    "nvmlDeviceGetFieldValues 229": "the same",
    "nvmlDeviceGetLastBBXFlushTime": "the real board is not ready yet",
    "nvmlDeviceGetMinMaxClockOfPState 3 0": "the video clock has a lowest one of its own",
    "nvmlDeviceGetMinMaxClockOfPState 3 2": "the same",
}
"""Calls whose answers differ, and why."""

ERRORS = {
    16: "GPU requires reset",
    17: "GPU access blocked by the operating system",
    22: "vGPU ECC not supported",
    23: "Insufficient Resources",
    24: "Invalid Frequency",
    25: "Argument version mismatch",
    26: "Requested functionality has been deprecated",
    27: "System is not in ready state",
    28: "No supported GPUs were found",
    29: "Resource not in correct state to perform requested operation",
    30: "Reset type is not supported for given device",
    31: "Unknown Error",
}
SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, NO_DATA = 0, 2, 3, 6, 21


@pytest.fixture(params=["h100", "h200"])
def real(request: pytest.FixtureRequest) -> Recording:
    file = Path(__file__).with_name(f"{request.param}.yaml")
    return parse_recording(file.read_text(), str(file))


@pytest.fixture
def machine(tmp_path: Path, real: Recording) -> Iterator[Machine]:
    machine = Machine.create(tmp_path / "node", real)
    yield machine
    machine.close()


@pytest.fixture
def nvml(machine: Machine) -> Iterator[ctypes.CDLL]:
    library = ctypes.CDLL(str(machine.library))
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert library.nvmlInit_v2() == SUCCESS
    yield library
    assert library.nvmlShutdown() == SUCCESS


@pytest.fixture
def device(nvml: ctypes.CDLL) -> ctypes.c_void_p:
    found = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(found)) == SUCCESS
    return found


@as_recorded
def test_every_call_but_a_few_is_answered_alike(machine: Machine, real: Recording) -> None:
    found = {one.call: str(one) for one in differences(ask_fake(machine), real.survey())}

    assert found.keys() == NOT_MODELLED.keys(), found


def test_texts_of_return_codes(nvml: ctypes.CDLL) -> None:
    assert {code: nvml.nvmlErrorString(code).decode() for code in ERRORS} == ERRORS


def test_uuid_without_its_prefix_names_the_gpu(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> None:
    uuid, found = ctypes.create_string_buffer(96), ctypes.c_void_p()
    assert nvml.nvmlDeviceGetUUID(device, uuid, 96) == SUCCESS

    assert nvml.nvmlDeviceGetHandleByUUID(uuid.value.removeprefix(b"GPU-"), ctypes.byref(found)) == SUCCESS
    assert found.value == device.value
    assert nvml.nvmlDeviceGetHandleByUUID(uuid.value.upper(), ctypes.byref(found)) == NOT_FOUND
    assert nvml.nvmlDeviceGetHandleByUUID(b"", ctypes.byref(found)) == NOT_FOUND


def test_a_gpu_and_itself(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> None:
    answer = ctypes.c_uint(99)

    assert nvml.nvmlDeviceGetTopologyCommonAncestor(device, device, ctypes.byref(answer)) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetP2PStatus(device, device, 0, ctypes.byref(answer)) == SUCCESS
    assert answer.value == 0


@as_recorded
def test_what_is_not_there_has_the_code_of_the_real_driver(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> None:
    number, text, room = ctypes.byref(ctypes.c_uint()), ctypes.create_string_buffer(512), ctypes.c_uint(8)

    assert nvml.nvmlDeviceGetAttributes_v2(device, text) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetGpuInstanceById(device, 1, text) == NOT_FOUND
    assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(device, 1, number) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetAccountingStats(device, 1, text) == NOT_FOUND
    assert nvml.nvmlDeviceGetFanSpeed_v2(device, 0, number) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetFanSpeed(device, number) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetSupportedGraphicsClocks(device, 0, ctypes.byref(room), text) == INVALID_ARGUMENT
    assert nvml.nvmlDeviceGetSupportedGraphicsClocks(device, 1, ctypes.byref(room), text) == NOT_FOUND
    assert nvml.nvmlDeviceGetEncoderCapacity(device, 1, number) == SUCCESS
    assert nvml.nvmlDeviceGetEncoderCapacity(device, 2, number) == NOT_SUPPORTED
    assert nvml.nvmlDeviceQueryDrainState(text, number) == NOT_FOUND


def command_of(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b"ended"


def test_threads_of_the_kernel_have_no_name(nvml: ctypes.CDLL) -> None:
    names = [folder.name for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    kernel = next((name for name in names if not command_of(name)), None)
    if kernel is None:
        pytest.skip("a PID namespace without threads of the kernel")

    assert nvml.nvmlSystemGetProcessName(int(kernel), ctypes.create_string_buffer(64), 64) == NO_DATA
