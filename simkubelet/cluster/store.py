"""The cluster as kubelets and the scheduler see it: typed pods, nodes and Events over the objects of the API.

What they write here is merged into the objects as the real ones' patches are; what others write into the objects is
read from there. Either way the change is noted, and reported to the `Observer`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from .._internal.change import Change
from ..cluster_api import ClusterApi, PodWatch
from ..model.errors import InputError
from ..model.events import SIMULATOR, Observer, PodRemoved, PodScheduled, PodStatusUpdated
from ..model.node import Node, NodeStatus
from ..model.pod import Pod, PodUID, pod_from_manifest
from ..model.pod_status import Condition, ConditionType, PodPhase, PodStatus
from ..model.short_texts import cached_if_short
from ..model.version import DEFAULT, Version, version
from .api.registry.kinds import kind_named
from .objects.events import EVENT_TTL_S, EventRecorder, KubeEvent, PodEvents
from .objects.nodes import HOST, Nodes, pod_address
from .objects.objects import JSON, Key, Objects, Verb, Written, with_deletion
from .objects.pod_json import (
    CLEARS_NOMINATION,
    OBSERVES_GENERATION,
    WrittenStatuses,
    condition_json,
    kubelet_status_json,
    pod_key,
    read_pod,
    reread_pod,
    with_condition,
)
from .objects.stored_sizes import TOO_LARGE, Sized, sized
from .strategies.pod.not_simulated import not_simulated
from .strategies.pods import created_pod, decoded_pod
from .strategies.priority_classes import PriorityError
from .strategies.table import server_rules

__all__ = ["Store"]

_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_SLICES: Final = "resourceslices.resource.k8s.io"
_log = logging.getLogger(__name__)


class Store(ClusterApi):
    """Pods, nodes and Events of one cluster; `change` is notified of every change of them except heartbeats.

    Args:
        objects: what is stored; nothing of these kinds is in there yet.
        observe: called with each change.
        event_ttl_s: how long Events stay, see `EventRecorder`.
        gates: feature gate of the API server -> whether it is on, of those that a user has set.
    """

    def __init__(
        self,
        objects: Objects,
        observe: Observer,
        event_ttl_s: float = EVENT_TTL_S,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.objects = objects
        self._gates = gates or {}
        self.change = Change()
        self._events = PodEvents(objects, observe, self.change, event_ttl_s)
        self._nodes = Nodes(objects, observe, self.change)
        self._observe = observe
        self._pods: dict[PodUID, Pod] = {}
        self._written: dict[PodUID, WrittenStatuses] = {}
        self._sizes: dict[PodUID, Sized] = {}
        self._names: dict[str, PodUID] = {}
        self._on_node: dict[str, dict[PodUID, None]] = {}
        self._watches: dict[str, list[PodWatch]] = {}
        self._created = 0
        self._own_pod: Pod | None = None
        objects.record_failure = self._record_failure
        objects.subscribe("pods", self._follow_pod)

    @property
    def recorder(self) -> EventRecorder:
        """Records Events about any object."""
        return self._events.recorder

    # Reading

    def read_object(self, kind: str, namespace: str, name: str) -> JSON | None:
        return self.objects.get(Key(kind, namespace, name))

    async def resource_claim(self, namespace: str, name: str) -> JSON | None:
        return self.objects.get(Key(_CLAIMS, namespace, name))

    def put_claim(self, claim: JSON) -> None:
        """Create a ResourceClaim; one that is there gets the status of this one, as from a scheduler."""
        key = Key(_CLAIMS, claim["metadata"]["namespace"], claim["metadata"]["name"])
        known = self.objects.get(key)
        if known is None:
            self.objects.create(key, claim)
        else:
            self.objects.replace(key, {**known, "status": claim["status"]})

    async def delete_resource_slices(self, selector: Mapping[str, str]) -> bool:
        node = selector.get("spec.nodeName")
        if node is not None and self.node(node) is None:
            return False
        for one in self.objects.all_of(_SLICES):
            if all(_field(one, path) == value for path, value in selector.items()):
                self._remove_slice(one)
        return True

    def _remove_slice(self, one: JSON) -> None:
        key = Key(_SLICES, "", one["metadata"]["name"])
        if one["metadata"].get("finalizers"):
            self.objects.replace(key, with_deletion(one, 0, self.objects.wall_time))
        else:
            self.objects.remove(key)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods, oldest first."""
        return tuple(self._pods.values())

    @property
    def nodes(self) -> Mapping[str, NodeStatus]:
        """Node -> its status; a view, which follows."""
        return MappingProxyType(self._nodes.statuses)

    @property
    def all_nodes(self) -> tuple[Node, ...]:
        """All nodes, oldest first."""
        return tuple(self._nodes.by_name.values())

    def node(self, name: str) -> Node | None:
        return self._nodes.by_name.get(name)

    def pod(self, uid: PodUID) -> Pod | None:
        return self._pods.get(uid)

    def pod_named(self, key: str) -> Pod | None:
        """The pod of this `Pod.key`."""
        uid = self._names.get(key)
        return None if uid is None else self._pods[uid]

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods that are bound to a node, in the order in which they came."""
        return tuple(self._pods[uid] for uid in self._on_node.get(node, ()))

    def watch_pods(self, node: str) -> PodWatch:
        """Begin to follow the pods of a node; `end_watch` ends it."""
        watch = PodWatch(self._on_node.get(node, ()))
        self._watches.setdefault(node, []).append(watch)
        return watch

    def end_watch(self, node: str, watch: PodWatch) -> None:
        """Stop following; may be called twice."""
        self._watches[node] = [other for other in self._watches.get(node, ()) if other is not watch]

    def events_of(self, uid: PodUID) -> tuple[KubeEvent, ...]:
        """Events about a pod, oldest first; those about a static pod are its mirror's."""
        pod = self._pods.get(uid)
        about = uid if pod is None or pod.mirror_of is None else pod.mirror_of
        return self._events.about(about)

    # Pods

    def create_pod(self, manifest: Mapping[str, Any]) -> Pod:
        """Take a v1 Pod manifest.

        Raises:
            InputError: the API server would refuse it, or a pod of that name is there.
        """
        pod = pod_from_manifest(manifest)
        if self.pod_named(pod.key) is not None:
            raise InputError(f"pods {pod.name!r} already exists")
        rules = server_rules(self._control_plane, self._gates)
        try:
            body = created_pod(decoded_pod(manifest), self.objects, rules)
        except PriorityError as error:
            raise InputError(f"pod {pod.name!r}: {error}") from None
        body["metadata"] = {**body["metadata"], "uid": pod.uid}
        self._own_pod = pod
        self.objects.create(pod_key(pod), body)
        return self._pods[pod.uid]

    def delete_pod(self, uid: PodUID, grace_s: float | None = None) -> None:
        """Ask for the end of a pod, within `grace_s` seconds or as its manifest says.

        A pod that no node has, or that has ended, is removed at once; so is any other with a grace of 0, whatever
        still runs of it. The others go when their kubelet says so. Asking again can only shorten the grace.

        Source: pkg/registry/core/pod/strategy.go, ``CheckGracefulDelete`` (kubernetes v1.34.4).
        """
        pod = self._pods[uid]
        grace_s = pod.grace_s if grace_s is None else grace_s
        if pod.node_name is None or pod.status.phase.is_terminal or grace_s <= 0:
            self.remove_pod(uid)
        elif pod.deletion_grace_s is None or grace_s < pod.deletion_grace_s:
            self.objects.replace(pod_key(pod), with_deletion(pod.manifest, int(grace_s), self.objects.wall_time))

    def remove_pod(self, uid: PodUID) -> None:
        """Drop a pod object for good; one with finalizers stays until they are gone."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if pod.manifest["metadata"].get("finalizers"):
            self.objects.replace(pod_key(pod), with_deletion(pod.manifest, 0, self.objects.wall_time))
        else:
            self.objects.remove(pod_key(pod))

    def bind(self, uid: PodUID, node: str) -> None:
        """Give a pod to a node.

        Source: registry/core/pod/storage/storage.go, ``setPodNodeAndMetadata`` (kubernetes v1.34.4).
        """
        pod, condition = self._pods[uid], Condition(ConditionType.SCHEDULED, True)
        status = with_condition(pod.manifest, self._condition_json(pod, condition, 0))
        if CLEARS_NOMINATION.at(self._control_plane):
            status.pop("nominatedNodeName", None)
        body = {**pod.manifest, "spec": {**pod.manifest["spec"], "nodeName": node}, "status": status}
        self._write_pod(replace(pod, node_name=node, status=_with_condition(pod.status, condition)), body)

    def set_pod_status(self, uid: PodUID, status: PodStatus) -> None:
        """Publish a pod's status as its kubelet; nothing happens when it is unchanged or the pod is gone.

        One that etcd does not take is lost; the kubelet tries again with the next one.

        Source: kubelet/status/status_manager.go, ``syncPod`` (kubernetes v1.34.4).
        """
        pod = self._pods.get(uid)
        if pod is None:
            return
        announced = pod.status.condition(ConditionType.DISRUPTION_TARGET)
        if announced is not None:
            status = replace(status, conditions=(announced, *status.conditions))
        if pod.status == status:
            return
        kubelet = self._version_on(pod.node_name)
        addresses = (HOST, self._address(pod, status))
        written = self._written.setdefault(uid, {})
        new = kubelet_status_json(pod.manifest, status, kubelet, self.objects.wall_time, addresses, written)
        body = {**pod.manifest, "status": new}
        now = self._sizes[uid] = sized(body, self._sizes.get(uid))
        if now.is_too_large:
            _log.error('Failed to update status for pod "%s/%s": %s', pod.namespace, pod.name, TOO_LARGE)
            return
        self._write_pod(replace(pod, status=status), body)

    def patch_pod_status(
        self,
        uid: PodUID,
        condition: Condition,
        nominated_node_name: str | None = None,
        *,
        phase: PodPhase | None = None,
    ) -> None:
        """Set one condition of a pod as the scheduler does; nothing happens when nothing is new or the pod is gone.

        Args:
            uid: the pod's.
            condition: takes the place of the one of its type.
            nominated_node_name: the node that others are to leave for it; None leaves it as it is, empty takes it back.
            phase: takes the place of the one that the pod has.

        Source: scheduler/schedule_one.go, ``updatePod`` (kubernetes v1.34.4).
        """
        pod = self._pods.get(uid)
        if pod is None:
            return
        generation = pod.manifest["metadata"].get("generation", 0) if OBSERVES_GENERATION.at(self._control_plane) else 0
        status = with_condition(pod.manifest, self._condition_json(pod, condition, generation))
        if nominated_node_name is not None:
            status["nominatedNodeName"] = nominated_node_name
        if not status.get("nominatedNodeName"):
            status.pop("nominatedNodeName", None)
        known = _with_condition(pod.status, condition)
        if phase is not None:
            status["phase"], known = phase.value, replace(known, phase=phase)
        self._write_pod(replace(pod, status=known), {**pod.manifest, "status": status})

    # Nodes

    def register_node(self, node: str, status: NodeStatus) -> None:
        """Make the object of a node that has none, as its kubelet does when it starts."""
        self._nodes.register(node, status)

    def publish_node(self, node: str, status: NodeStatus) -> None:
        """Publish a node's status as its kubelet; nothing happens where the node's object is gone."""
        self._nodes.publish(node, status)

    def renew_lease(self, node: str, duration_s: int) -> None:
        self._nodes.renew_lease(node, duration_s)

    # Events

    def record(
        self,
        pod: Pod,
        type_: str,
        reason: str,
        message: str,
        component: str,
        *,
        container: str | None = None,
        host: str | None = None,
        action: str = "",
    ) -> None:
        """Record an Event about a pod; see `PodEvents.record`."""
        self._events.record(pod, type_, reason, message, component, container=container, host=host, action=action)

    def record_node_event(self, node: str, type_: str, reason: str, message: str, component: str) -> None:
        # To a kubelet, its node's name is the node's uid.
        about = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node}
        self.recorder.record(about, type_, reason, message, component, host=node)

    def _record_failure(self, key: Key, one: JSON, error: str) -> None:
        kind = kind_named(key.kind)
        self.recorder.record_failure({**one, "apiVersion": kind.api_version, "kind": kind.kind}, error)

    def forget_events(self, node: str, component: str) -> None:
        self.recorder.forget(component, node)

    # What was written

    def _write_pod(self, pod: Pod, body: JSON) -> None:
        self._own_pod = pod
        stored = self.objects.replace(pod_key(pod), body)
        if self._own_pod is not None:
            # Nothing that the API shows has changed.
            self._own_pod = None
            self._pods[pod.uid] = replace(pod, manifest=stored)

    def _follow_pod(self, written: Written) -> None:
        own, self._own_pod = self._own_pod, None
        uid = PodUID(written.object["metadata"]["uid"])
        old = self._pods.get(uid)
        if written.verb is Verb.DELETED:
            if old is not None:
                self._drop(old)
            return
        if own is not None:
            pod = replace(own, manifest=written.object)
        elif old is not None:
            pod = reread_pod(old, written.object, self.objects.wall_time)
        else:
            pod = read_pod(written.object, self.objects.wall_time)
        if old is None:
            self._created += 1
            pod = replace(pod, ordinal=self._created)
            self._names[pod.key] = uid
        self._pods[uid] = pod
        if pod.node_name is not None:
            self._on_node.setdefault(pod.node_name, {})[uid] = None
        if old is not None:
            self._report_pod(old, pod)
        self._notify(pod)
        for message in not_simulated(pod.spec) if old is None else ():
            self.record(pod, "Warning", "NotSimulated", message, SIMULATOR, host="")

    def _report_pod(self, old: Pod, new: Pod) -> None:
        if old.node_name is None and new.node_name is not None:
            self._observe(PodScheduled(new.key, new.node_name))
        before, status = old.status, new.status
        if (before.phase, before.reason, before.message) != (status.phase, status.reason, status.message):
            self._observe(PodStatusUpdated(new.key, status.phase.value, status.reason, status.message))

    def _drop(self, pod: Pod) -> None:
        del self._pods[pod.uid], self._names[pod.key]
        self._written.pop(pod.uid, None)
        self._sizes.pop(pod.uid, None)
        if pod.node_name is not None:
            del self._on_node[pod.node_name][pod.uid]
        self._observe(PodRemoved(pod.key))
        self._notify(pod)

    def _notify(self, pod: Pod) -> None:
        for watch in self._watches.get(pod.node_name or "", ()):
            watch.note(pod.uid)
        self.change.notify()

    # What goes into the objects

    def _condition_json(self, pod: Pod, condition: Condition, generation: int) -> JSON:
        conditions = (pod.manifest.get("status") or {}).get("conditions") or ()
        old = next((each for each in conditions if each["type"] == condition.type.value), None)
        return condition_json(condition, old, self.objects.wall_time.now(), generation)

    @property
    def _control_plane(self) -> Version:
        """The version of scheduler and controllers, which is that of the oldest node."""
        return self._version_on(next(iter(self._nodes.by_name), None))

    def _version_on(self, node: str | None) -> Version:
        status = self._nodes.statuses.get(node or "")
        return _version_of("" if status is None else status.kubelet_version)

    def _address(self, pod: Pod, status: PodStatus) -> str:
        others = (self._pods[uid].manifest.get("status") or {} for uid in self._on_node.get(pod.node_name or "", ()))
        used = (str(each.get("podIP")) for each in others)
        return pod_address(pod, status, self.node(pod.node_name or ""), used, HOST)


def _field(stored: Mapping[str, Any], path: str) -> object:
    """A field of an object, by its names with dots between; empty where there is none."""
    value: Any = stored
    for name in path.split("."):
        value = (value or {}).get(name)
    return value or ""


def _with_condition(status: PodStatus, condition: Condition) -> PodStatus:
    others = tuple(each for each in status.conditions if each.type is not condition.type)
    return replace(status, conditions=(*others, condition))


@cached_if_short
def _version_of(kubelet_version: str) -> Version:
    # Any client may write a node's status.
    try:
        return version(kubelet_version.removeprefix("v") or DEFAULT)
    except InputError:
        return version(DEFAULT)
