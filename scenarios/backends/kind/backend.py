"""The real world of one story: a kind cluster's kubelet, scheduler and controllers, with our plugins as DaemonSets.

Stories share a cluster one after the other. Each begins with a kubelet that knows no device, and takes all its own
away in the end. Time is real, and everything takes its own, so a story's seconds count several times.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from simkubelet.model.errors import HostError, InputError

from ...story.model import Scenario
from ...story.part import Action, Capability
from ...story.specs import CDI_KIND, CDI_SPEC, DRIVER_ROOT, vendor_specs
from ...story.verbs.file_action import FileAction
from ...story.verbs.hardware_action import DeviceAction, NvidiaAction
from ...story.verbs.node_action import KubeletAction, RuntimeAction
from ...story.verbs.plugin_action import PluginAction
from ...story.verbs.pod_action import AllocateClaim, Apply, Bind, Delete, ExitContainer, MetadataAction, ObjectAction
from ...trace.snapshot import Snapshot
from ...trace.trace import Trace
from ..world.device_objects import GROUP, SLICES
from ..world.pod_resources import PodResourcesAnswers
from .api import ClusterApi, Object
from .changes import bind, change_device, change_file, change_gpus, change_metadata, device_objects
from .daemon_set import Place
from .image import PluginImage
from .kubelets import KindKubelets, set_up
from .members import NOTE_FILES, KindMembers
from .node import KindNode
from .plugins import NAMESPACE, KindPlugins
from .pods import KindPods, mark_of, renamed
from .program import programs_of
from .state import ClusterState

_LOST_WITHIN_S: Final = 20.0
_PANIC: Final = re.compile(r"panic: (.*?)( \[recovered.*)?$")
_FAILURE: Final = re.compile(r'"command failed" err=(".*")$')
"""Source: staging/src/k8s.io/component-base/cli/run.go, ``run`` (kubernetes v1.34.4)."""
CAPABILITIES: Final = frozenset(Capability) - {
    Capability.API_FEATURE_GATES,
    Capability.API_VERSIONS,
    Capability.FAKE_NUMA_NODES,
    Capability.MESSAGE_LIMIT,
    Capability.ADVANCE_TIME,
    Capability.MEASURE_PLUGINS,
    # A plugin is a pod there.
    Capability.PLUGIN_BEFORE_KUBELET,
    Capability.RUN_COMMANDS,
    Capability.NODE_FOLDERS,
    Capability.POD_ORDER,
    Capability.FULL_DISK,
    Capability.SYNC_NODE_STATUS,
}
_WATCHED: Final = {
    "node": "nodes",
    "pod": "namespaces/default/pods",
    "event": "namespaces/default/events",
    "plugin": f"namespaces/{NAMESPACE}/pods",
}
PACE: Final = 6.0
"""How many seconds a story's second is here: a real kubelet publishes every ten, and starts real containers."""
_LOOK_S: Final = 0.5


