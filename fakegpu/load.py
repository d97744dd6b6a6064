"""Work for a GPU, computed as frames: the figures over time that the library gives back by its own clock.

No process runs while a GPU is under load: ``frames_of`` computes once how a board will behave, the frames are in the
segment, and every reader takes those of the current time.

The model of a board is small. Power rises linearly from the idle draw to the power limit. Heat follows power with one
time constant, towards a temperature that is the board's own at rest and some degrees below its highest at full power.
Where the board would pass its highest temperature (a hot aisle), it draws just what holds it there, and clocks fall
with power.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from .errors import InputError
from .state import layout

ROOM_C: Final = 25.0
"""Air at the inlet for which the figures of a profile hold."""
_TIME_CONSTANT_S: Final = 45.0
_FULL_BELOW_MAX_C: Final = 12.0
_DEFAULT_MAX_C: Final = 87
_THRESHOLD_GPU_MAX: Final = 3
_REASON_IDLE: Final = 0x1
_REASON_SOFTWARE_THERMAL: Final = 0x20
_MEMORY_SHARE: Final = 0.55
"""How busy the memory is for each percent of utilisation, as with training."""
_MEMORY_HEAT_C: Final = 10.0
_FAN_AT_MAX_PERCENT: Final = 85
_PCIE_KB_PER_S: Final = (1_600_000, 900_000)
_SETTLED_S: Final = 6 * _TIME_CONSTANT_S
_STEADY_FRAMES: Final = 120
_PERIOD_FRAMES: Final = 64
_ROUNDS_MAX: Final = 400
_LONGEST_S: Final = 1_000_000.0
_COLDEST_C, _HOTTEST_C = 0.0, 100.0


class Pattern(StrEnum):
    """How utilisation goes over time."""

    STEADY = "steady"
    """The same all the time."""
    BURST = "burst"
    """Half of each period at work, half idle."""
    WAVE = "wave"
    """Up and down once in each period, without a jump."""


@dataclass(frozen=True, slots=True)
class Load:
    """Work for one GPU.

    Attributes:
        gpu_percent: utilisation, 0 to 100; the highest of a pattern.
        memory_bytes: memory in use besides that of entered processes; None leaves what is used.
        pattern: how utilisation goes over time.
        period_s: of a pattern.
        duration_s: when a steady load ends and the GPU cools down; None: never.
        room_c: temperature of the air at the inlet.
    """

    gpu_percent: float = 100
    memory_bytes: int | None = None
    pattern: Pattern = Pattern.STEADY
    period_s: float = 60
    duration_s: float | None = None
    room_c: float = ROOM_C

    def __post_init__(self) -> None:
        if not 0 <= self.gpu_percent <= 100:
            raise InputError(f"utilization={self.gpu_percent:g}: out of range, 0 to 100 percent")
        if not 0.1 <= self.period_s <= _LONGEST_S:
            raise InputError(f"period={self.period_s:g}: out of range, 0.1 to {_LONGEST_S:g} seconds")
        if self.duration_s is not None and not 0 < self.duration_s <= _LONGEST_S:
            raise InputError(f"a load of {self.duration_s:g} seconds: out of range, above 0, to {_LONGEST_S:g}")
        if not _COLDEST_C <= self.room_c <= _HOTTEST_C:
            raise InputError(f"room={self.room_c:g}: out of range, {_COLDEST_C:g} to {_HOTTEST_C:g} degrees Celsius")
        if self.duration_s is not None and self.pattern is not Pattern.STEADY:
            raise InputError(f"a load that ends is steady: leave out the end, or the pattern '{self.pattern}'")


@dataclass(frozen=True, slots=True)
class Frames:
    """Frames in the order of time; after the last the library goes back to frame ``loop_to``, or stays if None."""

    frames: Sequence[layout.Frame]
    loop_to: int | None = None


def frames_of(load: Load, state: layout.GpuState, start_c: float) -> Frames:
    """Compute how a GPU behaves under ``load``.

    Args:
        load: the work.
        state: the GPU's own figures, those of rest.
        start_c: its temperature at the beginning. A pattern starts at its steady temperature.
    """
    board = Board.from_state(state, load.room_c)
    used = state.memory.used_bytes
    busy_bytes = used if load.memory_bytes is None else load.memory_bytes
    if load.pattern is Pattern.STEADY:
        return Frames(list(_steady(board, load, start_c, _work(load.gpu_percent, busy_bytes), _work(0, used))))
    return Frames(_periodic(board, load, start_c, busy_bytes), loop_to=0)


def _work(gpu_percent: float, memory_bytes: int) -> Work:
    return Work(gpu_percent, gpu_percent * _MEMORY_SHARE, memory_bytes)


def _steady(board: Board, load: Load, gpu_c: float, busy: Work, idle: Work) -> Iterator[layout.Frame]:
    """Heating up, and with an end: staying there, the end, and cooling down."""
    heating_s = min(load.duration_s or _SETTLED_S, _SETTLED_S)
    energy_j = 0.0
    for at_s, heat_c, drawn_j in _course(board, busy, _steps(0, heating_s), gpu_c, energy_j):
        yield board.frame(at_s, busy, heat_c, drawn_j)
        gpu_c, energy_j = heat_c, drawn_j
    if load.duration_s is None:
        return
    energy_j += board.power_w(busy, gpu_c) * (load.duration_s - heating_s)
    yield board.frame(load.duration_s, busy, gpu_c, energy_j)
    end_s = load.duration_s + 0.001
    for at_s, heat_c, drawn_j in _course(board, idle, _steps(end_s, end_s + _SETTLED_S), gpu_c, energy_j):
        yield board.frame(at_s, idle, heat_c, drawn_j)


def _steps(from_s: float, to_s: float) -> list[float]:
    """Moments of a course, closer at its beginning, where heat changes most."""
    return [from_s + (to_s - from_s) * (index / (_STEADY_FRAMES - 1)) ** 2 for index in range(_STEADY_FRAMES)]


def _course(
    board: Board, work: Work, moments: Sequence[float], gpu_c: float, energy_j: float
) -> Iterator[tuple[float, float, float]]:
    """Time, temperature and energy at each moment of the same work."""
    before_s = moments[0]
    for at_s in moments:
        power_w = board.power_w(work, gpu_c)
        energy_j += power_w * (at_s - before_s)
        gpu_c = board.heated_c(gpu_c, power_w, at_s - before_s)
        before_s = at_s
        yield at_s, gpu_c, energy_j


def _periodic(board: Board, load: Load, gpu_c: float, memory_bytes: int) -> list[layout.Frame]:
    """One period of a pattern, after so many that each is as the one before."""
    moments = [load.period_s * index / _PERIOD_FRAMES for index in range(_PERIOD_FRAMES + 1)]
    works = [_work(_percent_at(load, moment), memory_bytes) for moment in moments]
    rounds = min(_ROUNDS_MAX, math.ceil(_SETTLED_S / load.period_s) + 1)
    step_s = load.period_s / _PERIOD_FRAMES
    frames: list[layout.Frame] = []
    mean_w = board.idle_w + (board.limit_w - board.idle_w) * load.gpu_percent / 200
    gpu_c = min(board.settled_c(mean_w), board.max_c)
    for _ in range(rounds):
        energy_j = 0.0
        frames = []
        for moment, work in zip(moments, works, strict=True):
            frames.append(board.frame(moment, work, gpu_c, energy_j))
            if moment < load.period_s:
                power_w = board.power_w(work, gpu_c)
                gpu_c = board.heated_c(gpu_c, power_w, step_s)
                energy_j += power_w * step_s
    return _with_jumps(frames) if load.pattern is Pattern.BURST else frames


def _percent_at(load: Load, at_s: float) -> float:
    share = at_s / load.period_s
    if load.pattern is Pattern.BURST:
        return load.gpu_percent if share < 0.5 else 0
    return load.gpu_percent * (1 - math.cos(2 * math.pi * share)) / 2


def _with_jumps(frames: Sequence[layout.Frame]) -> list[layout.Frame]:
    """Hold each level up to the next: without it utilisation would slide from one frame to another."""
    steps: list[layout.Frame] = []
    for frame, following in zip(frames, [*frames[1:], None], strict=True):
        steps.append(frame)
        if following is not None and (frame.gpu_percent > 0) != (following.gpu_percent > 0):
            held = layout.Frame.from_buffer_copy(frame)
            held.time_ms, held.energy_mj = following.time_ms - 1, following.energy_mj
            held.gpu_c, held.memory_c = following.gpu_c, frame.memory_c
            steps.append(held)
    return steps


@dataclass(frozen=True, slots=True)
class Work:
    """What is asked of a board at one moment: percents of its engines and bytes of its memory."""

    gpu_percent: float
    memory_percent: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Board:
    """The figures of one board that the model needs: watts, degrees Celsius, MHz."""

    idle_w: float
    limit_w: float
    idle_c: float
    max_c: float
    memory_over_gpu_c: float
    idle_graphics_mhz: int
    max_graphics_mhz: int
    idle_memory_mhz: int
    max_memory_mhz: int
    idle_performance_state: int
    idle_fan_percent: int
    room_c: float = ROOM_C

    @classmethod
    def from_state(cls, state: layout.GpuState, room_c: float = ROOM_C) -> Self:
        """The board whose idle figures ``state`` shows, in air of ``room_c``."""
        thermal, clocks, power = state.thermal, state.clocks, state.power
        known_max = thermal.threshold_c[_THRESHOLD_GPU_MAX]
        return cls(
            idle_w=power.usage_mw / 1000,
            limit_w=max(power.usage_mw, min(power.limit_mw, power.default_limit_mw)) / 1000,
            idle_c=thermal.gpu_c,
            max_c=max(known_max if known_max > 0 else _DEFAULT_MAX_C, thermal.gpu_c + 1),
            memory_over_gpu_c=thermal.memory_c - thermal.gpu_c if thermal.has_memory_sensor else 0,
            idle_graphics_mhz=clocks.current_mhz[0],
            max_graphics_mhz=clocks.maximum_mhz[0],
            idle_memory_mhz=clocks.current_mhz[2],
            max_memory_mhz=clocks.maximum_mhz[2],
            idle_performance_state=clocks.performance_state,
            idle_fan_percent=state.fans.percent[0],
            room_c=room_c,
        )

    def power_w(self, work: Work, gpu_c: float) -> float:
        """Draw under ``work``, held down where the board is as hot as it may be."""
        wanted = self.idle_w + (self.limit_w - self.idle_w) * work.gpu_percent / 100
        if gpu_c < self.max_c - 0.01 or self.settled_c(wanted) <= self.max_c:
            return wanted
        return max(self.idle_w, self.idle_w + (self.max_c - self._rest_c) / self._heat_c_per_w)

    def settled_c(self, power_w: float) -> float:
        """Temperature at which the board settles with a constant draw of ``power_w``."""
        return self._rest_c + self._heat_c_per_w * (power_w - self.idle_w)

    def heated_c(self, gpu_c: float, power_w: float, after_s: float) -> float:
        """Temperature ``after_s`` seconds of ``power_w`` from ``gpu_c`` on."""
        settled = self.settled_c(power_w)
        heated = settled + (gpu_c - settled) * math.exp(-after_s / _TIME_CONSTANT_S)
        return min(heated, max(self.max_c, gpu_c))

    def frame(self, at_s: float, work: Work, gpu_c: float, energy_j: float) -> layout.Frame:
        """All figures of one moment."""
        power_w = self.power_w(work, gpu_c)
        wanted_w = self.idle_w + (self.limit_w - self.idle_w) * work.gpu_percent / 100
        is_busy = work.gpu_percent > 0
        frame = layout.Frame()
        frame.time_ms = round(at_s * 1000)
        frame.energy_mj = round(energy_j * 1000)
        frame.memory_used_bytes = work.memory_bytes
        frame.power_mw = round(power_w * 1000)
        full_mhz = self.max_graphics_mhz if is_busy else self.idle_graphics_mhz
        frame.graphics_mhz = round(full_mhz * power_w / wanted_w) if wanted_w > 0 else full_mhz
        frame.memory_mhz = self.max_memory_mhz if is_busy else self.idle_memory_mhz
        frame.event_reasons = _REASON_SOFTWARE_THERMAL if power_w < wanted_w else 0 if is_busy else _REASON_IDLE
        frame.performance_state = 0 if is_busy else self.idle_performance_state
        frame.gpu_c = round(gpu_c)
        frame.memory_c = round(gpu_c + self.memory_over_gpu_c + _MEMORY_HEAT_C * work.memory_percent / 100)
        frame.gpu_percent = round(work.gpu_percent)
        frame.memory_percent = round(work.memory_percent)
        frame.fan_percent = self._fan_percent(gpu_c)
        received, sent = _PCIE_KB_PER_S
        frame.pcie_rx_kb_per_s = round(received * work.gpu_percent / 100)
        frame.pcie_tx_kb_per_s = round(sent * work.gpu_percent / 100)
        return frame

    @property
    def _rest_c(self) -> float:
        return self.idle_c + self.room_c - ROOM_C

    @property
    def _heat_c_per_w(self) -> float:
        full_c = max(self.max_c - _FULL_BELOW_MAX_C, self.idle_c + 1)
        return (full_c - self.idle_c) / max(self.limit_w - self.idle_w, 1)

    def _fan_percent(self, gpu_c: float) -> int:
        share = min(max((gpu_c - self.idle_c) / (self.max_c - self.idle_c), 0), 1)
        return round(self.idle_fan_percent + share * max(_FAN_AT_MAX_PERCENT - self.idle_fan_percent, 0))
