"""The node of a kubelet: what the kubelet is given (`NodeContext`), and what it publishes of the node.

The status is published at the kubelet's start, then every ten seconds if it has changed; the lease is renewed every
ten seconds. Both wait on the node's clock.

Source: kubelet/kubelet_node_status.go, ``syncNodeStatus``, ``tryUpdateNodeStatus`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ._internal.doors import Door
from .cluster_api import ClusterApi
from .model.clock import Clock
from .model.config import KubeletConfig
from .model.events import Observer
from .model.node import (
    NODE_STATUS_UPDATE_PERIOD_S,
    ConditionStatus,
    ConditionType,
    DeviceCapacity,
    NodeCondition,
    NodeStatus,
    ReportSchedule,
    has_changed,
    updated,
    with_conditions,
    with_extended_resources_reset,
)
from .runtime.cri import Cri, RuntimeState

__all__ = ["NodeContext", "NodeLease", "NodePublisher"]

_STATUS: Final = Door("status of a node")
_LEASE: Final = Door("lease of a node")
_COMPONENT: Final = "kubelet"
_LEASE_DURATION_S: Final = 40
_LEASE_PERIOD_S: Final = _LEASE_DURATION_S / 4


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a kubelet is given from outside; shared by everything on a node, and by all nodes of a cluster.

    Attributes:
        clock: the node's time.
        cluster: the cluster it belongs to.
        observe: called with every event of the node.
        tasks: owns the loops; a failure in one ends the group.
        renews_leases: whether kubelets renew the leases of their nodes; only a cluster with controllers reads these.
    """

    clock: Clock
    cluster: ClusterApi
    observe: Observer
    tasks: asyncio.TaskGroup
    renews_leases: bool = False


class NodePublisher:
    """The status updates of one kubelet process.

    Attributes:
        capacity: asked for the devices before each update; before the device manager has started there are none, so
            what was published of them before stays, and all of it is allocatable.

    Args:
        config: the node's name, version and machine.
        context: the cluster and the time.
        cri: asked for its version before each update.
        state: what there is against it.
        is_new_node: no kubelet has worked in this node's folder before.
        boot_id: of the machine now.
    """

    def __init__(
        self,
        config: KubeletConfig,
        context: NodeContext,
        cri: Cri,
        state: RuntimeState,
        *,
        is_new_node: bool,
        boot_id: str,
    ) -> None:
        self.capacity: Callable[[], DeviceCapacity] = lambda: DeviceCapacity({}, {}, frozenset())
        self._config = config
        self._cri = cri
        self._state = state
        self._cluster = context.cluster
        self._clock = context.clock
        self._schedule = ReportSchedule(seed=config.node)
        self._is_new_node = is_new_node
        self._boot_id = boot_id
        self._has_registered = False
        self._events = _NodeEvents(config.node, context.cluster)
        self._last = NodeStatus()

    @property
    def status(self) -> NodeStatus:
        """The node's published status; the last one if its object was removed, the first if there is no object yet.

        Source: kubelet/kubelet_getters.go, ``getNodeAnyWay`` (kubernetes v1.34.4).
        """
        node = self._cluster.node(self._config.node)
        self._last = self._last if node is None else node.status
        return self._last

    async def run(self) -> None:
        """Publish every ten seconds until cancelled."""
        while True:
            await self._clock.sleep(NODE_STATUS_UPDATE_PERIOD_S)
            await self._cri.until_resumed_or_timeout()
            with _STATUS(self._config.node, self._events.failed):
                self.publish()

    def register(self) -> None:
        """Publish for the first time; a node that was created again has no extended resources left."""
        if self._has_registered:
            self.publish()
            return
        self._has_registered = True
        self._events.started()
        node = self._cluster.node(self._config.node)
        if node is None:
            new = self._last = self._next(NodeStatus())
            self._events.changed((), new.conditions)
            self._cluster.register_node(self._config.node, new)
        elif self._is_new_node:
            self._cluster.publish_node(self._config.node, with_extended_resources_reset(node.status))
        self.publish()

    def publish(self) -> None:
        """Publish what has changed; without a change only a heartbeat, every five minutes or so.

        A node whose object was removed is registered again at the kubelet's next start, not before.
        """
        if self._cluster.node(self._config.node) is None:
            return
        old, now = self.status, self._clock.now()
        new = self._next(old)
        if old.boot_id and old.boot_id != self._boot_id:
            self._events.rebooted(self._boot_id)
        self._events.changed(old.conditions, new.conditions)
        is_changed = has_changed(old, new)
        if self._schedule.is_due(now, is_changed=is_changed):
            self._cluster.publish_node(self._config.node, new)
            self._schedule.reported(now, is_changed=is_changed)

    def _next(self, old: NodeStatus) -> NodeStatus:
        machine = replace(
            updated(old, self._config.machine, self.capacity()),
            kubelet_version=self._config.version.kubelet_version,
            boot_id=self._boot_id,
        )
        return with_conditions(machine, now=self._clock.now(), runtime_errors=self._state.errors())


