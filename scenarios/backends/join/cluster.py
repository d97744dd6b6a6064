"""The cluster of a story's nodes at an API server elsewhere, whose scheduler binds the story's pods.

What kubelets see and publish is `RemoteCluster`'s. Beside it all pods of the story are followed, because those that are
on no node have no kubelet, and the Events that others record about them. Pods are in the namespace ``default``, which
the texts of schedulers and kubelets name, and have a node selector, so that they come to the story's nodes alone. By
this selector and by the nodes' label a story knows what a killed run has left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from pathlib import Path
from typing import Any, Final

from simkubelet.cluster import WallTime, read_pod
from simkubelet.cluster_api import ClusterApi
from simkubelet.kubelet import Kubelet
from simkubelet.model.clock import Clock, RealClock
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.events import EventRecorded, Observer, PodRemoved
from simkubelet.model.node import Node
from simkubelet.model.pod import Pod, PodUID
from simkubelet.model.version import Version
from simkubelet.remote import (
    JSON,
    ApiClient,
    ApiError,
    Follower,
    Reflector,
    RemoteCluster,
    ServerAccess,
    delete_pod,
    is_older,
    pod_path,
    remove,
)

from ...story.verbs.pod_action import AllocateClaim, MetadataAction, ObjectAction
from ...trace.snapshot import Ids
from ..sim.view import RecordedEvent
from ..world.device_objects import GROUP, SLICES, DeviceObjects, SeenSlices

_log = logging.getLogger(__name__)

STORY: Final = "simkubelet/story"
"""The label of a story's nodes."""
_SELECTOR: Final = {STORY: "true"}
_DEFAULT: Final = "/api/v1/namespaces/default"
_PODS: Final = f"{_DEFAULT}/pods"
_NODES: Final = "/api/v1/nodes"
_ANSWERS_WITHIN_S: Final = 20.0
_READY_WITHIN_S: Final = 60.0
_SETTLES_WITHIN_S: Final = 2.0
_OF_NO_NODE: Final = f"{STORY}-probe"
"""A resource that no node has."""


