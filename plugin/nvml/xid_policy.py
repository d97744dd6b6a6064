"""Which XIDs say nothing about the health of a GPU; pure.

Source: internal/rm/health.go, ``getDisabledHealthCheckXids`` (k8s-device-plugin v0.19.0). Where its comment and its
code differ, the code is followed: ``all`` disabled stays disabled, whatever single XIDs are enabled, and 0 acts as
``all``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["APPLICATION_XIDS", "DISABLE_VARIABLE", "ENABLE_VARIABLE", "XidPolicy"]

DISABLE_VARIABLE: Final = "DP_DISABLE_HEALTHCHECKS"
ENABLE_VARIABLE: Final = "DP_ENABLE_HEALTHCHECKS"

APPLICATION_XIDS: Final = frozenset((13, 31, 43, 45, 68, 109))
"""Errors of an application, after which the GPU is as good as before."""

_ALL: Final = 0
_LARGEST_XID: Final = 2**64 - 1


class XidPolicy(NamedTuple):
    """The XIDs that are ignored and those that are looked at, as they were listed; 0 stands for every XID."""

    ignored: frozenset[int]
    watched: frozenset[int]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> XidPolicy:
        """Read the two variables; what is no XID in them is passed over."""
        return cls(
            ignored=_xids(environment.get(DISABLE_VARIABLE, "")) | APPLICATION_XIDS,
            watched=_xids(environment.get(ENABLE_VARIABLE, "")),
        )

    @property
    def ignores_everything(self) -> bool:
        """Whether there is no health check at all."""
        return _ALL in self.ignored and _ALL not in self.watched

    def ignores(self, xid: int) -> bool:
        """Whether a GPU with this XID stays healthy."""
        if _ALL in self.watched or xid in self.watched:
            return False
        return xid in self.ignored or _ALL in self.ignored


def _xids(text: str) -> frozenset[int]:
    entries = [entry.strip() for entry in text.lower().split(",")]
    if "all" in entries or "xids" in entries:
        return frozenset((_ALL,))
    numbers = (int(entry) for entry in entries if re.fullmatch("[0-9]+", entry))
    return frozenset(number for number in numbers if number <= _LARGEST_XID)
