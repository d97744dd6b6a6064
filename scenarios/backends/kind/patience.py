"""The time of a real cluster: it cannot be moved, only waited for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from ...trace.trace import Trace

PACE: Final = 6.0
"""How many seconds a story's second is here: a real kubelet publishes every ten, and starts real containers."""
_LOOK_S: Final = 0.5


class RealPatience:
    """Waits in real time, until something happens or for a moment.

    Args:
        trace: What happens.
        within_s: How long, as the story counts.
    """

    def __init__(self, trace: Trace, within_s: float) -> None:
        self._trace = trace
        self._limit = time.monotonic() + within_s * PACE
        self._seen = len(trace)

    async def wait(self) -> bool:
        """See `Patience`."""
        left_s = self._limit - time.monotonic()
        if left_s <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, _LOOK_S)):
                await self._trace.longer_than(self._seen)
        self._seen = len(self._trace)
        return True
