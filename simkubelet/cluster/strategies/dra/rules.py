"""What decides how objects of resource.k8s.io are checked: the release of the API server, and its gates."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

from ....model.version import Difference, Version

__all__ = ["Rules"]

T = TypeVar("T")


class Rules(NamedTuple):
    """A release, and those of its gates of devices that are on; see `gates_of`."""

    release: Version
    gates: Collection[str]

    def of(self, difference: Difference[T]) -> T:
        """What a difference between releases is here."""
        return difference.at(self.release)
