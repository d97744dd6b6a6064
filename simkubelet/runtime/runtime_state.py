"""What one kubelet instance holds against its container runtime: no news of its state, no news of its containers.

Source: kubelet/runtime.go, ``runtimeErrors``; kubelet.go, ``updateRuntimeUp``, ``syncLoop``; pleg/generic.go,
``Healthy``, ``Relist`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from typing import Final

from ..model.clock import Clock
from .back_off import go_duration
from .cri import Cri, Silence

__all__ = ["RuntimeState"]

_STATUS_GRACE_S: Final = 30.0
_RELIST_GRACE_S: Final = 180.0


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
        """Why the node is not ready, in the kubelet's words; empty while the runtime is well."""
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
