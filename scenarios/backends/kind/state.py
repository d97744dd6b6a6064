"""What the watches of a cluster and its checkpoints report, as trace events and as a story's observations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from simkubelet.apis.deviceplugin import ContainerAllocateResponse
from simkubelet.cluster import WallTime, read_pod
from simkubelet.devices import AllocationEntry, Checkpoint, DeviceRunOptions, merge, response_data
from simkubelet.dra import ClaimInfo, claimed_cdi_devices
from simkubelet.model.clock import RealClock
from simkubelet.model.events import (
    ContainerExited,
    ContainerStarted,
    DevicesAllocated,
    EventRecorded,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    NodeStatusUpdated,
    PodRemoved,
    PodScheduled,
    PodStatusUpdated,
)

from ...trace.snapshot import KubeletState, NodeView, PluginView, PodEvent, PodView, Snapshot
from ...trace.trace import Trace
from ..world.checkpoint import CheckpointFile, checkpoint_view, claim_users, read_checkpoint, read_claims
from ..world.device_objects import SeenSlices
from ..world.pod_resources import PodResourcesAnswers
from .api import Object

_UNKNOWN_END: Final = "ContainerStatusUnknown"
"""How a kubelet calls the end of a container of which its runtime knows nothing, also of one that never began.

Source: kubelet/status/status_manager.go, ``TerminatePod`` (kubernetes v1.34.4).
"""


def extended(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Extended resources of a node, those that plugins serve."""
    return {name: int(amount) for name, amount in amounts.items() if "/" in name}


