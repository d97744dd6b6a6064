"""Loads: what moves, how far, and that it moves by the library's own clock.

``began`` puts the beginning of a load into the past, so that a test sees any moment of it without waiting.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakegpu import InputError, Load, Machine, Pattern
from fakegpu.load import Board, frames_of
from fakegpu.machine import gpus as gpus_module
from fakegpu.state import layout

Began = Callable[[float], None]
SW_POWER_CAP, SW_THERMAL, IDLE = 0x4, 0x20, 0x1


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> Began:
    def ago(seconds: float) -> None:
        now = time.monotonic_ns()
        clock = SimpleNamespace(monotonic_ns=lambda: now - round(seconds * 1e9))
        monkeypatch.setattr(gpus_module, "time", clock)

    return ago


def state(machine: Machine, gpu: int = 0) -> layout.GpuState:
    return machine._segment.read_live(gpu)


def idle_state(machine: Machine, gpu: int = 0) -> layout.GpuState:
    return machine._segment.read(gpu)


class TestSteadyLoad:
    def test_figures_rise_together(self, machine: Machine, began: Began) -> None:
        cold = state(machine)

        began(20)
        machine.load(0, Load(gpu_percent=90, memory_bytes=30 << 30))

        warm = state(machine)
        assert warm.utilization.gpu_percent == 90
        assert warm.memory.used_bytes == 30 << 30
        assert cold.thermal.gpu_c < warm.thermal.gpu_c < 75
        assert warm.thermal.memory_c > cold.thermal.memory_c
        assert 600_000 < warm.power.usage_mw < 700_000
        assert warm.clocks.current_mhz[0] == cold.clocks.maximum_mhz[0]
        assert warm.clocks.event_reasons == 0
        assert warm.power.energy_mj == pytest.approx(warm.power.usage_mw * 20, rel=0.02)

    def test_it_begins_with_the_temperature_of_before(self, machine: Machine) -> None:
        machine.load(0, Load(gpu_percent=100))

        assert state(machine).thermal.gpu_c <= idle_state(machine).thermal.gpu_c + 2

    def test_heat_settles_below_the_highest_temperature(self, machine: Machine, began: Began) -> None:
        began(10_000)
        machine.load(0, Load(gpu_percent=100))

        settled = state(machine)
        assert settled.thermal.gpu_c == idle_state(machine).thermal.threshold_c[3] - 12
        assert settled.power.energy_mj == pytest.approx(700_000 * 10_000, rel=0.01)

    def test_end_cools_down_to_rest(self, machine: Machine, began: Began) -> None:
        began(70)
        machine.load(0, Load(gpu_percent=100, memory_bytes=1 << 30, duration_s=60))
        cooling = state(machine)
        began(1000)
        machine.rest(0)
        machine.load(0, Load(gpu_percent=100, duration_s=60))
        cold = state(machine)

        assert cooling.utilization.gpu_percent == 0
        assert cooling.memory.used_bytes == 0
        assert cooling.thermal.gpu_c > cold.thermal.gpu_c == idle_state(machine).thermal.gpu_c
        assert cold.clocks.event_reasons == IDLE
        assert cold.power.usage_mw == idle_state(machine).power.usage_mw

    def test_hot_room_holds_the_board_down(self, machine: Machine, began: Began) -> None:
        began(10_000)
        machine.load(0, Load(gpu_percent=100, room_c=60))

        held = state(machine)
        assert held.thermal.gpu_c == held.thermal.threshold_c[3]
        assert held.power.usage_mw < 600_000
        assert held.clocks.current_mhz[0] < held.clocks.maximum_mhz[0]
        assert held.clocks.event_reasons & SW_THERMAL

    def test_power_limit_of_later_holds(self, machine: Machine) -> None:
        machine.load(0, Load(gpu_percent=100))
        machine.set(0, "power_limit", 350_000)
        machine.load(0, Load(gpu_percent=100))
        low = state(machine)
        assert low.power.usage_mw == 350_000

        with machine._segment.change(0) as changed:
            changed.power.limit_mw = 200_000

        lower = state(machine)
        assert lower.power.usage_mw == 200_000
        assert lower.clocks.current_mhz[0] < low.clocks.current_mhz[0]
        assert lower.clocks.event_reasons & SW_POWER_CAP

    def test_locked_clocks_hold(self, machine: Machine) -> None:
        machine.load(0, Load(gpu_percent=100))

        with machine._segment.change(0) as changed:
            changed.clocks.locked_graphics_mhz[:] = (600, 900)

        assert state(machine).clocks.current_mhz[0] == 900


class TestPatterns:
    @pytest.mark.parametrize(("share", "percent"), [(0.25, 80), (0.75, 0), (1.25, 80), (7.75, 0)])
    def test_burst_works_half_of_each_period(self, machine: Machine, began: Began, share: float, percent: int) -> None:
        began(1000 * share)

        machine.load(0, Load(gpu_percent=80, pattern=Pattern.BURST, period_s=1000))

        assert state(machine).utilization.gpu_percent == percent

    @pytest.mark.parametrize(("share", "percent"), [(0.001, 0), (0.5, 60), (1.25, 30), (1.75, 30)])
    def test_wave_goes_up_and_down(self, machine: Machine, began: Began, share: float, percent: int) -> None:
        began(1000 * share)

        machine.load(0, Load(gpu_percent=60, pattern=Pattern.WAVE, period_s=1000))

        assert state(machine).utilization.gpu_percent == pytest.approx(percent, abs=1)

    def test_energy_grows_from_round_to_round(self, machine: Machine, began: Began) -> None:
        rounds = []
        for number in (1, 2, 3):
            machine.rest(0)
            with machine._segment.change(0) as changed:
                changed.power.energy_mj = 0
            began(1000 * number)
            machine.load(0, Load(gpu_percent=100, pattern=Pattern.BURST, period_s=1000))
            rounds.append(state(machine).power.energy_mj)

        assert rounds[1] == pytest.approx(2 * rounds[0], rel=0.01)
        assert rounds[2] == pytest.approx(3 * rounds[0], rel=0.01)


def test_every_process_sees_the_same_moment(machine: Machine, nvml: ctypes.CDLL, began: Began) -> None:
    began(500)
    machine.load(1, Load(gpu_percent=70))
    handle, rates, power = ctypes.c_void_p(), (ctypes.c_uint * 2)(), ctypes.c_uint()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == 0

    assert nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
    assert nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(power)) == 0

    assert rates[0] == 70
    assert power.value == state(machine, 1).power.usage_mw


class Sample(ctypes.Structure):
    _fields_ = [("time_us", ctypes.c_ulonglong), ("value", ctypes.c_ulonglong)]


POWER_SAMPLES, GPU_SAMPLES, CLOCK_SAMPLES = 0, 1, 5


@pytest.mark.parametrize("kind", [POWER_SAMPLES, GPU_SAMPLES, CLOCK_SAMPLES])
def test_samples_tell_what_was_before_the_load_began(
    machine: Machine, nvml: ctypes.CDLL, began: Began, kind: int
) -> None:
    device, count, value_type = ctypes.c_void_p(), ctypes.c_uint(120), ctypes.c_int()
    samples = (Sample * 120)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    began(8)
    began_us = time.time_ns() // 1000 - 8_000_000
    machine.load(0, Load(gpu_percent=90))

    arguments = device, kind, ctypes.c_ulonglong(0), ctypes.byref(value_type), ctypes.byref(count), samples
    assert nvml.nvmlDeviceGetSamples(*arguments) == 0

    taken = samples[: count.value]
    rest, work = machine._segment.read(0), state(machine)
    at_rest = {POWER_SAMPLES: rest.power.usage_mw, GPU_SAMPLES: 0, CLOCK_SAMPLES: rest.clocks.current_mhz[1]}[kind]
    at_work = {POWER_SAMPLES: work.power.usage_mw, GPU_SAMPLES: 90, CLOCK_SAMPLES: work.clocks.current_mhz[1]}[kind]
    before = {sample.value for sample in taken if sample.time_us < began_us - 2000}
    after = {sample.value for sample in taken if sample.time_us > began_us + 2_000_000}
    assert before == {at_rest}
    assert after
    assert all(abs(value - at_work) <= at_work * 0.02 for value in after)
    assert [sample.time_us for sample in taken] == sorted({sample.time_us for sample in taken})


def test_figure_that_is_set_stays(machine: Machine, began: Began) -> None:
    began(100)
    machine.load(0, Load(gpu_percent=100))

    machine.set(0, "temperature", 41)

    assert state(machine).thermal.gpu_c == 41
    assert state(machine).utilization.gpu_percent == 100


def test_next_load_moves_all_figures_again(machine: Machine, began: Began) -> None:
    machine.set(0, "temperature", 41)

    began(10_000)
    machine.load(0, Load(gpu_percent=100))

    assert state(machine).thermal.gpu_c > 41


def test_rest_gives_back_what_is_set_and_keeps_the_energy(machine: Machine, began: Began) -> None:
    before = bytes(idle_state(machine).thermal)
    began(100)
    machine.load(0, Load(gpu_percent=100, memory_bytes=1 << 30))
    drawn = state(machine).power.energy_mj

    machine.rest(0)
    machine.rest(0)

    rested = state(machine)
    assert bytes(rested.thermal) == before
    assert rested.utilization.gpu_percent == rested.memory.used_bytes == 0
    assert rested.power.energy_mj == pytest.approx(drawn, rel=0.05)


def drawn_since(machine: Machine, seconds: float) -> None:
    """Let the energy counter of GPU 0 be as old as that."""
    with machine._segment.change(0) as changed:
        changed.power.energy_at_ns -= round(seconds * 1e9)


class TestEnergy:
    def test_idle_gpu_draws_its_idle_power(self, machine: Machine, nvml: ctypes.CDLL) -> None:
        drawn_since(machine, 1000)

        idle_mw = idle_state(machine).power.usage_mw
        assert state(machine).power.energy_mj == pytest.approx(idle_mw * 1000, rel=0.01)
        handle, energy_mj = ctypes.c_void_p(), ctypes.c_ulonglong()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
        assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(energy_mj)) == 0
        assert energy_mj.value == pytest.approx(idle_mw * 1000, rel=0.01)

    def test_power_that_is_set_counts_from_then_on(self, machine: Machine) -> None:
        drawn_since(machine, 1000)
        machine.set(0, "power_usage", 300_000)
        before = state(machine).power.energy_mj
        drawn_since(machine, 10)

        assert before == pytest.approx(idle_state(machine).power.energy_mj, rel=0.01)
        assert state(machine).power.energy_mj - before == pytest.approx(3_000_000, rel=0.01)

    def test_energy_that_is_set_counts_on(self, machine: Machine) -> None:
        drawn_since(machine, 1000)
        machine.set(0, "energy", 0)
        assert state(machine).power.energy_mj < 10_000
        drawn_since(machine, 1000)

        assert state(machine).power.energy_mj > 1_000_000

    def test_figure_set_during_a_load_loses_none(self, machine: Machine, began: Began) -> None:
        began(1000)
        machine.load(0, Load(gpu_percent=100))
        drawn = state(machine).power.energy_mj

        machine.set(0, "power_usage", 0)

        assert drawn > 600_000_000
        assert state(machine).power.energy_mj == pytest.approx(drawn, rel=0.001)

    def test_many_changes_count_the_same(self, machine: Machine, began: Began) -> None:
        began(1000)
        machine.load(0, Load(gpu_percent=100))
        drawn = state(machine).power.energy_mj

        for turn in range(500):
            machine.set(0, "pcie_width", 1 + turn % 16)

        assert state(machine).power.energy_mj == pytest.approx(drawn, rel=0.01)


def test_load_of_one_gpu_leaves_the_others(machine: Machine) -> None:
    before = bytes(idle_state(machine, 1))

    machine.load(0, Load(gpu_percent=100))

    assert bytes(idle_state(machine, 1)) == before


def test_readers_never_see_frames_of_two_loads(machine: Machine, nvml: ctypes.CDLL) -> None:
    handle, rates = ctypes.c_void_p(), (ctypes.c_uint * 2)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
    has_ended = threading.Event()

    def replace_loads() -> None:
        for number in range(400):
            percent = number % 101
            times = range(layout.FRAMES_MAX)
            frames = [layout.Frame(time_ms=at, gpu_percent=percent, memory_percent=percent) for at in times]
            load = layout.Load(topics=layout.LIVE_UTILIZATION, loop_to=0, started_ns=time.monotonic_ns())
            machine._segment.write_load(0, load, frames)
        has_ended.set()

    writer = threading.Thread(target=replace_loads)
    writer.start()
    while not has_ended.is_set():
        assert nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
        assert rates[0] == rates[1]
    writer.join()

    assert nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(rates)) == 0
    assert rates[0] == 399 % 101


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"gpu_percent": 101}, "0 to 100"),
        ({"period_s": 0}, "seconds"),
        ({"duration_s": -1}, "above 0"),
        ({"duration_s": 5, "pattern": Pattern.WAVE}, "a load that ends is steady"),
    ],
)
def test_impossible_load_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Load(**wrong)  # type: ignore[arg-type]


def test_more_memory_than_there_is_is_refused(machine: Machine) -> None:
    with pytest.raises(InputError, match="bytes for allocations"):
        machine.load(0, Load(memory_bytes=1 << 50))


@given(
    percent=st.floats(0, 100),
    pattern=st.sampled_from(Pattern),
    period_s=st.floats(0.1, 10_000),
    duration_s=st.none() | st.floats(0.1, 100_000),
    start_c=st.integers(10, 110),
    room_c=st.floats(0, 80),
)
def test_frames_are_in_order_and_possible(
    percent: float, pattern: Pattern, period_s: float, duration_s: float | None, start_c: int, room_c: float
) -> None:
    steady_end = duration_s if pattern is Pattern.STEADY else None
    load = Load(percent, None, pattern, period_s, steady_end, room_c)
    resting = layout.GpuState()
    resting.thermal.gpu_c, resting.thermal.threshold_c[3] = 30, 85
    resting.power.usage_mw, resting.power.limit_mw, resting.power.default_limit_mw = 50_000, 400_000, 400_000
    resting.clocks.current_mhz[0], resting.clocks.maximum_mhz[0] = 210, 1410
    board = Board.from_state(resting, room_c)

    reckoned = frames_of(load, resting, start_c)

    frames = reckoned.frames
    assert 0 < len(frames) <= layout.FRAMES_MAX
    assert frames[0].time_ms == 0
    for before, after in pairwise(frames):
        assert before.time_ms <= after.time_ms
        assert before.energy_mj <= after.energy_mj
    low, high = min(start_c, 30, board.settled_c(50)) - 1, max(start_c, 85, board.settled_c(50)) + 1
    for frame in frames:
        assert low <= frame.gpu_c <= high
        assert 50_000 <= frame.power_mw <= 400_000
        assert 0 <= frame.gpu_percent <= 100
        assert frame.graphics_mhz <= 1410
