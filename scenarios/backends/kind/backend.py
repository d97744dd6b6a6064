"""The real world of one story: a kind cluster's kubelet, scheduler and controllers, with our plugins as DaemonSets.

Stories share a cluster one after the other. Each begins with a kubelet that knows no device, and takes all its own
away in the end. Time is real, and everything takes its own, so a story's seconds count several times.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from simkubelet.errors import HostError, InputError

from ...action import (
    Action,
    AddStaticPod,
    Advance,
    Apply,
    ChangeCheckpoint,
    CreateFile,
    Delete,
    ExitContainer,
    Fail,
    Heal,
    KubeletAction,
    RebootNode,
    RemoveFile,
    RemoveStaticPod,
    RestartKubelet,
    StartKubelet,
    StopKubelet,
)
from ...backend import Capability
from ...events import CheckpointChanged, FaultHealed, FaultInjected, FileCreated, FileRemoved, NodeRebooted
from ...model import Scenario
from ...node_spec import MANIFESTS
from ...plugin_action import PluginAction
from ...selection import chosen_file, chosen_gpu
from ...snapshot import KubeletState, Snapshot
from ...trace import Trace
from ..checkpoint_text import changed_checkpoint
from ..sim_pod_resources import asks_pod_resources
from .api import ClusterApi, Object
from .image import PluginImage
from .node import PLACE, PLUGIN_FOLDER, KindNode
from .plugins import LABELS, NAMESPACE, KindPlugins
from .stand_in import manifest_with_stand_ins, mark_of
from .state import ClusterState, extended

PACE: Final = 6.0
"""How many seconds a story's second is here: a real kubelet publishes every ten, and starts real containers."""
_UP_WITHIN_S: Final = 90.0
_LOST_WITHIN_S: Final = 60.0
_GONE_WITHIN_S: Final = 90.0
_PANIC: Final = re.compile(r"panic: (.*?)( \[recovered.*)?$")
_REMOVE_FILES: Final = f"[ ! -e {PLACE}/created ] || xargs -r -d '\\n' rm -rf <{PLACE}/created; rm -rf {PLACE}"
_CAPABILITIES: Final = frozenset(Capability) - {
    Capability.SEVERAL_NODES,
    Capability.KUBELET_SETTINGS,
    Capability.PROCESS_RUNTIME,
    Capability.ADVANCE_TIME,
    Capability.COMMAND_PLUGINS,
}


