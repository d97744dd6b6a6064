"""How a kubelet follows the pods of its node."""

from __future__ import annotations

from collections.abc import Iterable

from ..._internal.change import Change
from ...model.pod import PodUID

__all__ = ["PodWatch"]


class PodWatch:
    """The pods of one node as they change; a kubelet sleeps through what happens on other nodes."""

    def __init__(self, pods: Iterable[PodUID]) -> None:
        self.change = Change()
        self._changed = dict.fromkeys(pods)

    def note(self, uid: PodUID) -> None:
        """A pod of the node was written or removed."""
        self._changed[uid] = None
        self.change.notify()

    def take(self) -> tuple[PodUID, ...]:
        """The pods that were written or removed since the last time, each once; first all of them."""
        changed, self._changed = self._changed, {}
        return tuple(changed)
