"""Notices a new ``kubelet.sock``: the one sign of a restarted kubelet that a plugin gets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from types import TracebackType
from typing import Self

from asyncinotify import Inotify, Mask

from simkubelet.apis.deviceplugin import KUBELET_SOCKET_NAME

__all__ = ["KubeletWatch"]


class KubeletWatch:
    """Watches the plugins' folder from its construction on; what happens before `created` is iterated is not lost."""

    def __init__(self, kubelet_dir: Path) -> None:
        self._kubelet_dir = kubelet_dir
        self._inotify = Inotify()
        self._inotify.add_watch(kubelet_dir, Mask.CREATE | Mask.MOVED_TO | Mask.ONLYDIR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inotify.close()

    async def created(self) -> AsyncGenerator[None, None]:
        """One item for each new ``kubelet.sock``, made in place or moved there; never ends by itself.

        The folder removed under a plugin that serves is not noticed: the plugin's own socket keeps it in being.
        """
        async for event in self._inotify:
            # After an overflow of the event queue a new socket cannot be excluded.
            if str(event.name) == KUBELET_SOCKET_NAME or Mask.Q_OVERFLOW in event.mask:
                yield
