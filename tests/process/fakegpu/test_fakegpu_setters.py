"""What an administrator sets through NVML: who may, what is refused, and that everybody reads it back."""

from __future__ import annotations

import ctypes
import os

import pytest

from tests.support.machines import Board

from .conftest import See

OK, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, IN_USE = 0, 2, 3, 4, 19
GPU_IS_LOST = 15
ENABLED, DISABLED = 1, 0
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="what NVML sets is for root")


@needs_root
def test_other_processes_see_what_is_set_at_once(h100: Board, see: See) -> None:
    h100.set("SetPowerManagementLimit", 450_000)

    code = "n.nvmlInit(); print(n.nvmlDeviceGetPowerManagementLimit(n.nvmlDeviceGetHandleByIndex(0)))"
    assert see(h100.machine, code) == "450000\n"


@needs_root
def test_removed_gpu_is_gone_for_newcomers_until_it_is_discovered(h100: Board, see: See) -> None:
    count = "n.nvmlInit(); print(n.nvmlDeviceGetCount())"
    address = ctypes.create_string_buffer(68)
    everywhere = ctypes.create_string_buffer(68)
    state = ctypes.c_uint()
    assert h100.library.nvmlDeviceGetPciInfo_v3(h100.device, address) == OK

    assert h100.library.nvmlDeviceModifyDrainState(address, ENABLED) == IN_USE
    assert h100.set("SetPersistenceMode", DISABLED) == OK
    assert h100.library.nvmlDeviceModifyDrainState(address, ENABLED) == OK
    assert h100.library.nvmlDeviceQueryDrainState(address, ctypes.byref(state)) == OK
    assert state.value == ENABLED
    assert see(h100.machine, count) == "1\n"
    assert h100.get("GetPersistenceMode") == DISABLED

    assert h100.library.nvmlDeviceRemoveGpu_v2(address, 0, 0) == OK
    assert h100.get("GetPersistenceMode") == f"error {GPU_IS_LOST}"

    assert h100.library.nvmlDeviceDiscoverGpus(everywhere) == OK
    assert see(h100.machine, count) == "2\n"
    assert h100.get("GetPersistenceMode") == DISABLED
