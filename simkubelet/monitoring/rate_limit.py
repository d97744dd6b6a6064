"""How many calls a server takes: a bucket of tokens that fills up with time, as Go's ``rate.Limiter``."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["RateLimit"]


class RateLimit:
    """A full bucket of `burst` tokens that gets `per_second` tokens a second.

    The seconds are real, as callers are real processes.

    Source: kubelet/apis/grpc/ratelimit.go (kubernetes v1.34.4); golang.org/x/time/rate, ``Limiter.Allow``.
    """

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._last = now()

    def allows(self) -> bool:
        """Take a token; False when there is none."""
        now = self._now()
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._per_second)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
