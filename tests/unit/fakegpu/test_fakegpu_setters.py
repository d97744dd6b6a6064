"""What an administrator sets through NVML: who may, what is refused, and that everybody reads it back."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.machines import Board, Load
from tests.support.users import NOBODY, needs_another_user

OK, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, IN_USE = 0, 2, 3, 4, 19
GPU_IS_LOST = 15
GRAPHICS, SM, MEMORY = 0, 1, 2
ENABLED, DISABLED = 1, 0
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="what NVML sets is for root")


@pytest.fixture
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


@needs_root
@pytest.mark.parametrize(
    ("setter", "value", "getter"),
    [
        ("SetPersistenceMode", DISABLED, "GetPersistenceMode"),
        ("SetComputeMode", 3, "GetComputeMode"),
        ("SetAccountingMode", ENABLED, "GetAccountingMode"),
        ("SetPowerManagementLimit", 500_000, "GetPowerManagementLimit"),
        ("SetPowerManagementLimit", 500_000, "GetEnforcedPowerLimit"),
    ],
)
def test_what_is_set_is_read_back(h100: Board, setter: str, value: int, getter: str) -> None:
    assert h100.get(getter) != value

    assert h100.set(setter, value) == OK

    assert h100.get(getter) == value


@needs_another_user
@pytest.mark.parametrize(
    ("setter", "arguments"),
    [
        ("SetPersistenceMode", (ENABLED,)),
        ("SetComputeMode", (0,)),
        ("SetAccountingMode", (ENABLED,)),
        ("SetEccMode", (DISABLED,)),
        ("ClearEccErrorCounts", (0,)),
        ("SetPowerManagementLimit", (500_000,)),
        ("SetGpuLockedClocks", (1000, 1200)),
        ("ResetGpuLockedClocks", ()),
        ("SetMemoryLockedClocks", (1593, 1593)),
        ("ResetMemoryLockedClocks", ()),
        ("SetApplicationsClocks", (2619, 1980)),
        ("ResetApplicationsClocks", ()),
        ("SetAPIRestriction", (0, DISABLED)),
        ("ResetNvLinkErrorCounters", (0,)),
    ],
)
def test_only_root_sets(h100: Board, as_nobody: None, setter: str, arguments: tuple[int, ...]) -> None:
    assert h100.set(setter, *arguments) == NO_PERMISSION


@needs_another_user
@pytest.mark.parametrize(
    ("setter", "arguments", "code"),
    [
        ("SetPersistenceMode", (2,), INVALID_ARGUMENT),
        ("SetComputeMode", (1,), INVALID_ARGUMENT),
        ("SetPowerManagementLimit", (700_001,), INVALID_ARGUMENT),
        ("SetPowerManagementLimit", (199_999,), INVALID_ARGUMENT),
        ("SetGpuLockedClocks", (1200, 1000), INVALID_ARGUMENT),
        ("SetApplicationsClocks", (2619, 1981), INVALID_ARGUMENT),
        ("SetApplicationsClocks", (2600, 1980), INVALID_ARGUMENT),
        ("ClearEccErrorCounts", (2,), INVALID_ARGUMENT),
        ("SetAPIRestriction", (1, DISABLED), NOT_SUPPORTED),
        ("SetAutoBoostedClocksEnabled", (ENABLED,), NOT_SUPPORTED),
        ("SetGpuOperationMode", (0,), NOT_SUPPORTED),
        ("SetFanSpeed_v2", (0, 50), INVALID_ARGUMENT),
        ("SetGpcClkVfOffset", (15,), NOT_SUPPORTED),
        ("SetTemperatureThreshold", (1, ctypes.byref(ctypes.c_int(80))), NOT_SUPPORTED),
        ("ResetNvLinkErrorCounters", (99,), INVALID_ARGUMENT),
    ],
)
def test_what_the_board_cannot_do_is_refused_to_anybody(
    h100: Board, as_nobody: None, setter: str, arguments: tuple[Any, ...], code: int
) -> None:
    assert h100.set(setter, *arguments) == code


def test_boards_without_a_feature_say_so(load: Load) -> None:
    t4, rtx = load("t4"), load("rtx-4090")

    assert t4.set("SetMemoryLockedClocks", 5001, 5001) == NOT_SUPPORTED
    assert t4.set("ResetNvLinkErrorCounters", 0) == NOT_SUPPORTED
    assert rtx.set("ResetNvLinkErrorCounters", 0) == NOT_SUPPORTED


@needs_root
def test_lost_gpu_takes_no_setting(h100: Board) -> None:
    h100.machine.fail(0, lost=True)

    assert h100.set("SetPersistenceMode", DISABLED) == GPU_IS_LOST


@needs_root
def test_ecc_mode_waits_for_the_next_reboot(h100: Board) -> None:
    assert h100.set("SetEccMode", DISABLED) == OK

    assert h100.get("GetEccMode", answers=2) == (ENABLED, DISABLED)


@needs_root
def test_volatile_errors_are_cleared_and_aggregate_ones_stay(h100: Board) -> None:
    h100.machine.set(0, "ecc_uncorrected", 5)
    assert h100.get("GetTotalEccErrors", 1, 0) == 5

    assert h100.set("ClearEccErrorCounts", 1) == OK
    assert h100.get("GetTotalEccErrors", 1, 0) == 5
    assert h100.set("ClearEccErrorCounts", 0) == OK
    assert h100.get("GetTotalEccErrors", 1, 0) == 0


@needs_root
def test_locked_clocks_hold_the_clock_until_they_are_reset(h100: Board) -> None:
    idle = h100.get("GetClockInfo", GRAPHICS)

    assert h100.set("SetGpuLockedClocks", 1005, 1200) == OK
    assert (h100.get("GetClockInfo", GRAPHICS), h100.get("GetClockInfo", SM)) == (1005, 1005)
    h100.machine.set(0, "clock_graphics", 1980)
    assert h100.get("GetClockInfo", GRAPHICS) == 1200
    h100.machine.set(0, "clock_graphics", idle)
    assert h100.set("ResetGpuLockedClocks") == OK

    assert h100.get("GetClockInfo", GRAPHICS) == idle


@needs_root
def test_applications_clocks_are_set_and_go_back_to_their_default(h100: Board) -> None:
    default = h100.get("GetDefaultApplicationsClock", GRAPHICS)

    assert h100.set("SetApplicationsClocks", 2619, 345 + 15) == OK
    assert h100.get("GetApplicationsClock", GRAPHICS) == 360
    assert h100.get("GetDefaultApplicationsClock", GRAPHICS) == default
    assert h100.set("ResetApplicationsClocks") == OK

    assert h100.get("GetApplicationsClock", GRAPHICS) == default


@needs_root
def test_applications_clocks_can_be_left_to_anyone(h100: Board) -> None:
    assert h100.get("GetAPIRestriction", 0) == ENABLED

    assert h100.set("SetAPIRestriction", 0, DISABLED) == OK

    assert h100.get("GetAPIRestriction", 0) == DISABLED


@needs_root
def test_fans_keep_the_set_speed_until_the_driver_controls_them(load: Load) -> None:
    rtx = load("rtx-4090")
    lowest, highest = rtx.get("GetMinMaxFanSpeed", answers=2)

    assert rtx.set("SetFanSpeed_v2", 0, lowest - 1) == INVALID_ARGUMENT
    assert rtx.set("SetFanSpeed_v2", 0, highest) == OK
    assert (rtx.get("GetFanSpeed_v2", 0), rtx.get("GetTargetFanSpeed", 0)) == (highest, highest)
    assert rtx.get("GetFanControlPolicy_v2", 0) == 1
    assert rtx.set("SetDefaultFanSpeed_v2", 0) == OK

    assert rtx.get("GetFanControlPolicy_v2", 0) == 0
    assert rtx.set("SetFanSpeed_v2", rtx.get("GetNumFans"), highest) == INVALID_ARGUMENT


@needs_root
def test_clocks_of_a_geforce_are_moved_off_their_curve(load: Load) -> None:
    rtx = load("rtx-4090")
    lowest, highest = rtx.get("GetGpcClkMinMaxVfOffset", answers=2)

    assert rtx.set("SetGpcClkVfOffset", highest + 1) == INVALID_ARGUMENT
    assert rtx.set("SetGpcClkVfOffset", lowest) == OK

    assert rtx.get("GetGpcClkVfOffset") == lowest
    assert rtx.get("GetMemClkVfOffset") == 0


@needs_root
def test_errors_of_a_link_are_cleared(h100: Board) -> None:
    with h100.machine._segment.change(0) as state:
        state.links[3].errors[0] = 7
    count = ctypes.c_ulonglong()
    ask = (h100.device, 3, 0, ctypes.byref(count))
    assert h100.library.nvmlDeviceGetNvLinkErrorCounter(*ask) == OK
    assert count.value == 7

    assert h100.set("ResetNvLinkErrorCounters", 3) == OK

    assert h100.library.nvmlDeviceGetNvLinkErrorCounter(*ask) == OK
    assert count.value == 0


@needs_root
def test_bandwidth_mode_of_links_is_one_for_all_gpus(h100: Board) -> None:
    mode = ctypes.c_uint()

    assert h100.library.nvmlSystemSetNvlinkBwMode(5) == INVALID_ARGUMENT
    assert h100.library.nvmlSystemSetNvlinkBwMode(3) == OK

    assert h100.library.nvmlSystemGetNvlinkBwMode(ctypes.byref(mode)) == OK
    assert mode.value == 3


@needs_root
def test_writers_of_one_gpu_lose_nothing_of_each_other(h100: Board) -> None:
    """Threads through NVML and the machine's owner change different figures of one GPU, many times."""
    rounds = 50

    def through_nvml(setter: str, values: tuple[int, int]) -> None:
        for number in range(rounds):
            assert h100.set(setter, values[number % 2]) == OK

    threads = [
        threading.Thread(target=through_nvml, args=("SetPowerManagementLimit", (300_000, 400_000))),
        threading.Thread(target=through_nvml, args=("SetPersistenceMode", (ENABLED, DISABLED))),
    ]
    for thread in threads:
        thread.start()
    for number in range(rounds):
        h100.machine.set(0, "temperature", 40 + number)
    for thread in threads:
        thread.join()

    assert h100.get("GetPowerManagementLimit") == 400_000
    assert h100.get("GetPersistenceMode") == DISABLED
    assert h100.get("GetTemperature", 0) == 40 + rounds - 1


@needs_root
def test_machine_that_was_taken_down_takes_no_setting(load: Load) -> None:
    board = load("h100-80gb")
    board.machine.destroy()

    assert board.get("GetPersistenceMode") == ENABLED
    assert board.set("SetPersistenceMode", DISABLED) == 999