class NodeLease:
    """The lease of one node, which shows that its kubelet runs.

    Source: component-helpers, apimachinery/lease/controller.go (v0.34.4); kubelet/kubelet.go, ``NewMainKubelet``
    (kubernetes v1.34.4): a lease of 40 s, renewed after a quarter of that.
    """

    def __init__(self, node: str, context: NodeContext) -> None:
        self._node = node
        self._cluster = context.cluster
        self._clock = context.clock

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            with _LEASE(self._node):
                self._cluster.renew_lease(self._node, _LEASE_DURATION_S)
            await self._clock.sleep(_LEASE_PERIOD_S)


class _NodeEvents:
    """The Kubernetes Events that a kubelet records about its own node.

    Source: kubelet/kubelet.go, ``BirthCry``; kubelet_node_status.go, ``recordNodeStatusEvent``; nodestatus/setters.go;
    cm/node_container_manager_linux.go, ``enforceNodeAllocatableCgroups`` (kubernetes v1.34.4).
    """

    def __init__(self, node: str, cluster: ClusterApi) -> None:
        self._node = node
        self._cluster = cluster
        self._has_recorded_reboot = False

    def started(self) -> None:
        """Record the start of a kubelet process, which remembers no Event of the one before."""
        self._cluster.forget_events(self._node, _COMPONENT)
        self._record("Starting", "Starting kubelet.")
        self._record("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")

    def rebooted(self, boot_id: str) -> None:
        """Record that the machine has another boot id than its status has, once for each kubelet process."""
        if not self._has_recorded_reboot:
            self._has_recorded_reboot = True
            text = f"Node {self._node} has been rebooted, boot id: {boot_id}"
            self._cluster.record_node_event(self._node, "Warning", "Rebooted", text, _COMPONENT)

    def changed(self, before: Sequence[NodeCondition], after: Sequence[NodeCondition]) -> None:
        """Record the conditions that have changed."""
        for reason in _reasons(before, after):
            self._record(reason, f"Node {self._node} status is now: {reason}")

    def failed(self, error: str) -> None:
        """Record that the node's status cannot be published."""
        self._record("FailedNodeStatusUpdate", error)

    def _record(self, reason: str, message: str) -> None:
        self._cluster.record_node_event(self._node, "Normal", reason, message, _COMPONENT)


def _reasons(before: Sequence[NodeCondition], after: Sequence[NodeCondition]) -> Iterable[str]:
    known = {condition.type: condition.status for condition in before}
    for condition in after:
        if condition.status is known.get(condition.type):
            continue
        if condition.type is not ConditionType.READY:
            yield condition.reason.replace("Kubelet", "Node", 1)
        elif condition.type in known:
            yield "NodeReady" if condition.status is ConditionStatus.TRUE else "NodeNotReady"
