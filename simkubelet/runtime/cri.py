"""The CRI as one kubelet sees it: which calls the container runtime answers, and the runtime's state as a result.

The runtime answers all calls until a story makes it silent.

Source: kubelet/runtime.go, ``runtimeErrors``; kubelet.go, ``updateRuntimeUp``, ``syncLoop``; pleg/generic.go,
``Healthy``, ``Relist`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from .._internal.change import Change, first_done
from ..golang.text import go_duration
from ..model.clock import Clock
from .cri_call import CriCall

__all__ = ["Cri", "RuntimeState", "Silence"]


_TIMEOUT_S: Final = 120.0
"""How long a kubelet waits for the answer to most calls. Source: ``RuntimeRequestTimeout`` (kubernetes v1.34.4)."""
_LISTS: Final = frozenset({CriCall.LIST_POD_SANDBOX, CriCall.LIST_CONTAINERS})
_STATUS_GRACE_S: Final = 30.0
_RELIST_GRACE_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Silence:
    """Since when something has not been answered: the node's time, and the number of the change with which it began."""

    since_s: float
    change: int


class Cri:
    """The runtime's side of the CRI; it belongs to the node and outlives its kubelets.

    Attributes:
        change: Notified when it answers other calls than before.
        of_status: Since when a kubelet does not learn whether the runtime is healthy; None while it does.
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
        """Wait until it answers that it is ready."""
        while self.of_status:
            await self.change.wait(self.change.count)

    async def until_lists(self) -> None:
        """Wait until it answers which containers run."""
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


class RuntimeState:
    """Errors of the runtime, for a kubelet that starts when this object is made.

    Args:
        cri: The node's runtime.
        clock: The node's time.
    """

    def __init__(self, cri: Cri, clock: Clock) -> None:
        self._cri = cri
        self._clock = clock
        self._start = cri.change.count

    def errors(self) -> tuple[str, ...]:
        """Return why the node is not ready, as the kubelet's messages; empty while the runtime is healthy."""
        errors = []
        if silence := self._cri.of_status:
            if silence.change < self._start:
                errors.append("container runtime status check may not have completed yet")
            elif self._seconds_of(silence) >= _STATUS_GRACE_S:
                errors.append("container runtime is down")
        if silence := self._cri.of_lists:
            if silence.change < self._start:
                errors.append("PLEG is not healthy: pleg has yet to be successful")
            elif (elapsed_s := self._seconds_of(silence)) > _RELIST_GRACE_S:
                elapsed, limit = go_duration(elapsed_s), go_duration(_RELIST_GRACE_S)
                errors.append(f"PLEG is not healthy: pleg was last seen active {elapsed} ago; threshold is {limit}")
        return tuple(errors)

    async def until_well(self) -> None:
        """Wait until there is no error; a kubelet takes no news of pods before."""
        while self.errors():
            await self._cri.change.wait(self._cri.change.count)

    def _seconds_of(self, silence: Silence) -> float:
        return self._clock.now() - silence.since_s
