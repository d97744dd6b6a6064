"""How one board answers to work: power, temperature, clocks and fans for a utilisation.

The model is small and hangs together. Power rises straight from the idle draw to the power limit. Heat follows power
with one time constant, towards a temperature that is the board's own at rest and some degrees below its highest at
full power. Where the heat would pass the highest temperature (a hot aisle), the board draws just what holds it there,
and clocks fall with power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Self

from ..state import layout

ROOM_C: Final = 25.0
"""Air at the inlet for which the figures of a profile hold."""
TIME_CONSTANT_S: Final = 45.0
_FULL_BELOW_MAX_C: Final = 12.0
_DEFAULT_MAX_C: Final = 87
_THRESHOLD_GPU_MAX: Final = 3
_REASON_IDLE: Final = 0x1
_REASON_SOFTWARE_THERMAL: Final = 0x20
_MEMORY_SHARE: Final = 0.55
_MEMORY_HEAT_C: Final = 10.0
_FAN_AT_MAX_PERCENT: Final = 85
_PCIE_KB_PER_S: Final = (1_600_000, 900_000)


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
        heated = settled + (gpu_c - settled) * math.exp(-after_s / TIME_CONSTANT_S)
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


def memory_percent_of(gpu_percent: float) -> float:
    """How busy the memory is when nobody says: a good half of the utilisation, as with training."""
    return gpu_percent * _MEMORY_SHARE
