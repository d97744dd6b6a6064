"""When a fault comes, and for how long: now, after a while, again and again."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from ..errors import InputError

_UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)?")
_SHORTEST_PERIOD_US: Final = 1_000
_LONGEST_US: Final = 366 * 24 * 3_600_000_000


def parse_duration_us(text: str) -> int:
    """Microseconds of ``500ms``, ``30s``, ``2m``, ``1h``; a plain number means seconds.

    Raises:
        InputError: not a duration, or longer than a year.
    """
    found = _DURATION.fullmatch(text.strip())
    if not found:
        raise InputError(f"'{text}' is no duration: write 500ms, 30s, 2m or 1h")
    microseconds = float(found.group(1)) * _UNITS_US[found.group(2) or "s"]
    if microseconds > _LONGEST_US:
        raise InputError(f"'{text}' is longer than a year")
    return round(microseconds)


@dataclass(frozen=True, slots=True)
class When:
    """When something happens, counted from the call that asks for it.

    Attributes:
        after_us: microseconds until the first time.
        every_us: microseconds between two times; None: only once.
        times: how often; None: for ever.
    """

    after_us: int = 0
    every_us: int | None = None
    times: int | None = None

    @classmethod
    def of(cls, after: str | float = 0, every: str | float | None = None, times: int | None = None) -> When:
        """From durations: seconds, or texts as ``parse_duration_us`` reads.

        Raises:
            InputError: not a duration, shorter than a millisecond between two times, or less than one time.
        """
        every_us = None if every is None else parse_duration_us(str(every))
        if every_us is not None and every_us < _SHORTEST_PERIOD_US:
            raise InputError(f"every {every}: a millisecond is the shortest")
        if times is not None and times < 1:
            raise InputError(f"{times} times: at least once")
        if times is not None and times > 1 and every_us is None:
            raise InputError(f"{times} times: say how often, every 5s")
        return cls(parse_duration_us(str(after)), every_us, times)

    @property
    def is_now(self) -> bool:
        """Whether it happens once and at once."""
        return self.after_us == 0 and self.every_us is None


NOW: Final = When()


def now_us() -> int:
    """Microseconds since 1970, by which the library knows what is due."""
    return time.time_ns() // 1000
