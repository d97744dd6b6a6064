"""Work for a GPU, computed as frames: the figures over time that the library gives back by its own clock.

No process runs while a GPU is under load: ``frames_of`` computes once how a board will behave, the frames are in the
segment, and every reader takes those of the current time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..errors import InputError
from ..state import layout
from .board import ROOM_C, TIME_CONSTANT_S, Board, Work, memory_percent_of

_SETTLED_S: Final = 6 * TIME_CONSTANT_S
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
    """Computes how a GPU behaves under ``load``.

    Args:
        load: the work.
        state: the GPU's own figures, those of rest.
        start_c: its temperature at the beginning. A pattern starts warm: as the board is after many periods.
    """
    board = Board.from_state(state, load.room_c)
    used = state.memory.used_bytes
    busy_bytes = used if load.memory_bytes is None else load.memory_bytes
    if load.pattern is Pattern.STEADY:
        return Frames(list(_steady(board, load, start_c, _work(load.gpu_percent, busy_bytes), _work(0, used))))
    return Frames(_periodic(board, load, start_c, busy_bytes), loop_to=0)


def _work(gpu_percent: float, memory_bytes: int) -> Work:
    return Work(gpu_percent, memory_percent_of(gpu_percent), memory_bytes)


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
    """Holds each level up to the next: without it utilisation would slide from one frame to another."""
    steps: list[layout.Frame] = []
    for frame, following in zip(frames, [*frames[1:], None], strict=True):
        steps.append(frame)
        if following is not None and (frame.gpu_percent > 0) != (following.gpu_percent > 0):
            held = layout.Frame.from_buffer_copy(frame)
            held.time_ms, held.energy_mj = following.time_ms - 1, following.energy_mj
            held.gpu_c, held.memory_c = following.gpu_c, frame.memory_c
            steps.append(held)
    return steps
