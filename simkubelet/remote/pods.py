"""The pods on the nodes of this process: as the server has them, as their kubelets want them, and what is sent for it.

What a kubelet writes counts here at once and is sent by a queue: a status as the patch from the server's last known
state, again whenever the two differ, then the removal of a pod that has ended. So nothing is lost while the server is
away, a status that has changed several times is sent once, and what others write beside it stays.

Source: kubelet/status/status_manager.go, ``syncPod``, ``needsReconcile``, ``mergePodStatus``, ``canBeDeleted``;
pkg/util/pod/pod.go, ``PatchPodStatus``; kubelet/pod/mirror_client.go (kubernetes v1.34.4), but that the state to patch
is known from the watch and from the answers to earlier patches, where the kubelet asks for it each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .._internal.doors import Door
from ..cluster.objects.nodes import KubeletEndpoint, pod_address
from ..cluster.objects.objects import WallTime
from ..cluster.objects.pod_json import WrittenStatuses, kubelet_status_json, read_pod, reread_pod
from ..cluster_api import PodWatch
from ..model.clock import Clock
from ..model.errors import InputError
from ..model.events import Observer, PodRemoved, PodScheduled, PodStatusUpdated
from ..model.pod import Pod, PodUID, pod_from_manifest
from ..model.pod_status import ConditionType, PodStatus
from ..model.version import Version
from .back_off import WorkQueue
from .client import JSON, ApiClient, ApiError, if_there, is_older, object_of
from .nodes import RemoteNodes
from .references import References
from .status_patch import status_patch

__all__ = ["RemotePods", "delete_pod", "pod_path"]

_LISTED: Final = Door("listed pod")
_log = logging.getLogger(__name__)

_BY_KUBELET: Final = frozenset(
    {
        *("conditions", "containerStatuses", "hostIP", "hostIPs", "initContainerStatuses", "message"),
        *("nominatedNodeName", "observedGeneration", "phase", "podIP", "podIPs", "reason", "startTime"),
    }
)
"""Fields of a status that a kubelet may remove; others stay, also those of a newer server."""


@dataclass(slots=True)
class _Entry:
    """One pod.

    Attributes:
        server: the pod as the server had it last.
        pod: what its kubelet sees: the server's, with the status that the kubelet wants.
        wanted: the status that its kubelet has published last; None as long as it has published none.
        address: the pod's, once it has one; unlike that of any other pod of the node.
        is_shown: its kubelet knows it; before, what it refers to is being read.
        is_removed: its kubelet has no use for it any more.
        in_vain: a patch that the server took without a change; it is not sent again.
    """

    server: Pod
    pod: Pod
    wanted: PodStatus | None = None
    address: str = ""
    is_shown: bool = False
    is_removed: bool = False
    in_vain: JSON | None = None
    written: WrittenStatuses = field(default_factory=dict)


class RemotePods:
    """A `Follower` of the pods that are bound to nodes, and the pods' part of `ClusterApi`.

    Args:
        client: of the server.
        nodes: the nodes of this process -> the release of their kubelets.
        endpoints: node -> where its kubelet is.
        objects: the nodes as the server has them.
        references: has what pods refer to.
        wall_time: the date.
        clock: the time of pauses.
        observe: called with each change.
        tasks: owns what is sent.
        complain: called with what the server refuses.
    """

    def __init__(
        self,
        client: ApiClient,
        nodes: Mapping[str, Version],
        endpoints: Mapping[str, KubeletEndpoint],
        objects: RemoteNodes,
        references: References,
        wall_time: WallTime,
        clock: Clock,
        observe: Observer,
        tasks: asyncio.TaskGroup,
        complain: Callable[[str], None],
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._endpoints = endpoints
        self._objects = objects
        self._references = references
        self._wall_time = wall_time
        self._observe = observe
        self._complain = complain
        self._entries: dict[PodUID, _Entry] = {}
        self._on_node: dict[str, dict[PodUID, None]] = {name: {} for name in nodes}
        self._watches: dict[str, list[PodWatch]] = {}
        self._new_mirrors: dict[str, Mapping[str, Any]] = {}
        self._created = 0
        self._updates: WorkQueue[PodUID] = WorkQueue(self._send, tasks, clock, complain)
        self._creations: WorkQueue[str] = WorkQueue(self._create, tasks, clock, complain)

    # What kubelets see

    def pod(self, uid: PodUID) -> Pod | None:
        """Return a pod of one of the nodes; see `ClusterApi`."""
        entry = self._entries.get(uid)
        return entry.pod if entry is not None and entry.is_shown and not entry.is_removed else None

    def pod_named(self, key: str) -> Pod | None:
        """Return the pod of this `Pod.key`."""
        return next((pod for pod in self.all() if pod.key == key), None)

    def as_published(self, pod: Pod) -> JSON:
        """Return the object of a pod with the status that its kubelet has published, sent or not."""
        entry = self._entries[pod.uid]
        stored = dict(entry.server.manifest)
        return stored if entry.wanted is None else {**stored, "status": self._status_json(entry)}

    def all(self) -> Iterator[Pod]:
        """Return the pods that kubelets know, oldest first."""
        return (pod for uid in self._entries if (pod := self.pod(uid)) is not None)

    def on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of a node that its kubelet knows, oldest first."""
        return tuple(pod for uid in self._on_node[node] if (pod := self.pod(uid)) is not None)

    def watch(self, node: str) -> PodWatch:
        """Begin to follow the pods of a node."""
        watch = PodWatch(pod.uid for pod in self.on(node))
        self._watches.setdefault(node, []).append(watch)
        return watch

    def end_watch(self, node: str, watch: PodWatch) -> None:
        """Stop following; may be called twice."""
        self._watches[node] = [other for other in self._watches.get(node, ()) if other is not watch]

    # What kubelets want

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Have a mirror pod created, as soon as its node is registered and there is none of its name.

        Raises:
            InputError: it is not of the form of a v1 Pod.
        """
        key = pod_from_manifest(manifest).key
        self._new_mirrors[key] = manifest
        self._creations.add(key)

    def remove(self, uid: PodUID) -> None:
        """Have a pod's object removed, once its last status is there; its kubelet sees it no more."""
        entry = self._entries.get(uid)
        if entry is None or entry.is_removed:
            return
        entry.is_removed = True
        self._notify(entry.pod)
        self._updates.add(uid)

    def set_status(self, uid: PodUID, status: PodStatus) -> None:
        """Have a status published."""
        entry = self._entries.get(uid)
        if entry is None or entry.is_removed or entry.wanted == status:
            return
        entry.wanted, entry.in_vain = status, None
        self._refresh(entry)
        self._updates.add(uid)

    async def until_sent(self) -> None:
        """Return when the server has all of it."""
        await self._updates.until_done()
        await self._creations.until_done()

    async def close(self) -> None:
        """Send nothing more."""
        await self._updates.close()
        await self._creations.close()

    # What the server has

    def replaced(self, items: Sequence[JSON]) -> bool:
        """See `Follower`; pods that are new come in the order of their creation."""
        own = [item for item in items if _node_of(item) in self._nodes]
        for uid in self._entries.keys() - {PodUID(item["metadata"]["uid"]) for item in own}:
            self._forget(uid)
        are_taken = [False] * len(own)
        own.sort(key=lambda item: str(item["metadata"].get("creationTimestamp") or ""))
        for index, item in enumerate(own):
            with _LISTED(item["metadata"].get("name")):
                are_taken[index] = self.changed(item)
        return all(are_taken)

    def changed(self, item: JSON) -> bool:
        """See `Follower`."""
        if _node_of(item) not in self._nodes:
            return True
        uid = PodUID(item["metadata"]["uid"])
        entry = self._entries.get(uid)
        if entry is None:
            return self._add(uid, item)
        is_taken = True
        if not is_older(item, entry.server.manifest):
            is_taken = self._take(entry, item)
            if self._patch(entry):
                self._updates.add(uid)
        return is_taken

    def deleted(self, item: JSON) -> None:
        """See `Follower`."""
        self._forget(PodUID(item["metadata"]["uid"]))

    def _add(self, uid: PodUID, item: JSON) -> bool:
        try:
            pod = read_pod(item, self._wall_time)
        except InputError as error:
            _log.error("pod %s is not simulated: %s", uid, error)
            return False
        self._created += 1
        pod = replace(pod, ordinal=self._created)
        entry = _Entry(pod, pod, address=str((item.get("status") or {}).get("podIP") or ""))
        self._entries[uid] = entry
        self._on_node[str(pod.node_name)][uid] = None
        try:
            self._references.hold(uid, item, lambda: self._reveal(uid, entry))
        except BaseException:
            # The next state of it is that of a new pod.
            self._forget(uid)
            raise
        return True

    def _reveal(self, uid: PodUID, entry: _Entry) -> None:
        """Let the kubelet know of a pod, as all that the pod refers to has been read."""
        if self._entries.get(uid) is entry:
            entry.is_shown = True
            if entry.server.status.condition(ConditionType.SCHEDULED) is not None:
                # Else its manifest names the node.
                self._observe(PodScheduled(entry.pod.key, str(entry.pod.node_name)))
            self._notify(entry.pod)

    def _forget(self, uid: PodUID) -> None:
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        self._references.release(uid)
        del self._on_node[str(entry.pod.node_name)][uid]
        if entry.is_shown:
            self._observe(PodRemoved(entry.pod.key))
            self._notify(entry.pod)

    def _take(self, entry: _Entry, stored: JSON) -> bool:
        try:
            entry.server = reread_pod(entry.server, stored, self._wall_time)
        except InputError as error:
            _log.error("a change of pod %s is not simulated: %s", entry.pod.key, error)
            return False
        self._refresh(entry)
        return True

    def _refresh(self, entry: _Entry) -> None:
        """Bring what the kubelet sees up to date."""
        old = entry.pod.status
        new = entry.server.status if entry.wanted is None else _merged(entry.server.status, entry.wanted)
        entry.pod = replace(entry.server, status=new)
        if (old.phase, old.reason, old.message) != (new.phase, new.reason, new.message):
            self._observe(PodStatusUpdated(entry.pod.key, new.phase.value, new.reason, new.message))
        if entry.is_shown:
            self._notify(entry.pod)

    def _notify(self, pod: Pod) -> None:
        for watch in self._watches.get(str(pod.node_name), ()):
            watch.note(pod.uid)

    # What is sent

    async def _send(self, uid: PodUID) -> None:
        entry = self._entries.get(uid)
        if entry is None:
            return
        path = pod_path(entry.pod.namespace, entry.pod.name)
        if (patch := self._patch(entry)) and not await self._send_status(entry, path, patch):
            # The watch will say so.
            return
        if entry.is_removed:
            await delete_pod(self._client, path, uid)

    async def _send_status(self, entry: _Entry, path: str, patch: JSON) -> bool:
        """Send a patch; whether the pod is still there."""
        uid = entry.pod.uid
        try:
            # A later pod of the name is of another uid, and the server refuses to change that.
            after = await self._client.patch(f"{path}/status", {"metadata": {"uid": uid}, "status": patch})
        except ApiError as error:
            if error.status not in (404, 409, 422):
                raise
            there = await self._client.find(path)
            if there is None or there["metadata"]["uid"] != uid:
                return False
            if error.status != 422:
                raise ApiError(0, error.reason, str(error)) from None
            # An invalid status keeps no pod from being removed.
            entry.in_vain = patch
            self._complain(str(error))
            return True
        if not is_older(after, entry.server.manifest):
            if not self._take(entry, after):
                raise ApiError(500, "InternalError", "the server's answer is no pod")
            entry.in_vain = patch if self._patch(entry) == patch else None
        return True

    def _patch(self, entry: _Entry) -> JSON:
        """What makes the server's status of what its kubelet wants; empty where nothing is left to send."""
        if entry.wanted is None:
            return {}
        old, new = entry.server.manifest.get("status") or {}, self._status_json(entry)
        patch = status_patch(old, {name: old[name] for name in old.keys() - _BY_KUBELET} | new)
        return {} if patch == entry.in_vain else patch

    def _status_json(self, entry: _Entry) -> JSON:
        """The server's status with what the kubelet wants to be there."""
        stored, status = entry.server.manifest, entry.pod.status
        node = str(entry.pod.node_name)
        host = self._endpoints[node].address
        if not entry.address:
            others = (self._entries[uid].address for uid in self._on_node[node])
            entry.address = pod_address(entry.pod, status, self._objects.node(node), others, host)
        addresses = host, entry.address
        return kubelet_status_json(stored, status, self._nodes[node], self._wall_time, addresses, entry.written)

    async def _create(self, key: str) -> None:
        manifest = self._new_mirrors.get(key)
        if manifest is None:
            return
        if self.pod_named(key) is not None:
            # It was asked for twice.
            del self._new_mirrors[key]
            return
        node = await self._objects.registered(str(manifest["spec"]["nodeName"]))
        if node is None:
            # It was removed; its kubelet asks again when it has registered the node again.
            del self._new_mirrors[key]
            return
        metadata = manifest["metadata"]
        namespace = metadata.get("namespace") or "default"
        owners = [{**owner, "uid": node.manifest["metadata"]["uid"]} for owner in metadata.get("ownerReferences", ())]
        mirror = {**manifest, "metadata": {**metadata, "ownerReferences": owners}}
        try:
            self.changed(object_of(await self._client.call("POST", f"/api/v1/namespaces/{namespace}/pods", mirror)))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                # The one before is being removed, or the watch has not brought this one yet.
                raise ApiError(0, error.reason, str(error)) from None
            raise
        if self._new_mirrors.get(key) is manifest:
            del self._new_mirrors[key]


def _merged(server: PodStatus, wanted: PodStatus) -> PodStatus:
    """The status that a kubelet sees: its own, with what others have said of the pod's end."""
    announced = server.condition(ConditionType.DISRUPTION_TARGET)
    if announced is not None:
        own = tuple(each for each in wanted.conditions if each.type is not ConditionType.DISRUPTION_TARGET)
        wanted = replace(wanted, conditions=(announced, *own))
    if server.phase.is_terminal and not wanted.phase.is_terminal:
        return replace(wanted, phase=server.phase, reason=server.reason, message=server.message)
    return wanted


def _node_of(item: Mapping[str, Any]) -> str:
    return str((item.get("spec") or {}).get("nodeName") or "")


def pod_path(namespace: str, name: str) -> str:
    """Where the API server has a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


async def delete_pod(client: ApiClient, path: str, uid: str) -> None:
    """Delete a pod's object at once, unless it is gone already; a later pod of the name stays.

    Raises:
        ApiError: the server refuses, or is away.
    """
    await if_there(client.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}))
