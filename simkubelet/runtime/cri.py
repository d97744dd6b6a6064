"""Which calls of its kubelet a node's container runtime answers: all of them, as long as nobody says otherwise."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from .._internal.change import Change
from .._internal.first_done import first_done
from ..model.clock import Clock
from .cri_call import CriCall

__all__ = ["Cri", "Silence"]

_TIMEOUT_S: Final = 120.0
"""How long a kubelet waits for the answer to most calls. Source: ``RuntimeRequestTimeout`` (kubernetes v1.34.4)."""


_LISTS: Final = frozenset({CriCall.LIST_POD_SANDBOX, CriCall.LIST_CONTAINERS})


@dataclass(frozen=True, slots=True)
class Silence:
    """Since when something has not been answered: the node's time, and the number of the change with which it began."""

    since_s: float
    change: int


class Cri:
    """The runtime's side of the CRI; it belongs to the node and outlives its kubelets.

    Attributes:
        change: Told when it answers other calls than before.
        of_status: Since when a kubelet does not learn whether it is well; None while it does.
        of_lists: Since when a kubelet does not learn what runs, for which it needs both lists; None while it does.
    """

    def __init__(self, clock: Clock) -> None:
        self.change = Change()
        self.of_status: Silence | None = None
        self.of_lists: Silence | None = None
        self._clock = clock
        self._refused: frozenset[CriCall] = frozenset()
        self._is_paused = False

    @property
    def is_paused(self) -> bool:
        """Whether it answers nothing at all, not even with an error."""
        return self._is_paused

    def pause(self) -> None:
        """Answer nothing until `resume`."""
        self._is_paused = True
        self._changed()

    def resume(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._is_paused = False
        self._changed()

    def refuse(self, calls: Collection[CriCall]) -> None:
        """Answer these calls with an error from now on, and no others."""
        self._refused = frozenset(calls)
        self._changed()

    def restart(self) -> None:
        """Answer everything, as a runtime that has just been started."""
        self._is_paused, self._refused = False, frozenset()
        self._changed()

    async def until_resumed(self) -> None:
        """Wait for the answer to a call that a paused runtime holds back."""
        while self._is_paused:
            await self.change.wait(self.change.count)

    async def until_resumed_or_timeout(self) -> None:
        """Wait for the same, for as long as a kubelet does."""
        if self._is_paused:
            await first_done(self.until_resumed(), self._clock.sleep(_TIMEOUT_S))

    async def until_status(self) -> None:
        """Wait until it tells that it is well."""
        while self.of_status:
            await self.change.wait(self.change.count)

    async def until_lists(self) -> None:
        """Wait until it tells what runs."""
        while self.of_lists:
            await self.change.wait(self.change.count)

    def _changed(self) -> None:
        self.of_status = self._silence(self.of_status, is_silent=CriCall.STATUS in self._refused)
        self.of_lists = self._silence(self.of_lists, is_silent=bool(_LISTS & self._refused))
        self.change.notify()

    def _silence(self, before: Silence | None, *, is_silent: bool) -> Silence | None:
        if not (is_silent or self._is_paused):
            return None
        return before or Silence(self._clock.now(), self.change.count)
