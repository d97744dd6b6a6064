"""The date of a cluster: seconds of its clock as the timestamps that API objects carry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ...model.clock import Clock

__all__ = ["WallTime"]

_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class WallTime:
    """Translates between seconds of a clock and RFC 3339 in UTC.

    Args:
        clock: the cluster's time.
        begin: the date at the clock's zero; today's where it is None.
    """

    def __init__(self, clock: Clock, begin: datetime | None = None) -> None:
        self._clock = clock
        self._begin = begin or datetime.now(UTC) - timedelta(seconds=clock.now())

    def elapsed(self) -> float:
        """The clock's seconds now."""
        return self._clock.now()

    def now(self) -> str:
        """The date now, to the second, as ``metav1.Time`` is written."""
        return self.date(self._clock.now())

    def now_micro(self) -> str:
        """The date now, to the microsecond, as ``metav1.MicroTime`` is written."""
        return (self._begin + timedelta(seconds=self._clock.now())).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def unix_nanos(self) -> int:
        """The date now, in nanoseconds since 1970."""
        return int(self._begin.timestamp() * 1e6) * 1000 + int(self._clock.now() * 1e9)

    def date(self, seconds: float) -> str:
        """The date at so many seconds of the clock; the last one that there is where that would be later."""
        left_s = (_LAST - self._begin).total_seconds()
        return (self._begin + timedelta(seconds=min(seconds, left_s))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds(self, date: str) -> float:
        """The clock's seconds at a date.

        Raises:
            ValueError: it is not a date.
        """
        return (datetime.fromisoformat(date) - self._begin).total_seconds()
