"""A world of simulated nodes: kubelets and fake GPUs in this process, plugins as processes of their own.

The cluster that the nodes belong to is another object: one of this process, or one with an API server elsewhere. Node
time changes only by the steps that advance it, and by `SimPatience`, which lets it leap to the next thing due
while the story waits and nothing else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cached_property, singledispatchmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from simkubelet.host import check_sandbox
from simkubelet.kubelet import Kubelet
from simkubelet.model.clock import ManualClock
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.events import (
    DriverConnected,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    NodeEvent,
    PluginRegistered,
    PluginSocketFound,
)
from simkubelet.model.node import Node
from simkubelet.model.pod import Pod
from simkubelet.node import NodeContext
from simkubelet.runtime import check_containers

from ...evaluation.verdict import is_failure
from ...story.model import Scenario
from ...story.part import Action, Capability
from ...story.specs import PluginSpec, Runtime
from ...story.verbs.file_action import FileAction
from ...story.verbs.hardware_action import DeviceAction, NvidiaAction
from ...story.verbs.node_action import Advance, KubeletAction, RunCommand, RuntimeAction
from ...story.verbs.plugin_action import MeasurePlugin, PluginAction
from ...story.verbs.pod_action import AllocateClaim, Apply, Bind, Delete, ExitContainer, MetadataAction, ObjectAction
from ...trace.events import ClockAdvanced
from ...trace.snapshot import NodeView, PodView, Snapshot
from ...trace.trace import Trace
from ..world.checkpoint import checkpoint_view, claim_users, read_checkpoint, read_claims
from ..world.folders import OwnFolder, new_folder
from ..world.logs import KubeletLogs
from ..world.node import SimNode
from ..world.plugin_process import PluginProcess
from ..world.plugin_reports import StubEndedError
from ..world.plugins import SimPlugins, needs_view
from ..world.pod_resources import PodResourcesAnswers
from .changes import (
    Pauses,
    change_device,
    change_file,
    change_gpus,
    change_kubelet,
    change_runtime,
    run_command,
    story_pauses,
)
from .cluster import StoryCluster, check_unbound
from .patience import SimPatience, Starts, settled
from .view import PodResourcesAgent, node_view, pod_view


class SimulatedWorld:
    """The nodes of one story; what makes it a `Backend` is `_cluster`, which a subclass makes before it is entered.

    Args:
        scenario: the story.
        directory: where the nodes' folder is made; the system's place for temporary files where it is None.
        keep: leave the folder behind.
        plugin_commands: plugin name -> argv that takes the place of the story's own program.
    """

    _cluster: StoryCluster

    def __init__(
        self, scenario: Scenario, directory: Path | None, keep: bool, plugin_commands: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._scenario = scenario
        self._base = directory
        self._keep = keep
        self._plugin_commands = plugin_commands
        self._clock = ManualClock()
        self.trace = Trace(now=self._clock.now)
        self._logs = KubeletLogs(self._clock.now)
        self._group = asyncio.TaskGroup()
        self._tasks: list[asyncio.Task[None]] = []
        self._folder: OwnFolder | None = None
        self._kubeconfig: Path | None = None
        self.logs: tuple[Path, ...] = ()
        self._nodes: dict[str, SimNode] = {}
        self._kubelets: dict[str, Kubelet] = {}
        tasks = scenario.stubs_without_process - plugin_commands.keys()
        self._plugins = SimPlugins(scenario.plugins, plugin_commands, self._clock, self.trace, tasks)
        self._starts = Starts(lambda: self._plugins.starting, self._clock)
        self._agents: dict[str, PodResourcesAgent] = {}
        self._panics: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._observed = 0

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything that this machine lets it do."""
        return frozenset(Capability) - self.remedies.keys()

    @cached_property
    def remedies(self) -> Mapping[Capability, str]:
        """What this machine lacks for this story; see `Backend`.

        A program that the user gave in a plugin's place is left out: who names one wants to know that it does not run.
        """
        nodes = self._scenario.nodes
        plugins = [spec for spec in self._scenario.plugins if spec.name not in self._plugin_commands]
        checks: dict[Capability, Callable[[], object]] = {}
        if any(node.runtime is Runtime.PROCESS for node in nodes):
            checks[Capability.PROCESS_RUNTIME] = check_containers
        if any(needs_view(node, plugin) for node in nodes for plugin in plugins):
            checks[Capability.NODE_VIEW] = check_sandbox
        found: dict[Capability, str] = {}
        for capability, check in checks.items():
            try:
                check()
            except HostError as error:
                found[capability] = str(error)
        return found

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        try:
            await self._build()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        ends = AsyncExitStack()
        ends.push_async_exit(self._group)
        # A group that is not told of a failure here would wait for what nobody ends any more.
        ends.push_async_callback(self._end)
        try:
            await ends.__aexit__(kind, error, traceback)
        except BaseException as failure:
            self._remove_files(has_failed=is_failure(failure))
            raise
        self._remove_files(has_failed=False)

    @property
    def kept(self) -> Path | None:
        """The folder with one for each node; see `Backend`."""
        return self._folder.path if self._keep and self._folder is not None else None

    @property
    def places(self) -> Mapping[str, str]:
        """The nodes' folders, logs and sockets, and the API server where there is one; see `Backend`."""
        found = {"API server": f"KUBECONFIG={self._kubeconfig}"} if self._kubeconfig else {}
        for name, node in self._nodes.items():
            found |= {f"{name} folder": str(node.directory), f"{name} logs": str(node.kubelet_log.parent)}
            found |= {f"{name} {file.name}": str(file) for file in sorted(node.plugin_folder.glob("*.sock"))}
            found[f"{name} PodResources"] = str(node.pod_resources_socket)
        return found

    def node(self, name: str) -> SimNode:
        """A node, while the world is there."""
        return self._nodes[name]

    def kubelet(self, node: str) -> Kubelet:
        """The kubelet of a node, while the world is there."""
        return self._kubelets[node]

    def add_plugin(self, node: str, spec: PluginSpec) -> PluginProcess:
        """Prepare a plugin that the story does not have; the caller runs it, and ends it before the world is left.

        Raises:
            InputError: A plugin of this name is there.
            HostError: This machine cannot show the plugin its node.
        """
        return self._plugins.add(self._nodes[node], spec)

    @singledispatchmethod
    async def perform(self, action: Action) -> None:
        """Do one step; see `Backend`. Each handler below is for one class of actions."""
        raise NotImplementedError(action.verb)

    @perform.register
    async def _apply(self, action: Apply) -> None:
        await self._cluster.create_pod(action.manifest)

    @perform.register
    async def _delete(self, action: Delete) -> None:
        await self._cluster.delete_pod(self._pod(action.pod))

    @perform.register
    async def _exit_container(self, action: ExitContainer) -> None:
        pod = self._pod(action.pod)
        names = [container.name for container in pod.containers]
        container = action.container or names[-1]
        if container not in names:
            raise InputError(f"pod '{pod.key}' has no container '{container}'; it has {', '.join(names)}")
        if pod.node_name is None:
            raise InputError(f"pod '{pod.key}' is on no node, so none of its containers runs")
        await self._kubelets[pod.node_name].complete(pod.key, container, action.code)

    @perform.register
    async def _change_metadata(self, action: MetadataAction) -> None:
        subject = self._node(action.node).name if action.pod is None else self._pod(action.pod)
        await self._cluster.change_metadata(action, subject)

    @perform.register
    async def _bind(self, action: Bind) -> None:
        pod = self._pod(action.pod)
        check_unbound(pod)
        await self._cluster.bind(pod, self._node(action.node).name)

    @perform.register
    async def _change_device_object(self, action: ObjectAction) -> None:
        await self._cluster.change_device_object(action)

    @perform.register
    async def _allocate_claim(self, action: AllocateClaim) -> None:
        pods = [self._pod(pod) for pod in action.pods]
        await self._cluster.allocate_claim(action, pods)
        self.trace.append(action.event)

    @perform.register
    async def _change_plugin(self, action: PluginAction) -> None:
        if isinstance(action, MeasurePlugin):
            await self.settle()
        node = self._node(action.node).name
        while True:
            # Nothing else lets node time pass while a step waits.
            while self._plugins.needs_restart(action, node) and (due := self._clock.next_deadline()) is not None:
                await self._clock.advance(due - self._clock.now())
            with contextlib.suppress(StubEndedError):
                return await self._plugins.perform(action, node)

    @perform.register
    async def _change_gpus(self, action: NvidiaAction) -> None:
        change_gpus(action, self._node(action.node), await self.observe(), self.trace)

    @perform.register
    async def _change_device(self, action: DeviceAction) -> None:
        change_device(action, self._node(action.node), await self.observe(), self.trace)

    @perform.register
    async def _change_file(self, action: FileAction) -> None:
        change_file(action, self._node(action.node), await self.observe(), self.trace)

    @perform.register
    async def _change_runtime(self, action: RuntimeAction) -> None:
        node = self._node(action.node)
        change_runtime(action, node, self._kubelets[node.name].runtime.cri, self.trace)

    @perform.register
    async def _change_kubelet(self, action: KubeletAction) -> None:
        node = self._node(action.node)
        with self._logs.of(node.name):
            kubelet, pauses = self._kubelets[node.name], self.pauses(node.name)
            await change_kubelet(action, node, kubelet, self._plugins, self.trace, pauses)

    @perform.register
    async def _run_command(self, action: RunCommand) -> None:
        await run_command(action, self.trace)

    @perform.register
    async def _advance(self, action: Advance) -> None:
        await self.settle()
        await self._cluster.settle()
        self.trace.append(ClockAdvanced(action.seconds))
        await self._clock.advance(action.seconds)

    async def observe(self) -> Snapshot:
        """What the cluster, the kubelets and the supervisors say now."""
        self._cluster.check()
        answers = {name: await agent.ask() for name, agent in self._agents.items()}
        self._observed = len(self.trace)
        pods = self._cluster.pods
        self._named |= {pod.mirror_of or pod.uid: pod.key for pod in pods}
        return Snapshot(
            nodes={node.name: self._node_view(node, answers) for node in self._cluster.nodes},
            pods={pod.key: self._pod_view(pod, answers) for pod in pods},
            plugins=self._plugins.views,
        )

    def patience(self, within_s: float) -> SimPatience:
        """Begin to wait; see `SimPatience`."""
        observed, settle, limit = lambda: self._observed, self._cluster.settle, self._starts.limit
        wanted = self._plugins.wanted
        return SimPatience(self._clock, self.trace, observed, within_s, before_leap=settle, limit=limit, wanted=wanted)

    async def settle(self) -> None:
        """Return when the kubelets know what processes did last; see `settled`."""
        await settled(self.trace)

    def pauses(self, node: str) -> Pauses:
        """What the start of a node's kubelet waits for; see `story_pauses`."""
        return story_pauses(node, self.trace)

    async def _build(self) -> None:
        self._folder = new_folder(self._base)
        self._logs.start()
        self._kubeconfig = await self._cluster.start(self._folder.path, self._kubelets)
        for spec in self._scenario.nodes:
            node = SimNode(spec, self._folder.path / spec.name, self._scenario.changed_files)
            self._nodes[node.name] = node
            node.create()
            context = NodeContext(self._clock, self._cluster.api, self._observe, self._group)
            kubelet = Kubelet(node.directory, node.kubelet_config(), context)
            self._logs.add_node(node.name, node.kubelet_log)
            with self._logs.of(node.name):
                await kubelet.start()
            self._kubelets[node.name] = kubelet
            node.kubeconfig = self._kubeconfig
            self._plugins.add_node(node)
            if self._scenario.asks_pod_resources:
                self._agents[node.name] = PodResourcesAgent(node.pod_resources_socket, self._scenario.pods_to_get)
        self._tasks += self._plugins.run(self._group)

    async def _end(self) -> None:
        self._logs.finish()
        # A stack, so that what fails to end keeps nothing else from ending.
        async with AsyncExitStack() as stack:
            stack.callback(self._logs.close)
            stack.push_async_callback(self._cluster.stop)
            stack.push_async_callback(self._plugins.close)
            for kubelet in self._kubelets.values():
                stack.push_async_callback(kubelet.close)
            for node in self._nodes.values():
                stack.push_async_callback(node.close)
            for agent in self._agents.values():
                stack.callback(agent.close)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _remove_files(self, *, has_failed: bool) -> None:
        if self._folder is None:
            return
        if has_failed:
            self.logs = tuple(log for node in self._nodes.values() for log in node.logs)
        if not self._keep:
            self._folder.remove(but=self.logs)
            if self._base is not None:
                # Nobody but its user removes what is left there.
                self._folder.release()

    def _observe(self, event: NodeEvent) -> None:
        match event:
            case PluginRegistered() | DriverConnected():
                self._plugins.registered(event)
            case PluginSocketFound():
                self._plugins.found(event)
            case KubeletCrashed(node=node, reason=reason):
                self._panics[node] = reason
                self._plugins.allow_restarts(node, False)
            case KubeletStopped(node=node):
                self._plugins.allow_restarts(node, False)
            case KubeletStarted(node=node):
                self._panics.pop(node, None)
        self.trace.append(event)

    def _node(self, name: str | None) -> SimNode:
        return self._nodes[name] if name is not None else next(iter(self._nodes.values()))

    def _pod(self, name: str) -> Pod:
        pods = {pod.key: pod for pod in self._cluster.pods}
        if name not in pods:
            raise InputError(f"no pod '{name}' is there now; the pods are: {', '.join(pods) or 'none'}")
        return pods[name]

    def _node_view(self, node: Node, answers: Mapping[str, PodResourcesAnswers]) -> NodeView:
        name = node.name
        kubernetes, panic = self._nodes[name].spec.kubernetes, self._panics.get(name)
        view = node_view(name, kubernetes, node, is_running=self._kubelets[name].is_running, panic=panic)
        api = answers.get(name, PodResourcesAnswers())
        view = replace(view, pod_resources=api.allocatable, pod_resources_get=api.get)
        # The kubelet's files are read where the story wants to know.
        if self._scenario.reads_checkpoints:
            checkpoint = checkpoint_view(read_checkpoint(self._nodes[name].checkpoint_text()), self._named)
            view = replace(view, checkpoint=checkpoint)
        if self._scenario.reads_claims:
            view = replace(view, claims=claim_users(read_claims(self._nodes[name].claims_text()), self._named))
        if self._scenario.reads_slices:
            view = replace(view, resource_slices=self._cluster.published_devices(name))
        return view

    def _pod_view(self, pod: Pod, answers: Mapping[str, PodResourcesAnswers]) -> PodView:
        node = pod.node_name or ""
        view = pod_view(pod, self._kubelets.get(node), self._cluster)
        return replace(view, pod_resources=answers.get(node, PodResourcesAnswers()).pods.get(pod.key))
