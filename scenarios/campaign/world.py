"""The world of a random story: simulated, with its plugins as tasks of this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from ..backends.sim.backend import SimBackend
from ..backends.sim.changes import Pauses
from ..backends.sim.patience import FairTime, SimPatience
from ..story.model import Scenario

REAL_LIMIT_S: Final = 3.0
"""How long a story is waited for: a busy process may need it to let all of its stories come forward."""
_QUIET_TURNS: Final = 60
"""Turns of the event loop without an event after which the world has nothing to do."""


class CampaignWorld(SimBackend):
    """A simulated world in which no wait takes long in real time, as no process is waited for.

    All of its plugins are tasks of its own event loop, so it is idle where the loop is.

    Args:
        scenario: The story; all plugins are stubs without a tap.
        directory: Where the nodes' folder is made.
        real_limit_s: The longest wait in real time.
    """

    def __init__(self, scenario: Scenario, directory: Path | None, real_limit_s: float = REAL_LIMIT_S) -> None:
        super().__init__(scenario, directory, keep=False, plugin_commands={})
        self._real_limit_s = real_limit_s

    def patience(self, within_s: float) -> SimPatience:
        """Begin to wait: for `within_s` in node time, for some seconds at most in real time."""
        real_time = FairTime(min(within_s, self._real_limit_s))
        return SimPatience(self._clock, self.trace, lambda: self._observed, within_s, real_time)

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
