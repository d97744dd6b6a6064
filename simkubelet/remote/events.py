"""Kubernetes Events of the kubelets of this process, on their way to the server.

Which Events are repeats, which are combined and which are too many is decided by the recorder that simulated clusters
have (`EventRecorder`), over objects that stay here; each write to these is sent. So an Event that is repeated while
the server is away is sent once, with its count. Events that the server refuses are dropped, as by real kubelets.

Source: client-go, tools/record/event.go, ``recordEvent``; tools/record/events_cache.go, ``eventObserve`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .._internal.change import Change
from ..cluster.objects.events import PodEvents
from ..cluster.objects.objects import Key, Objects, Verb, WallTime, Written
from ..model.clock import Clock
from ..model.events import Observer
from .back_off import WorkQueue
from .client import ApiClient, ApiError

__all__ = ["RemoteEvents"]

_log = logging.getLogger(__name__)


class RemoteEvents:
    """Records and sends Events.

    Args:
        client: of the server.
        wall_time: the date.
        clock: the time of pauses.
        observe: called with each Event about a pod.
        tasks: owns what is sent.
        complain: called with what goes wrong.

    Attributes:
        pods: records Events about pods.
    """

    def __init__(
        self,
        client: ApiClient,
        wall_time: WallTime,
        clock: Clock,
        observe: Observer,
        tasks: asyncio.TaskGroup,
        complain: Callable[[str], None],
    ) -> None:
        self._client = client
        self._objects = Objects(wall_time)
        self._known: set[Key] = set()
        self._queue: WorkQueue[Key] = WorkQueue(self._send, tasks, clock, complain)
        self.pods = PodEvents(self._objects, observe, Change())
        self._objects.subscribe("events", self._follow)

    def record_node_event(self, node: str, type_: str, reason: str, message: str, component: str) -> None:
        """See `ClusterApi`."""
        # To a kubelet, its node's name is the node's uid.
        about = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
        self.pods.recorder.record(about, type_, reason, message, component, host=node)

    async def until_sent(self) -> None:
        """Return when the server has all of them."""
        await self._queue.until_done()

    async def close(self) -> None:
        """Send nothing more."""
        await self._queue.close()

    def _follow(self, written: Written) -> None:
        if written.verb is Verb.DELETED:
            self._known.discard(written.key)
        else:
            self._queue.add(written.key)

    async def _send(self, key: Key) -> None:
        event = self._objects.get(key)
        if event is None:
            return
        events = f"/api/v1/namespaces/{key.namespace}/events"
        try:
            if key in self._known:
                repeated = {name: event[name] for name in ("count", "lastTimestamp", "message")}
                try:
                    await self._client.patch(f"{events}/{key.name}", repeated)
                    return
                except ApiError as error:
                    if error.status != 404:
                        raise
            body = {**event, "metadata": {"name": key.name, "namespace": key.namespace}}
            await self._client.call("POST", events, body)
            self._known.add(key)
        except ApiError as error:
            if error.status in (0, 429) or error.status >= 500:
                raise
            _log.warning("the server rejects Event %s: %s", key.name, error)
