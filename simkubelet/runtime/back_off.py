"""How long a container that ended waits before it is started again: the kubelet's CrashLoopBackOff.

Source: client-go/util/flowcontrol/backoff.go (v0.34.4); kubelet/kubelet.go, ``newCrashLoopBackOff``;
kubelet_pods.go, ``HandlePodCleanups``, which drops old entries whether or not their containers still run (kubernetes
v1.34.4). A kubelet keeps it in memory, so it starts from zero after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..model.clock import Clock
from ..model.config import KubeletConfig
from ..model.pod import PodUID

__all__ = ["RESET_AFTER_S", "CrashLoopBackOff", "go_duration"]

RESET_AFTER_S: Final = 600.0
"""After this long since a container's last start its pause is forgotten."""

_ROUNDING_S: Final = 1e-6
"""Sums of pauses are not exact: what is less than this is over."""


@dataclass(frozen=True, slots=True)
class _Entry:
    delay_s: float
    started_at: float


class CrashLoopBackOff:
    """(pod, container) -> the pause before its next start; doubles with each start that follows an early end.

    Args:
        now: the node's time.
        initial_s: the first pause.
        max_s: the longest.
    """

    def __init__(self, now: Callable[[], float], *, initial_s: float = 10.0, max_s: float = 300.0) -> None:
        self._now = now
        self._initial_s = initial_s
        self._max_s = max_s
        self._entries: dict[tuple[PodUID, str], _Entry] = {}

    @classmethod
    def of(cls, config: KubeletConfig, clock: Clock) -> CrashLoopBackOff:
        """The pauses of a kubelet; the gate ReduceDefaultCrashLoopBackOffDecay, off by default, makes them shorter."""
        if config.is_on("ReduceDefaultCrashLoopBackOffDecay"):
            return cls(clock.now, initial_s=1.0, max_s=60.0)
        return cls(clock.now)

    def remaining_s(self, pod: PodUID, container: str, finished_at: float) -> float:
        """Seconds until a container that ended at `finished_at` may be started; 0 when it may be at once."""
        entry = self._entries.get((pod, container))
        if entry is None:
            return 0.0
        remaining_s = min(finished_at + entry.delay_s, entry.started_at + RESET_AFTER_S) - self._now()
        return remaining_s if remaining_s > _ROUNDING_S else 0.0

    def delay_s(self, pod: PodUID, container: str) -> float:
        """The whole pause that a container is in."""
        entry = self._entries.get((pod, container))
        return 0.0 if entry is None else entry.delay_s

    def started(self, pod: PodUID, container: str) -> None:
        """A container that has ended is started again."""
        entry, now = self._entries.get((pod, container)), self._now()
        delay_s = self._initial_s
        if entry is not None and now - entry.started_at < RESET_AFTER_S:
            delay_s = min(entry.delay_s * 2, self._max_s)
        self._entries[pod, container] = _Entry(delay_s, now)

    def forget(self, pod: PodUID) -> None:
        """Drop what is known of a pod that has ended."""
        for key in [key for key in self._entries if key[0] == pod]:
            del self._entries[key]


def go_duration(seconds: float) -> str:
    """Whole seconds as Go prints a duration: ``10s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