class JoinedCluster:
    """A `StoryCluster` behind an API server.

    Args:
        access: How the server is reached.
        kubeconfig: The same, for plugins.
        nodes: The story's nodes -> the release of their kubelets.
        reads_slices: Whether the story expects anything of ResourceSlices.
        clock: The nodes' time.
        observe: Called with what happens.
        tasks: Owns what follows the server.
    """

    def __init__(
        self,
        access: ServerAccess,
        kubeconfig: Path,
        nodes: Mapping[str, Version],
        reads_slices: bool,
        clock: Clock,
        observe: Observer,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._url = access.url
        self._kubeconfig = kubeconfig
        self._names = tuple(nodes)
        self._real = RealClock()
        self._client = ApiClient(access, "simkubelet-stories", self._seen_whether_up)
        self._remote = RemoteCluster(self._client, nodes, clock, observe, _log.warning, _SELECTOR, retries=self._real)
        self._events = StoryEvents(self._names, observe)
        self._followed = StoryPods(self._names, WallTime(clock), observe, self._events.reveal)
        self._devices = DeviceObjects(self._call_for_devices, _SELECTOR)
        self._slices = SeenSlices() if reads_slices else None
        self._tasks = tasks
        self._stack = AsyncExitStack()
        self._ready: set[str] = set()
        self._away_since: float | None = None

    @property
    def api(self) -> ClusterApi:
        """See `StoryCluster`."""
        return self._remote

    async def start(self, folder: Path, kubelets: Mapping[str, Kubelet]) -> Path | None:
        """See `StoryCluster`."""
        await self._stack.enter_async_context(self._client)
        await self._answered(self._clear(), "does not let a story begin")
        # A new namespace lacks it for a moment, and without it no pod can be created.
        await self._until(f"{_DEFAULT}/serviceaccounts", "default", lambda account: True)
        await self._stack.enter_async_context(self._remote)
        self._stack.push_async_callback(self._take_away)
        for path, follower in ((_PODS, self._followed), (f"{_DEFAULT}/events", self._events)):
            await self._follow(path, follower)
        if self._slices is not None:
            await self._follow(f"/apis/{GROUP}/{SLICES}", self._slices)
        return self._kubeconfig

    async def stop(self) -> None:
        """See `StoryCluster`."""
        await self._stack.aclose()

    @property
    def pods(self) -> Collection[Pod]:
        """See `StoryCluster`; a pod is as its kubelet has it, where one does."""
        return [self._remote.pod(pod.uid) or pod for pod in self._followed.there.values()]

    @property
    def nodes(self) -> Iterable[Node]:
        """See `StoryCluster`."""
        return [node for name in self._names if (node := self._remote.node(name)) is not None]

    def events_of(self, uid: PodUID) -> Iterable[RecordedEvent]:
        """See `StoryCluster`."""
        return (*self._events.about(uid), *self._remote.events_of(uid))

    def published_devices(self, node: str) -> Ids:
        """See `StoryCluster`."""
        return {} if self._slices is None else self._slices.published(node)

    async def settle(self) -> None:
        """See `StoryCluster`; a server that is away keeps node time from passing for no longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLES_WITHIN_S):
                await self._remote.until_sent()

    def check(self) -> None:
        """See `StoryCluster`."""
        if self._away_since is not None and time.monotonic() - self._away_since > _ANSWERS_WITHIN_S:
            raise HostError(f"{self._url} has not answered for {_ANSWERS_WITHIN_S:g} s")

    async def create_pod(self, manifest: Mapping[str, Any]) -> None:
        """See `StoryCluster`."""
        await self._until_schedulable()
        metadata, spec = manifest["metadata"], manifest["spec"]
        selected = {"automountServiceAccountToken": False, **spec}
        selected["nodeSelector"] = {**spec.get("nodeSelector", {}), **_SELECTOR}
        body = {**manifest, "metadata": {**metadata, "namespace": "default"}, "spec": selected}
        refused = f"refuses pod '{metadata['name']}'"
        self._followed.changed(await self._answered(self._client.call("POST", _PODS, body), refused))

    async def delete_pod(self, pod: Pod) -> None:
        """See `StoryCluster`."""
        call = self._client.call("DELETE", pod_path(pod.namespace, pod.name))
        await self._answered(call, f"does not delete pod '{pod.key}'")

    async def bind(self, pod: Pod, node: str) -> None:
        """See `StoryCluster`."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod.name}, "target": target}
        call = self._client.call("POST", f"{pod_path(pod.namespace, pod.name)}/binding", body)
        await self._answered(call, f"does not bind pod '{pod.key}'")

    async def allocate_claim(self, action: AllocateClaim, pods: Sequence[Pod]) -> None:
        """See `StoryCluster`."""
        call = self._devices.allocate(action, {pod.name: pod.uid for pod in pods})
        await self._answered(call, f"does not allocate claim '{action.claim}'")

    async def change_device_object(self, action: ObjectAction) -> None:
        """See `StoryCluster`."""
        await self._answered(self._devices.perform(action), f"refuses to {action.title}")

    async def change_metadata(self, action: MetadataAction, subject: Pod | str) -> None:
        """See `StoryCluster`."""
        path = f"{_NODES}/{subject}" if isinstance(subject, str) else pod_path(subject.namespace, subject.name)
        call = self._client.patch(path, {"metadata": {action.part: dict(action.entries)}})
        await self._answered(call, f"does not change {action.subject}")

    async def _until_schedulable(self) -> None:
        """Wait until the scheduler sees nodes as their kubelets have published them.

        A new node has a taint until a controller has seen that it is ready.
        """
        await self._answered(self._remote.until_sent(), "does not take what nodes publish")
        for node in self.nodes:
            if node.name not in self._ready:
                await self._until(_NODES, node.name, lambda item: not item["spec"].get("taints"))
                await self._answered(self._until_seen(node.name), "does not schedule pods", _READY_WITHIN_S)
                self._ready.add(node.name)

    async def _until_seen(self, node: str) -> None:
        """Wait until the scheduler, too, knows that a node has no taint: that is not why it refuses a pod for it."""
        container = {"name": "main", "image": "none", "resources": {"limits": {_OF_NO_NODE: "1"}}}
        spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]}
        probe = {"metadata": {"generateName": "probe-", "labels": _SELECTOR}, "spec": spec}
        created = (await self._client.call("POST", _PODS, probe))["metadata"]
        await self._until(_PODS, created["name"], _is_short_of_probes)
        await delete_pod(self._client, pod_path("default", created["name"]), created["uid"])

    async def _clear(self) -> None:
        """Remove what a killed run has left.

        Raises:
            ApiError: The server refuses, or is away.
            InputError: Somebody else's node has the name of one of the story.
        """
        found = [node["metadata"] for node in (await self._client.get(_NODES)).get("items") or ()]
        left = {node["name"] for node in found if STORY in (node.get("labels") or {})}
        if taken := sorted({node["name"] for node in found} & {*self._names} - left):
            raise InputError(f"{self._url}: the cluster has a node '{taken[0]}' of its own, as the story has")
        await remove(self._client, sorted(left))
        await self._delete_pods()
        await self._devices.remove()

    async def _take_away(self) -> None:
        """Delete the nodes, and the pods also of no node; what is left in spite of this the next story removes."""
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                await remove(self._client, self._names)
                await self._delete_pods()
                await self._devices.remove()
        except (ApiError, TimeoutError) as error:
            _log.warning("the story's nodes and pods stay: %s", error or "not done in time")

    async def _delete_pods(self) -> None:
        for pod in (await self._client.get(_PODS)).get("items") or ():
            if _is_selected(pod) or STORY in (pod["metadata"].get("labels") or {}):
                await delete_pod(self._client, pod_path("default", pod["metadata"]["name"]), pod["metadata"]["uid"])

    async def _follow(self, path: str, follower: Follower) -> None:
        reflector = Reflector(self._client, path, {}, follower, self._real, _log.warning)
        task = self._tasks.create_task(reflector.run())
        self._stack.callback(task.cancel)
        await self._answered(reflector.is_synced.wait(), f"does not let {path} be followed")

    async def _until(self, path: str, name: str, condition: Callable[[JSON], bool]) -> None:
        """Wait until an object is there and as it should be.

        Raises:
            HostError: It is not in time.
        """

        async def watched() -> None:
            while True:
                query = {"fieldSelector": f"metadata.name={name}"}
                async with aclosing(self._client.watch(path, query, _READY_WITHIN_S)) as events:
                    async for event in events:
                        if event["type"] in ("ADDED", "MODIFIED") and condition(event["object"]):
                            return

        await self._answered(watched(), f"has no {path.rpartition('/')[2]} '{name}' that can be used", _READY_WITHIN_S)

    async def _call_for_devices(self, method: str, path: str, body: Any) -> JSON:
        """See `device_objects.Call`."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            return await self._client.call(method, f"/apis/{GROUP}/{path}", body, content_type=content_type)
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    async def _answered(self, call: Any, refused: str, within_s: float = _ANSWERS_WITHIN_S) -> Any:
        """Return the answer to a call.

        Raises:
            InputError: The server refuses what the story asks for.
            HostError: It does not answer.
        """
        try:
            async with asyncio.timeout(within_s):
                return await call
        except TimeoutError:
            raise HostError(f"{self._url} {refused} within {within_s:g} s") from None
        except ApiError as error:
            if error.status == 0 or error.status >= 500:
                raise HostError(f"{self._url} does not answer: {error}") from None
            raise InputError(f"{self._url} {refused}: {error}") from None

    def _seen_whether_up(self, reason: str | None) -> None:
        self._away_since = None if reason is None else time.monotonic()


class StoryPods:
    """A `Follower` of the story's pods.

    Args:
        nodes: The story's.
        wall_time: The date.
        observe: Called when a pod that was on no node is gone; kubelets' pods are `RemoteCluster`'s.
        reveal: Called with each pod that is new.

    Attributes:
        there: Those that are there, as the server has them.
    """

    def __init__(
        self, nodes: Collection[str], wall_time: WallTime, observe: Observer, reveal: Callable[[Pod], None]
    ) -> None:
        self.there: dict[PodUID, Pod] = {}
        self._gone: set[PodUID] = set()
        self._nodes = nodes
        self._wall_time = wall_time
        self._observe = observe
        self._reveal = reveal

    def replaced(self, items: Sequence[JSON]) -> None:
        """See `Follower`."""
        for uid in self.there.keys() - {PodUID(item["metadata"]["uid"]) for item in items}:
            self._forget(uid)
        for item in items:
            self.changed(item)

    def changed(self, item: JSON) -> None:
        """See `Follower`."""
        uid = PodUID(item["metadata"]["uid"])
        known = self.there.get(uid)
        is_ours = _is_selected(item) or item["spec"].get("nodeName") in self._nodes
        if not is_ours or uid in self._gone or (known is not None and is_older(item, known.manifest)):
            return
        pod = self.there[uid] = read_pod(item, self._wall_time)
        if known is None:
            self._reveal(pod)

    def deleted(self, item: JSON) -> None:
        """See `Follower`."""
        self._forget(PodUID(item["metadata"]["uid"]))

    def _forget(self, uid: PodUID) -> None:
        self._gone.add(uid)
        pod = self.there.pop(uid, None)
        if pod is not None and pod.node_name is None:
            self._observe(PodRemoved(pod.key))


class StoryEvents:
    """A `Follower` of the Events that others than the story's kubelets record about its pods.

    Args:
        nodes: The story's.
        observe: Called with each Event about a pod that is known, and each time that its text changes.
    """

    def __init__(self, nodes: Collection[str], observe: Observer) -> None:
        self._nodes = nodes
        self._observe = observe
        self._pods: set[str] = set()
        self._recorded: dict[str, dict[str, EventRecorded]] = {}

    def about(self, uid: PodUID) -> Iterable[EventRecorded]:
        """Those about a pod, oldest first."""
        return self._recorded.get(uid, {}).values()

    def reveal(self, pod: Pod) -> None:
        """Take a new pod, about which Events may have come already."""
        self._pods.add(pod.uid)
        for event in self.about(pod.uid):
            self._observe(event)

    def replaced(self, items: Sequence[JSON]) -> None:
        """See `Follower`."""
        for item in items:
            self.changed(item)

    def changed(self, item: JSON) -> None:
        """See `Follower`."""
        about, source = item["involvedObject"], item.get("source") or {}
        # The controller of node taints does not say which pod of that name it ends.
        if about.get("kind") != "Pod" or "uid" not in about or source.get("host") in self._nodes:
            return
        component = source.get("component") or item.get("reportingComponent", "")
        event = EventRecorded(about["name"], item["type"], item["reason"], item.get("message", ""), component)
        known = self._recorded.setdefault(about["uid"], {})
        if known.get(item["metadata"]["uid"]) != event:
            known[item["metadata"]["uid"]] = event
            if about["uid"] in self._pods:
                self._observe(event)

    def deleted(self, item: JSON) -> None:
        """See `Follower`; an Event that has expired was recorded all the same."""


def _is_short_of_probes(pod: Mapping[str, Any]) -> bool:
    return any(_OF_NO_NODE in one.get("message", "") for one in pod.get("status", {}).get("conditions") or ())


def _is_selected(pod: Mapping[str, Any]) -> bool:
    return STORY in (pod["spec"].get("nodeSelector") or {})
