"""Removes the ResourceSlices of drivers that a kubelet cannot use: of all when it starts, later of those that are gone.

Source: pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go, ``wipeResourceSlices``, ``sync``;
pkg/controller/tainteviction/timed_workers.go; k8s.io/apimachinery v0.34.4, pkg/util/wait/backoff.go
(kubernetes v1.34.4); cm/dra/plugin/registration.go, ``wipeResourceSlices``, ``DeRegisterPlugin`` (v1.32.13, v1.33.13).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final

from .._internal.doors import Door
from ..cluster_api import ResourceApi
from ..model.clock import Clock
from ..model.version import Difference, Version

__all__ = ["SliceWipes"]

_DELAY_S: Final = Difference(
    "seconds that a driver without a usable plugin has to come back before its ResourceSlices are wiped",
    {"1.26": 0, "1.33": 30},
    "pkg/kubelet/cm/dra/manager.go, ``GetWatcherHandler`` (kubernetes v1.32.13, v1.33.13)",
)
_RETURN_ENDS_WIPE: Final = Difference(
    "a driver that comes back while the API server does not answer to the wipe of its ResourceSlices ends the tries",
    {"1.26": False, "1.33": True, "1.34": False},
    "pkg/kubelet/cm/dra/plugin/registration.go, ``RegisterPlugin`` (kubernetes v1.32.13, v1.33.13); "
    "dra_plugin_manager.go, ``sync`` (v1.34.4)",
)

_WIPE: Final = Door("ResourceSlices of a driver that is gone")
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 300.0
_PAUSE_FACTOR: Final = 2.0
_PAUSE_JITTER: Final = 0.2


class SliceWipes:
    """The wipes of one node, from `start` to `stop`.

    Args:
        node: the node's name.
        cluster: where the slices are.
        version: the minor it behaves as.
        clock: the node's time.
        tasks: owns the wipes.
        delay_s: how long a driver has to come back, where it has time at all; None for as long as in that minor.
    """

    def __init__(
        self,
        node: str,
        cluster: ResourceApi,
        version: Version,
        *,
        clock: Clock,
        tasks: asyncio.TaskGroup,
        delay_s: float | None = None,
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._clock = clock
        self._group = tasks
        usual_s = _DELAY_S.at(version)
        self._delay_s = usual_s if delay_s is None or not usual_s else delay_s
        self._return_ends_wipe = _RETURN_ENDS_WIPE.at(version)
        self._gone: dict[str, asyncio.Task[None] | None] = {}
        """Driver -> what waits to wipe its slices; None once that has begun."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Wipe the slices of all drivers of the node: none is usable until it registers."""
        self._run(self._wipe(None))

    def stop(self) -> None:
        """Wipe nothing any more; may be called twice."""
        for task in self._tasks:
            task.cancel()

    def set_usable(self, driver: str, is_usable: bool) -> None:
        """Take whether a driver can be called; repeating it changes nothing.

        A driver that comes back while its slices are being wiped does not end that.
        """
        if is_usable:
            if (waiting := self._gone.pop(driver, None)) is not None:
                waiting.cancel()
        elif driver not in self._gone:
            begun = self._run(self._wipe_later(driver))
            # Without a delay the wipe has begun.
            self._gone[driver] = begun if self._delay_s else None

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work, name=f"ResourceSlices of {self._node}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _wipe_later(self, driver: str) -> None:
        if self._delay_s:
            await self._clock.sleep(self._delay_s)
        if not self._return_ends_wipe:
            self._gone[driver] = None
        await self._wipe(driver)

    async def _wipe(self, driver: str | None) -> None:
        """Delete the slices of one driver or of all; tried again, with growing pauses, for four minutes."""
        selector = (
            {"spec.nodeName": self._node} if driver is None else {"spec.driver": driver, "spec.nodeName": self._node}
        )
        pause_s = _FIRST_PAUSE_S
        while True:
            with _WIPE(driver or "all drivers"):
                if await self._cluster.delete_resource_slices(selector):
                    return
            if pause_s * _PAUSE_FACTOR > _LONGEST_PAUSE_S:
                return
            await self._clock.sleep(pause_s * (1 + _PAUSE_JITTER * random.random()))  # noqa: S311  # no secret
            pause_s *= _PAUSE_FACTOR
