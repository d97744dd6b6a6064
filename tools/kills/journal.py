"""What was acknowledged before kills, what was under way at one, and what is lost after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 20


@dataclass(slots=True)
class Journal:
    """The counts of one kind of process.

    Attributes:
        kills: Processes that were killed.
        acknowledged: Changes that a process had confirmed, all of which have to be there afterwards.
        found_done: Changes under way at a kill that were there afterwards; the others were not.
        lost: What was confirmed and was not there, or was there and must not be; the first ones.
        losses: How many.
    """

    kills: int = 0
    acknowledged: int = 0
    found_done: int = 0
    losses: int = 0
    lost: list[str] = field(default_factory=list)

    def lose(self, what: str) -> None:
        """Count a loss."""
        self.losses += 1
        if len(self.lost) < _MOST:
            self.lost.append(f"after {self.kills} kills: {what}")

    def lose_each(self, what: Iterable[str]) -> None:
        """Count each of some losses."""
        for one in what:
            self.lose(one)