class KindBackend:
    """The world of one story on a cluster that is there.

    Args:
        scenario: The story.
        members: The cluster's nodes.
        kubeconfig: Of the cluster.
        image: In every node's containerd.
        replacements: Plugin name -> argv that takes the place of the story's own program.

    Raises:
        InputError: A program cannot run anywhere else.
    """

    kept: Path | None = None
    logs: tuple[Path, ...] = ()
    remedies: Mapping[Capability, str] = MappingProxyType({})

    def __init__(
        self,
        scenario: Scenario,
        members: KindMembers,
        kubeconfig: Path,
        image: PluginImage,
        replacements: Mapping[str, Sequence[str]],
    ) -> None:
        self._scenario = scenario
        self._kubeconfig = kubeconfig
        self._image = image
        self.trace = Trace(now=time.monotonic)
        self._members = members
        self._nodes: dict[str, KindNode] = {}
        self._devices: dict[str, list[str]] = {}
        self._plugins = KindPlugins(scenario.plugins, programs_of(scenario.plugins, replacements), image, self.trace)
        self._tasks: list[asyncio.Task[None]] = []
        self._state: ClusterState
        self._api: ClusterApi
        self._kubelets: KindKubelets
        self._pods: KindPods
        self._is_recording = False

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All but what a real cluster, or one of so few nodes, cannot do."""
        here = {
            Capability.SEVERAL_NODES: len(self._members.containers) >= len(self._scenario.nodes),
            # Which node a pod comes to is not known when its manifest is made.
            Capability.PROCESS_RUNTIME: len({node.runtime for node in self._scenario.nodes}) == 1,
        }
        return CAPABILITIES - {capability for capability, is_there in here.items() if not is_there}

    @property
    def places(self) -> Mapping[str, str]:
        """How to look at the cluster; see `Backend`."""
        return {"cluster": f"kubectl --kubeconfig {self._kubeconfig}"}

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
        # A cancelled run still ends what it began; each step on its own, so that a failed one does not stop the others.
        try:
            await asyncio.shield(self._end())
        except HostError as failure:
            raise await self._reason(failure) from None
        if isinstance(error, HostError):
            raise await self._reason(error) from None

    @functools.singledispatchmethod
    async def perform(self, action: Action) -> None:
        """Do one step; see `Backend`. Each handler below is for one class of actions.

        Raises:
            InputError: A real cluster cannot do it.
        """
        raise InputError(f"a real cluster cannot {action.capability or action.verb}")

    @perform.register
    async def _apply(self, action: Apply) -> None:
        manifest = action.manifest
        if "nodeName" in manifest["spec"]:
            self._state.bound.add(manifest["metadata"]["name"])
        await self._api.call("POST", "namespaces/default/pods", await self._pods.manifest(manifest))

    @perform.register
    async def _delete(self, action: Delete) -> None:
        if not await self._api.call("DELETE", f"namespaces/default/pods/{action.pod}"):
            raise InputError(f"no pod '{action.pod}' is there now; the pods are: {self._state.pod_names or 'none'}")

    @perform.register
    async def _exit_container(self, action: ExitContainer) -> None:
        node, containers = self._state.place_of(action.pod)
        container = action.container or containers[-1]
        if container not in containers:
            raise InputError(f"pod '{action.pod}' has no container '{container}'; it has {', '.join(containers)}")
        if node is None:
            raise InputError(f"pod '{action.pod}' is on no node, so none of its containers runs")
        if self._pods.runs_programs:
            raise InputError(f"pod '{action.pod}': container '{container}' is a process and ends by itself")
        if not await self._nodes[node].ask("exit", mark=mark_of(action.pod, container), code=action.code):
            raise InputError(f"container '{container}' of pod '{action.pod}' does not run")

    @perform.register
    async def _change_metadata(self, action: MetadataAction) -> None:
        await change_metadata(action, self._names(), self._api)

    @perform.register
    async def _bind(self, action: Bind) -> None:
        await bind(action.pod, self._node(action.node).container, self._api)

    @perform.register
    async def _allocate_claim(self, action: AllocateClaim) -> None:
        uids = {}
        for pod in action.pods:
            # The watch may not have reported it yet.
            found = await self._api.call("GET", f"namespaces/default/pods/{pod}")
            if not found:
                raise InputError(f"no pod '{pod}' is there now; the pods are: {self._state.pod_names or 'none'}")
            uids[pod] = found["metadata"]["uid"]
        await device_objects(self._api).allocate(action, uids)
        self.trace.append(action.event)

    @perform.register
    async def _change_device_object(self, action: ObjectAction) -> None:
        await device_objects(self._api).perform(action, lambda manifest: renamed(manifest, self._names()))

    @perform.register
    async def _change_plugin(self, action: PluginAction) -> None:
        await self._plugins.perform(action, self._node(action.node).name)

    @perform.register
    async def _change_gpus(self, action: NvidiaAction) -> None:
        await change_gpus(action, self._node(action.node), await self.observe(), self.trace)

    @perform.register
    async def _change_device(self, action: DeviceAction) -> None:
        node = self._node(action.node)
        devices = self._devices.get(node.name, ())
        await change_device(action, node, devices, await self.observe(), self.trace)

    @perform.register
    async def _change_file(self, action: FileAction) -> None:
        await change_file(action, self._node(action.node), self._pods, await self.observe(), self.trace)

    @perform.register
    async def _change_kubelet(self, action: KubeletAction | RuntimeAction) -> None:
        await self._kubelets.perform(action, self._node(action.node))

    async def observe(self) -> Snapshot:
        """What the API server and the node's checkpoint say now."""
        for node in self._nodes.values():
            if node.is_lost:
                raise _ended(node)
        if self._api.lost_s > _LOST_WITHIN_S:
            raise HostError(f"the cluster's API server has not answered for {_LOST_WITHIN_S:g} s")
        for task in self._tasks:
            if task.done():
                task.result()
        answers: dict[str, PodResourcesAnswers] = {}
        if self._scenario.asks_pod_resources:
            pods = self._scenario.pods_to_get
            answers = {
                name: PodResourcesAnswers(**await node.ask("pod_resources", pods=pods))
                for name, node in self._nodes.items()
            }
        return self._state.snapshot(self._plugins.views, answers)

    def patience(self, within_s: float) -> RealPatience:
        """Begin to wait; see `RealPatience`."""
        return RealPatience(self.trace, within_s)

    async def _build(self) -> None:
        self._api = await ClusterApi.connected(self._kubeconfig)
        for spec, container in zip(self._scenario.nodes, self._members.containers, strict=False):
            on_report = functools.partial(self._reported, spec.name)
            self._nodes[spec.name] = KindNode(spec.name, container, self._image, on_report)
        others = await self._members.bring_in(self._api, len(self._nodes))
        await self._members.clean(self._api, [*self._nodes.values(), *others], self._plugins)
        self._members.use(self._nodes.values())
        await self._members.take_out(self._api, others)
        refuses = Capability.REFUSE_CRI in self._scenario.needed
        for spec in self._scenario.nodes:
            node = self._nodes[spec.name]
            if self._plugins.are_programs:
                await node.run("sh", "-c", NOTE_FILES)
            await node.watch()
            await set_up(node, spec, refuses)
        names = {node.container: name for name, node in self._nodes.items()}
        self._state = ClusterState(names, {spec.name: spec.kubernetes for spec in self._scenario.nodes}, self.trace)
        self._kubelets = KindKubelets(self._api, self._state, self._plugins, self.trace)
        self._pods = KindPods(self._scenario.nodes, self._nodes.values(), self._image)
        places = []
        self._is_recording = True
        for spec in self._scenario.nodes:
            node = self._nodes[spec.name]
            await node.ask("look_again")
            environment: dict[str, str] = {}
            if spec.gpus is not None:
                made = await node.ask("machine", **spec.gpus.model_dump(), cdi=CDI_KIND, driver=DRIVER_ROOT)
                environment = made["environment"]
                await node.ask("create_file", path=CDI_SPEC, content=made["cdi"])
            if spec.amd is not None or spec.iluvatar is not None:
                amd, iluvatar = vendor_specs(spec)
                self._devices[spec.name] = await node.ask("devices", amd=amd, iluvatar=iluvatar)
            files = {**spec.contents, **dict.fromkeys(spec.links, "")}
            places.append(Place(spec.name, environment, files, spec.has_devices))
            for path, content in spec.contents.items():
                await node.ask("create_file", path=path, content=content)
            for path, target in spec.links.items():
                await node.ask("create_link", path=path, target=target)
        for kind, url in _WATCHED.items():
            self._tasks.append(asyncio.create_task(self._api.watch(kind, self._changed, url)))
        if self._scenario.reads_slices:
            self._tasks.append(asyncio.create_task(self._api.watch("slice", self._changed, SLICES, group=GROUP)))
        await self._plugins.start(self._api, self._nodes, places)

    async def _end(self) -> None:
        errors = []
        for step in (self._clean_up_cluster, *(node.close for node in self._nodes.values())):
            try:
                await step()
            except HostError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    async def _reason(self, error: HostError) -> HostError:
        """Return why a story could not continue: when its node was ended, every other error only follows from that."""
        for node in self._nodes.values():
            with contextlib.suppress(HostError):
                if not await node.is_running():
                    return _ended(node)
        return error

    async def _clean_up_cluster(self) -> None:
        if hasattr(self, "_api"):
            try:
                await self._members.clean(self._api, self._nodes.values(), self._plugins)
            finally:
                await self._api.close()

    def _reported(self, node: str, report: Mapping[str, Any]) -> None:
        """Take what a node reports."""
        if not self._is_recording:
            return
        if "checkpoint" in report:
            self._state.seen_checkpoint(node, report["checkpoint"])
        elif "claims" in report:
            self._state.seen_claims(node, report["claims"])
        elif "kubelet" in report:
            self._state.serves(node)
        elif "output" in report:
            self._plugins.seen_line(report["output"], node, report["line"])
        elif "tapped" in report:
            self._plugins.seen_report(report["tapped"], node, report["report"])
        elif (reason := reason_of_end(report["journal"])) is not None:
            self._state.panicked(node, reason)
        else:
            self._plugins.seen_journal(node, report["journal"])

    def _changed(self, kind: str, item: Object, is_there: bool) -> None:
        if kind == "plugin":
            self._plugins.seen_pod(item, is_there)
        else:
            self._state.seen(kind, item, is_there)

    def _names(self) -> dict[str, str]:
        """A node's name in the story -> the cluster's."""
        return {name: node.container for name, node in self._nodes.items()}

    def _node(self, name: str | None) -> KindNode:
        return self._nodes[name] if name is not None else next(iter(self._nodes.values()))


def reason_of_end(line: str) -> str | None:
    """Why a kubelet ends by itself, where a line of its log says so."""
    if panic := _PANIC.match(line):
        return panic.group(1)
    if failure := _FAILURE.search(line):
        # A text of Go is one of Python, too.
        return str(ast.literal_eval(failure.group(1)))
    return None


def _ended(node: KindNode) -> HostError:
    return HostError(f"node {node.container}: its container or the agent in it was ended under the story")


class RealPatience:
    """Waits in real time, until something happens or for a moment.

    Args:
        trace: What happens.
        within_s: How long, as the story counts.
    """

    def __init__(self, trace: Trace, within_s: float) -> None:
        self._trace = trace
        self._limit = time.monotonic() + within_s * PACE
        self._seen = len(trace)

    async def wait(self) -> bool:
        """See `Patience`."""
        left_s = self._limit - time.monotonic()
        if left_s <= 0:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, _LOOK_S)):
                await self._trace.longer_than(self._seen)
        self._seen = len(self._trace)
        return True

    @property
    def is_starved(self) -> bool:
        """See `Patience`; how busy the nodes are is not known."""
        return False
