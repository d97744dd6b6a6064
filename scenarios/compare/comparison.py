"""One story in two worlds: each goes on for a while when the story has ended, until both have told the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..backends.backend import Backend
from ..story.model import Scenario
from ..story.verbs.node_action import Advance
from ..trace.trace import Entry
from .equivalence import Divergence, compare
from .normal_form import normal_form

_PERIODS: Final = 2
_PERIOD: Final = Advance.model_validate("10s")
"""How the simulator goes on: a status of the nodes, and what follows from it."""
_REAL_S: Final = 3.0
"""How long a cluster is waited for, in a story's seconds."""


class Comparison:
    """First the simulator plays the story, then a cluster; each method is given to its `runner.play`."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._simulated: Sequence[Entry] = ()
        self.divergence: Divergence | None = None

    async def simulate_on(self, backend: Backend) -> None:
        """Let the simulator go on, and keep what it has told."""
        for _ in range(_PERIODS):
            await backend.perform(_PERIOD)
        self._simulated = backend.trace[:]

    async def wait_for_the_same(self, backend: Backend) -> None:
        """Let a cluster go on until it has told the same as the simulator; `divergence` is what differs for good.

        Nothing is compared where the story failed on the simulator.
        """
        if not self._simulated:
            return
        simulated = normal_form(self._simulated, self._scenario)
        patience = backend.patience(_REAL_S)
        while True:
            real = normal_form(backend.trace[:], self._scenario)
            self.divergence = compare(simulated, real, ("sim", "kind"))
            if self.divergence is None or not await patience.wait():
                return
