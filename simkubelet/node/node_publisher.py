"""Publishes a node's status: at the kubelet's start, and every ten seconds whatever is new.

Source: kubelet/kubelet_node_status.go, ``syncNodeStatus``, ``tryUpdateNodeStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable

from ..devices.device_manager import DeviceCapacity
from ..model.config import KubeletConfig
from ..model.node_status import (
    NODE_STATUS_UPDATE_PERIOD_S,
    NodeStatus,
    ReportSchedule,
    has_changed,
    updated,
    with_conditions,
    with_extended_resources_reset,
)
from ..runtime.cri import Cri
from ..runtime.runtime_state import RuntimeState
from .context import Surroundings
from .node_events import NodeEvents

__all__ = ["NodePublisher"]


class NodePublisher:
    """The status updates of one kubelet process.

    Attributes:
        capacity: asked for the devices before each update; before the device manager has started there are none, so
            what was published of them before stays, and all of it is allocatable.

    Args:
        config: the node's name, version and machine.
        surroundings: the cluster and the time.
        cri: asked for its version before each update.
        state: what there is against it.
        is_new_node: no kubelet has worked in this node's folder before.
    """

    def __init__(
        self,
        config: KubeletConfig,
        surroundings: Surroundings,
        cri: Cri,
        state: RuntimeState,
        *,
        is_new_node: bool,
    ) -> None:
        self.capacity: Callable[[], DeviceCapacity] = lambda: DeviceCapacity({}, {}, frozenset())
        self._config = config
        self._cri = cri
        self._state = state
        self._store = surroundings.store
        self._clock = surroundings.clock
        self._schedule = ReportSchedule(seed=config.node)
        self._is_new_node = is_new_node
        self._has_registered = False
        self._events = NodeEvents(config.node, surroundings.store)
        self._last = NodeStatus()

    @property
    def status(self) -> NodeStatus:
        """The node's status as it is published, or was when somebody removed the node's object."""
        self._last = self._store.nodes.get(self._config.node, self._last)
        return self._last

    async def run(self) -> None:
        """Publish every ten seconds until cancelled."""
        while True:
            await self._clock.sleep(NODE_STATUS_UPDATE_PERIOD_S)
            await self._cri.until_resumed_or_timeout()
            self.publish()

    def register(self) -> None:
        """Publish for the first time; a node that was made anew has no extended resources left."""
        if self._has_registered:
            self.publish()
            return
        self._has_registered = True
        self._events.started()
        status = self._store.nodes.get(self._config.node)
        if status is None:
            new = self._next(NodeStatus())
            self._events.changed((), new.conditions)
            self._store.register_node(self._config.node, new)
        elif self._is_new_node:
            self._store.publish_node(self._config.node, with_extended_resources_reset(status))
        self.publish()

    def publish(self) -> None:
        """Publish what has changed; without a change, only that the node still lives, every five minutes or so.

        A node whose object somebody has removed comes back at the kubelet's next start, not before.
        """
        if self._config.node not in self._store.nodes:
            return
        old, now = self.status, self._clock.now()
        new = self._next(old)
        self._events.changed(old.conditions, new.conditions)
        is_changed = has_changed(old, new)
        if self._schedule.is_due(now, is_changed=is_changed):
            self._store.publish_node(self._config.node, new)
            self._schedule.reported(now, is_changed=is_changed)

    def _next(self, old: NodeStatus) -> NodeStatus:
        return with_conditions(
            updated(old, self._config.machine, self.capacity()),
            kubelet_version=self._config.version.kubelet_version,
            now=self._clock.now(),
            runtime_errors=self._state.errors(),
        )