class KindBackend:
    """The world of one story on a cluster that is there.

    Args:
        scenario: The story.
        containers: The cluster's nodes, by their containers' names.
        kubeconfig: Of the cluster.
        image: In every node's containerd.
    """

    kept: Path | None = None

    def __init__(self, scenario: Scenario, containers: tuple[str, ...], kubeconfig: Path, image: PluginImage) -> None:
        self._scenario = scenario
        self._kubeconfig = kubeconfig
        self._image = image
        self.trace = Trace(now=time.monotonic)
        self._containers = containers
        self._nodes: dict[str, KindNode] = {}
        self._gpus: dict[str, list[str]] = {}
        self._plugins = KindPlugins(scenario.plugins, image, self.trace)
        self._tasks: list[asyncio.Task[None]] = []
        self._state: ClusterState
        self._api: ClusterApi
        self._is_recording = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All but what a single real node cannot do."""
        return _CAPABILITIES

    async def __aenter__(self) -> Self:
        try:
            await self._build()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._is_recording = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # What a cancelled run began ends all the same; each step on its own, so that one that fails keeps none.
        await asyncio.shield(self._end())

    async def perform(self, action: Action) -> None:
        """Do one step; see `Backend`."""
        match action:
            case Apply(manifest=manifest):
                pod = self._in_cluster(manifest_with_stand_ins(manifest, self._image, LABELS))
                await self._api.call("POST", "namespaces/default/pods", pod)
            case Delete(pod=name):
                if not await self._api.call("DELETE", f"namespaces/default/pods/{name}"):
                    raise InputError(f"no pod '{name}' is there now; the pods are: {self._state.pod_names or 'none'}")
            case ExitContainer():
                await self._exit_container(action)
            case RestartKubelet() | StopKubelet() | StartKubelet() | RebootNode() | ChangeCheckpoint():
                await self._change_kubelet(action, self._node(action.node))
            case PluginAction():
                await self._plugins.perform(action, self._node(action.node).name)
            case Fail() | Heal():
                await self._change_gpu(action, self._node(action.node))
            case CreateFile() | RemoveFile() | AddStaticPod() | RemoveStaticPod():
                await self._change_file(action, self._node(action.node))
            case Advance():
                raise InputError("a real cluster's time cannot be advanced")

    async def observe(self) -> Snapshot:
        """What the API server and the node's checkpoint say now."""
        for node in self._nodes.values():
            if node.is_lost:
                raise HostError(f"node {node.container}: its container or the agent in it was ended under the story")
        if self._api.lost_s > _LOST_WITHIN_S:
            raise HostError(f"the cluster's API server has not answered for {_LOST_WITHIN_S:g} s")
        for task in self._tasks:
            if task.done():
                task.result()
        told: dict[str, Mapping[str, Any]] = {}
        if asks_pod_resources(self._scenario):
            told = {name: await node.ask("pod_resources") for name, node in self._nodes.items()}
        return self._state.snapshot(self._plugins.views, told)

    def patience(self, within_s: float) -> RealPatience:
        """Begin to wait; see `RealPatience`."""
        return RealPatience(self.trace, within_s * PACE)

    def _in_cluster(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A manifest with the cluster's name of the node that it is bound to."""
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None:
            return pod
        self._state.bound.add(pod["metadata"]["name"])
        return {**pod, "spec": {**pod["spec"], "nodeName": node.container}}

    async def _build(self) -> None:
        self._api = await ClusterApi.connected(self._kubeconfig)
        for spec, container in zip(self._scenario.nodes, self._containers, strict=False):
            told = functools.partial(self._told, spec.name)
            self._nodes[spec.name] = KindNode(spec.name, container, self._image, told)
        await self._clean()
        names = {node.container: name for name, node in self._nodes.items()}
        self._state = ClusterState(names, {spec.name: spec.kubernetes for spec in self._scenario.nodes}, self.trace)
        machines = {}
        self._is_recording = True
        for spec in self._scenario.nodes:
            node = self._nodes[spec.name]
            await node.watch()
            if spec.gpus is not None:
                made = await node.ask("machine", profile=spec.gpus.profile, count=spec.gpus.count)
                self._gpus[spec.name], machines[spec.name] = made["gpus"], made["environment"]
            for path in spec.files:
                await node.ask("create_file", path=path, content="")
        for kind, url in (
            ("node", "nodes"),
            ("pod", "namespaces/default/pods"),
            ("event", "namespaces/default/events"),
            ("plugin", f"namespaces/{NAMESPACE}/pods"),
        ):
            self._tasks.append(asyncio.create_task(self._api.watch(kind, self._changed, url)))
        await self._plugins.start(self._api, self._nodes, machines)

    async def _clean(self) -> None:
        """Take away what stories leave, and let the kubelets forget all devices."""
        for node in self._nodes.values():
            await node.run("systemctl", "start", "kubelet")
        labels = ",".join(f"{key}={value}" for key, value in LABELS.items())
        await self._api.call("DELETE", f"namespaces/default/pods?labelSelector={labels}&gracePeriodSeconds=0")
        await self._plugins.remove(self._api, self._nodes)
        await self._until_gone(f"namespaces/default/pods?labelSelector={labels}")
        await self._until_gone(f"namespaces/{NAMESPACE}")
        await self._api.call("DELETE", "namespaces/default/events")
        for node in self._nodes.values():
            await node.close()
            await self._forget_devices(node)

    async def _forget_devices(self, node: KindNode) -> None:
        """A node as one on which no plugin ever registered: the kubelet must not be there when its status changes."""
        await node.run("sh", "-c", _REMOVE_FILES)
        published = (await self._api.call("GET", f"nodes/{node.container}")).get("status", {})
        left = [(part, name) for part in ("capacity", "allocatable") for name in extended(published.get(part, {}))]
        checkpoint = await node.run("sh", "-c", f"cat {PLUGIN_FOLDER}/kubelet_internal_checkpoint 2>/dev/null || true")
        if not left and not checkpoint:
            return
        await node.systemctl("stop")
        await node.run("sh", "-c", f"rm -rf {PLUGIN_FOLDER}/*")
        removals = [{"op": "remove", "path": f"/status/{part}/{name.replace('/', '~1')}"} for part, name in left]
        if removals:
            await self._api.call("PATCH", f"nodes/{node.container}/status", removals, patch="json-patch")
        await node.systemctl("start")
        await self._until_serving(node)

    async def _until_serving(self, node: KindNode) -> None:
        limit = time.monotonic() + _UP_WITHIN_S
        while True:
            with contextlib.suppress(HostError):
                await node.run("test", "-S", f"{PLUGIN_FOLDER}/kubelet.sock")
                return
            if time.monotonic() > limit:
                raise HostError(f"node {node.container}: the kubelet does not come up within {_UP_WITHIN_S:g} s")
            await asyncio.sleep(0.3)

    async def _until_gone(self, url: str) -> None:
        limit = time.monotonic() + _GONE_WITHIN_S
        while True:
            found = await self._api.call("GET", url)
            if not found or found.get("items") == []:
                return
            if time.monotonic() > limit:
                raise HostError(f"the cluster does not remove {url} within {_GONE_WITHIN_S:g} s")
            await asyncio.sleep(0.3)

    async def _end(self) -> None:
        errors = []
        for step in (self._clean_up_cluster, *(node.close for node in self._nodes.values())):
            try:
                await step()
            except HostError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _clean_up_cluster(self) -> None:
        if hasattr(self, "_api"):
            await self._clean()

    def _told(self, node: str, told: Mapping[str, Any]) -> None:
        """Take what a node tells."""
        if not self._is_recording:
            return
        if "checkpoint" in told:
            self._state.seen_checkpoint(node, told["checkpoint"])
        elif "kubelet" in told:
            self._state.serves(node)
        elif "output" in told:
            self._plugins.seen_line(told["output"], node, told["line"])
        elif panic := _PANIC.match(told["journal"]):
            self._state.panicked(node, panic.group(1))
        else:
            self._plugins.seen_journal(node, told["journal"])

    def _changed(self, kind: str, item: Object, is_there: bool) -> None:
        if kind == "plugin":
            self._plugins.seen_pod(item, is_there)
        else:
            self._state.seen(kind, item, is_there)

    def _node(self, name: str | None) -> KindNode:
        return self._nodes[name] if name is not None else next(iter(self._nodes.values()))

    async def _change_kubelet(self, action: KubeletAction, node: KindNode) -> None:
        match action:
            case RestartKubelet():
                await self._stop(node)
                await self._start(node)
            case StopKubelet():
                await self._stop(node)
            case StartKubelet() if self._state.kubelet[node.name] is KubeletState.RUNNING:
                raise InputError(f"the kubelet of node '{node.name}' runs already; stop it first")
            case StartKubelet():
                await self._start(node)
            case RebootNode(plugins=plugins):
                await node.systemctl("stop")
                ran = await self._plugins.switch_off(node.name)
                await node.reboot()
                self.trace.append(NodeRebooted(node.name))
                await node.watch()
                await self._until_api()
                await self._plugins.switch_on(node.name, ran if plugins is None else plugins)
            case ChangeCheckpoint(to=to):
                file = f"{PLUGIN_FOLDER}/kubelet_internal_checkpoint"
                text = await node.run("cat", file)
                changed = changed_checkpoint(text, to)
                if changed is None:
                    await node.ask("remove_file", path=file)
                else:
                    await node.ask("write_file", path=file, content=changed)
                self.trace.append(CheckpointChanged(node.name, to.value))

    async def _stop(self, node: KindNode) -> None:
        await node.systemctl("stop")
        self._state.stopped(node.name)

    async def _start(self, node: KindNode) -> None:
        """Start a kubelet; returns when plugins can register with it."""
        await node.systemctl("start")
        try:
            async with asyncio.timeout(_UP_WITHIN_S):
                while self._state.kubelet[node.name] is not KubeletState.RUNNING:
                    await self.trace.longer_than(len(self.trace))
        except TimeoutError:
            raise HostError(f"node {node.container}: the kubelet does not come up within {_UP_WITHIN_S:g} s") from None

    async def _until_api(self) -> None:
        limit = time.monotonic() + _UP_WITHIN_S
        while True:
            try:
                await self._api.call("GET", "namespaces/default", within_s=3.0)
            except HostError:
                if time.monotonic() > limit:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    async def _change_gpu(self, action: Fail | Heal, node: KindNode) -> None:
        gpus = self._gpus.get(node.name)
        if gpus is None:
            raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
        gpu = chosen_gpu(action.gpu, gpus, await self.observe())
        if isinstance(action, Fail):
            self.trace.append(FaultInjected(node.name, gpu, action.xid))
            await node.ask("fail", gpu=gpu, xid=action.xid)
        else:
            await node.ask("heal", gpu=gpu)
            self.trace.append(FaultHealed(node.name, gpu))

    async def _change_file(
        self, action: CreateFile | RemoveFile | AddStaticPod | RemoveStaticPod, node: KindNode
    ) -> None:
        match action:
            case CreateFile(path=path):
                await self._create(node, path, "")
            case AddStaticPod(manifest=pod):
                manifest = manifest_with_stand_ins(pod.manifest, self._image, LABELS)
                await self._create(node, f"{MANIFESTS}/{pod.pod}.yaml", json.dumps(manifest))
            case RemoveStaticPod(pod=name):
                await self._remove(node, f"{MANIFESTS}/{name}.yaml")
            case RemoveFile():
                await self._remove(node, chosen_file(action, await self.observe()))

    async def _create(self, node: KindNode, path: str, content: str) -> None:
        await node.ask("create_file", path=path, content=content)
        self.trace.append(FileCreated(node.name, path))

    async def _remove(self, node: KindNode, path: str) -> None:
        await node.ask("remove_file", path=path)
        self.trace.append(FileRemoved(node.name, path))

    async def _exit_container(self, action: ExitContainer) -> None:
        node, containers = self._state.place_of(action.pod)
        container = action.container or containers[-1]
        if container not in containers:
            raise InputError(f"pod '{action.pod}' has no container '{container}'; it has {', '.join(containers)}")
        if node is None:
            raise InputError(f"pod '{action.pod}' is on no node, so none of its containers runs")
        if not await self._nodes[node].ask("exit", mark=mark_of(action.pod, container), code=action.code):
            raise InputError(f"container '{container}' of pod '{action.pod}' does not run")


class RealPatience:
    """Waits in real time, until something happens or for a moment."""

    _LOOK_S: Final = 0.5

    def __init__(self, trace: Trace, within_s: float) -> None:
        self._trace = trace
        self._limit = time.monotonic() + within_s
        self._seen = len(trace)

    async def wait(self) -> bool:
        """See `Patience`."""
        left_s = self._limit - time.monotonic()
        if left_s <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, self._LOOK_S)):
                await self._trace.longer_than(self._seen)
        self._seen = len(self._trace)
        return True
