"""The world of a random story: simulated, with its plugins as tasks of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from simkubelet.model.clock import ManualClock

from ..backends.sim.backend import SimBackend
from ..backends.sim.changes import Pauses
from ..backends.sim.patience import FairTime, SimPatience
from ..story.model import Scenario
from ..trace.trace import Trace

_REAL_LIMIT_S: Final = 3.0
"""How long a world that never is idle is waited for: one of its plugins may do the same again and again."""
_QUIET_TURNS: Final = 60
"""Turns of the event loop without an event after which the world has nothing to do."""


class CampaignWorld(SimBackend):
    """A simulated world in which no wait takes long in real time, as no process is waited for.

    All of its plugins are tasks of its own event loop, so it is idle where the loop is.

    Args:
        scenario: The story; all plugins are stubs without a tap.
        directory: Where the nodes' folder is made.
    """

    def __init__(self, scenario: Scenario, directory: Path | None) -> None:
        super().__init__(scenario, directory, keep=False, plugin_commands={})

    def patience(self, within_s: float) -> SimPatience:
        """Begin to wait; see `IdlePatience`."""
        return IdlePatience(self._clock, self.trace, lambda: self._observed, within_s)

    async def settle(self) -> None:
        """Return when nothing has happened for some turns of the event loop."""
        seen, quiet = len(self.trace), 0
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self.trace) == seen else 0
            seen = len(self.trace)

    def pauses(self, node: str) -> Pauses:
        """What the start of a kubelet waits for: until the world is idle."""
        return Pauses(self.settle, self.settle)


class IdlePatience(SimPatience):
    """Waits until the world is idle and nothing is due within the wait, for some seconds at most in real time."""

    def __init__(self, clock: ManualClock, trace: Trace, observed: Callable[[], int], within_s: float) -> None:
        super().__init__(clock, trace, observed, within_s, FairTime(min(within_s, _REAL_LIMIT_S)))
        self._was_idle = False

    async def wait(self) -> bool:
        """See `Patience`: what leaves no event is looked for once more after the world was idle."""
        if self._is_over():
            return await self._leap()
        if await self._happens() or await self._leap():
            self._was_idle = False
            return True
        was_idle, self._was_idle = self._was_idle, True
        return not was_idle

    async def _happens(self) -> bool:
        for _ in range(_QUIET_TURNS):
            await asyncio.sleep(0)
            if len(self._trace) > self._observed():
                return True
        return False