class ClusterState:
    """Takes what is reported, in any order; `snapshot` is what is known now.

    Args:
        names: A node's name in the cluster -> the story's.
        versions: A node's name in the story -> its Kubernetes version.
        trace: Gets what happens to nodes and pods, in the story's names.

    Attributes:
        bound: Pods that the story itself binds to a node.
    """

    def __init__(self, names: Mapping[str, str], versions: Mapping[str, str], trace: Trace) -> None:
        # The longest first, as one name may be how another begins.
        self._names = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))
        self._versions = versions
        self._trace = trace
        self.kubelet = dict.fromkeys(versions, KubeletState.RUNNING)
        self.bound: set[str] = set()
        self._beginning: set[str] = set()
        self._panics: dict[str, str] = {}
        self._published: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
        self._pods: dict[str, Object] = {}
        self._statuses: dict[str, tuple[str, str, str, str]] = {}
        self._runs: dict[tuple[str, str], tuple[int, int]] = {}
        self._events: dict[str, dict[str, PodEvent]] = {}
        self._early: dict[str, list[Object]] = {}
        self._checkpoints: dict[str, CheckpointFile] = {}
        self._named: dict[str, str] = {}
        self._allocated: set[tuple[str, str, str]] = set()
        self._metadata: dict[str, Object] = {}
        self._responses: dict[tuple[str, str], list[ContainerAllocateResponse]] = {}
        self._claims: dict[str, Sequence[ClaimInfo]] = {}
        self._slices = SeenSlices()

    @property
    def pod_names(self) -> str:
        """Of the pods that are there, for messages."""
        return ", ".join(sorted(self._pods))

    def place_of(self, pod: str) -> tuple[str | None, list[str]]:
        """The node of a pod and its app containers; no node and none where there is no such pod."""
        item = self._pods.get(pod, {"spec": {"containers": ()}})
        node = self._names.get(item["spec"].get("nodeName", ""))
        return node, [container["name"] for container in item["spec"]["containers"]]

    def begins(self, node: str) -> None:
        """A kubelet is being started: it will serve its registration socket, or end by itself."""
        self._beginning.add(node)

    def is_beginning(self, node: str) -> bool:
        """Whether a kubelet that was started neither serves nor has ended."""
        return node in self._beginning

    def starts(self, node: str) -> None:
        """A kubelet runs, which does not serve its registration socket yet."""
        self._beginning.discard(node)
        self.kubelet[node] = KubeletState.RUNNING

    def serves(self, node: str) -> None:
        """A kubelet's registration socket has appeared."""
        self.kubelet[node] = KubeletState.RUNNING
        self._beginning.discard(node)
        self._panics.pop(node, None)
        self._trace.append(KubeletStarted(node, f"v{self._versions[node]}"))

    def stopped(self, node: str) -> None:
        """A kubelet was ended."""
        self.kubelet[node] = KubeletState.STOPPED
        self._trace.append(KubeletStopped(node))

    def panicked(self, node: str, reason: str) -> None:
        """A kubelet has ended by itself; only the first line of what it says counts."""
        if self.kubelet[node] is KubeletState.RUNNING or node in self._beginning:
            self.kubelet[node] = KubeletState.CRASHED
            self._beginning.discard(node)
            self._panics[node] = reason
            self._trace.append(KubeletCrashed(node, reason))

    def seen(self, kind: str, item: Object, is_there: bool) -> None:
        """Take an object that a watch reports."""
        match kind:
            case "node":
                self._seen_node(item)
            case "pod":
                self._seen_pod(item, is_there)
            case "event" if is_there:
                self._seen_event(item)
            case "slice" if is_there:
                self._slices.changed(item)
            case "slice":
                self._slices.deleted(item)

    def seen_checkpoint(self, node: str, text: str | None) -> None:
        """Take the text of a node's checkpoint, None where there is none."""
        self._checkpoints[node] = read_checkpoint(text)
        self._record_allocations(node)

    def seen_claims(self, node: str, text: str | None) -> None:
        """Take the text of the checkpoint of a node's DRA manager, None where there is none."""
        self._claims[node] = read_claims(text)

    def snapshot(self, plugins: tuple[PluginView, ...], answers: Mapping[str, PodResourcesAnswers]) -> Snapshot:
        """All that is known; `answers` has those of the PodResources API of each node."""
        nodes, pods = {}, {}
        containers = {story: name for name, story in self._names.items()}
        for node, kubernetes in self._versions.items():
            capacity, allocatable = self._published.get(node, ({}, {}))
            api = answers.get(node, PodResourcesAnswers())
            nodes[node] = NodeView(
                node,
                kubernetes,
                capacity,
                allocatable,
                self.kubelet[node],
                self._panics.get(node, ""),
                api.allocatable,
                api.get,
                checkpoint_view(self._checkpoints.get(node, "absent"), self._named),
                self._texts(self._metadata.get(node, {}), "labels"),
                self._texts(self._metadata.get(node, {}), "annotations"),
                claim_users(self._claims.get(node, ()), self._named),
                self._slices.published(containers[node]),
            )
        for name, item in self._pods.items():
            view = self._pod_view(name, item)
            listed = answers.get(view.node, PodResourcesAnswers()).pods
            pods[name] = replace(view, pod_resources=listed.get(item["metadata"]["name"]))
        return Snapshot(nodes, pods, plugins)

    def _seen_node(self, item: Object) -> None:
        node = self._names.get(item["metadata"]["name"])
        if node is None:
            return
        self._metadata[node] = item["metadata"]
        status = item["status"]
        published = extended(status.get("capacity", {})), extended(status.get("allocatable", {}))
        if published != self._published.get(node):
            self._published[node] = published
            self._trace.append(NodeStatusUpdated(node, *published))

    def _seen_pod(self, item: Object, is_there: bool) -> None:
        # A static pod is named after its node.
        name, uid = self._in_story(item["metadata"]["name"]), item["metadata"]["uid"]
        node = self._names.get(item["spec"].get("nodeName", ""), "")
        before = self._statuses.get(uid, ("", "Pending", "", ""))
        if node and not before[0] and not self._is_bound_by_hand(item):
            self._trace.append(PodScheduled(name, node))
        self._pods[name] = item
        self._named[uid_on_node(item)] = name
        for about in {uid, uid_on_node(item)} & self._early.keys():
            for event in self._early.pop(about):
                self._record_event(event)
        if node:
            self._record_allocations(node)
            self._record_runs(name, uid, node, item)
        status = item.get("status", {})
        new = (node, status.get("phase", "Pending"), status.get("reason", ""), status.get("message", ""))
        self._statuses[uid] = new
        if new[1:] != before[1:]:
            self._trace.append(PodStatusUpdated(name, new[1], new[2], self._in_story(new[3])))
        if not is_there:
            if self._pods.get(name, {}).get("metadata", {}).get("uid") == uid:
                del self._pods[name]
            self._trace.append(PodRemoved(name))

    def _is_bound_by_hand(self, item: Object) -> bool:
        """Whether no scheduler chose a pod's node: its manifest names one, or is a file in the node's own folder."""
        return item["metadata"]["name"] in self.bound or is_mirror(item)

    def _record_runs(self, pod: str, uid: str, node: str, item: Object) -> None:
        """Starts and ends of containers, those between two looks included."""
        for status in container_statuses(item):
            container, state, last = status["name"], status["state"], status.get("lastState", {})
            started, ended = self._runs.get((uid, container), (0, 0))
            never_began = started == 0 and state.get("terminated", {}).get("reason") == _UNKNOWN_END
            is_waiting = "waiting" in state or never_began
            now = status["restartCount"] + (bool(last) if is_waiting else 1)
            over = now - ("running" in state)
            while ended < over or started < now:
                if started <= ended:
                    self._trace.append(ContainerStarted(node, pod, container, started))
                    started += 1
                else:
                    end = state.get("terminated") or last.get("terminated") or {"exitCode": 0, "reason": ""}
                    self._trace.append(
                        ContainerExited(node, pod, container, ended, end["exitCode"], end.get("reason", ""))
                    )
                    ended += 1
            self._runs[uid, container] = started, ended

    def _seen_event(self, item: Object) -> None:
        about = item["involvedObject"]
        # The controller of node taints does not say which pod of that name it ends.
        if about.get("kind") != "Pod" or "uid" not in about:
            return
        if about["uid"] in self._statuses or about["uid"] in self._named:
            self._record_event(item)
        else:
            # Of a pod that the other watch reports next, or of one of an earlier story, which it does not report.
            self._early.setdefault(about["uid"], []).append(item)

    def _record_event(self, item: Object) -> None:
        about = item["involvedObject"]
        event = PodEvent(item["type"], item["reason"], self._in_story(item["message"]))
        known = self._events.setdefault(about["uid"], {})
        if known.get(item["metadata"]["uid"]) == event:
            return
        known[item["metadata"]["uid"]] = event
        component = item.get("source", {}).get("component") or item.get("reportingComponent", "")
        self._trace.append(
            EventRecorded(self._in_story(about["name"]), event.type, event.reason, event.message, component)
        )

    def _in_story(self, text: str) -> str:
        for name, node in self._names.items():
            text = text.replace(name, node)
        return text

    def _record_allocations(self, node: str) -> None:
        names = {uid_on_node(item): name for name, item in self._pods.items()}
        for entry in self._entries(node):
            key = (str(entry.pod_uid), entry.container, str(entry.resource))
            if entry.pod_uid in names and key not in self._allocated:
                self._allocated.add(key)
                ids = tuple(sorted(map(str, entry.allocation.devices())))
                response = entry.allocation.response
                self._responses.setdefault(key[:2], []).append(response)
                self._trace.append(
                    DevicesAllocated(node, names[entry.pod_uid], key[1], key[2], ids, response_data(response))
                )

    def _entries(self, node: str) -> tuple[AllocationEntry, ...]:
        """Who holds what, as far as a kubelet can read it."""
        file = self._checkpoints.get(node)
        return file.entries if isinstance(file, Checkpoint) else ()

    def _texts(self, metadata: Object, part: str) -> dict[str, str]:
        """Labels or annotations of an object, in the story's names."""
        return {key: self._in_story(value) for key, value in metadata.get(part, {}).items()}

    def _pod_view(self, name: str, item: Object) -> PodView:
        status, uid = item.get("status", {}), uid_on_node(item)
        node = self._names.get(item["spec"].get("nodeName", ""), "")
        devices: dict[str, dict[str, tuple[str, ...]]] = {}
        for entry in self._entries(node):
            if entry.pod_uid == uid:
                ids = tuple(sorted(map(str, entry.allocation.devices())))
                devices.setdefault(entry.container, {})[str(entry.resource)] = ids
        return PodView(
            name=name,
            phase=status.get("phase", ""),
            reason=status.get("reason", ""),
            message=self._in_story(status.get("message", "")),
            node=node,
            devices=devices,
            options=self._options(node, item),
            labels=self._texts(item["metadata"], "labels"),
            annotations=self._texts(item["metadata"], "annotations"),
            events=tuple(self._events.get(uid, {}).values()),
            restarts=sum(one["restartCount"] for one in container_statuses(item)),
            health=device_health(item),
        )

    def _options(self, node: str, item: Object) -> dict[str, DeviceRunOptions]:
        """Container -> what it gets for its devices: the CDI devices of its claims come first, as in a kubelet."""
        uid = uid_on_node(item)
        options = {container: merge(given) for (of, container), given in self._responses.items() if of == uid}
        if item["spec"].get("resourceClaims") or item["status"].get("extendedResourceClaimStatus"):
            pod = read_pod(item, WallTime(RealClock()))
            for container in (one.name for one in pod.containers):
                claimed = claimed_cdi_devices(pod, container, self._claims.get(node, ()))
                of_plugins = options.get(container, DeviceRunOptions())
                options[container] = replace(of_plugins, cdi_devices=(*claimed, *of_plugins.cdi_devices))
        return options


_MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that a kubelet made itself for a static one, with the id that it has for that one."""


def is_mirror(item: Object) -> bool:
    """Whether it is the mirror pod by which a kubelet publishes a static pod."""
    return _MIRROR in item["metadata"].get("annotations", {})


def uid_on_node(item: Object) -> str:
    """The id that a kubelet has for a pod: a static one's is its own, not that of its mirror."""
    metadata = item["metadata"]
    uid: str = metadata.get("annotations", {}).get(_MIRROR, metadata["uid"])
    return uid


def container_statuses(item: Object) -> list[Any]:
    """Of all containers, in the order of their start: a kubelet sorts those of the app by name."""
    status, spec = item.get("status", {}), item["spec"]
    found = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    order = [container["name"] for container in (*spec.get("initContainers", ()), *spec["containers"])]
    return sorted(found, key=lambda one: order.index(one["name"]))


def device_health(item: Object) -> dict[str, dict[str, str]]:
    """Resource -> device -> health, as the pod's status reports it."""
    found: dict[str, dict[str, str]] = {}
    for status in container_statuses(item):
        resources: Iterable[Any] = status.get("allocatedResourcesStatus", ())
        for resource in resources:
            healths = {device["resourceID"]: device["health"] for device in resource.get("resources", ())}
            found.setdefault(resource["name"], {}).update(healths)
    return found
