"""What can be done to the nodes of a live cluster: steps of stories about kubelets, runtimes, GPUs and plugins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from simkubelet.kubelet import Kubelet
from simkubelet.model.errors import InputError

from ..backends.sim.changes import Pauses, change_gpus, change_kubelet, change_runtime
from ..backends.sim.view import pod_view
from ..backends.world.node import SimNode
from ..story.complaints import complaints
from ..story.crosscheck import unknown
from ..story.document import shown_path
from ..story.model import Step
from ..story.part import NodeAction
from ..story.verbs.hardware_action import HealNvml, NvidiaAction
from ..story.verbs.node_action import (
    ChangeCheckpoint,
    FillDisk,
    FreeDisk,
    KubeletAction,
    PauseRuntime,
    RebootNode,
    RestartKubelet,
    ResumeRuntime,
    RuntimeAction,
    StartKubelet,
    StopKubelet,
)
from ..story.verbs.plugin_action import (
    KillPlugin,
    PausePlugin,
    ProcessAction,
    ResumePlugin,
    StartPlugin,
    StopPlugin,
)
from ..trace.snapshot import PluginState, Snapshot
from .nodes import LiveNodes

if TYPE_CHECKING:
    from simkubelet.cluster import Store
    from simkubelet.remote import RemoteCluster

LiveAction = KubeletAction | RuntimeAction | NvidiaAction | ProcessAction
_DONE: Final[Mapping[type[NodeAction], str]] = {
    RestartKubelet: "the kubelet of {node} was restarted",
    StopKubelet: "the kubelet of {node} is stopped",
    StartKubelet: "the kubelet of {node} runs",
    RebootNode: "{node} was rebooted",
    ChangeCheckpoint: "the checkpoint of {node} is {action.to.value}",
    FillDisk: "the disk of {node} has no room for a checkpoint",
    FreeDisk: "the disk of {node} has room for a checkpoint",
    PauseRuntime: "the container runtime of {node} is paused",
    ResumeRuntime: "the container runtime of {node} runs",
    StartPlugin: "the plugin {action.plugin} of {node} was started",
    StopPlugin: "the plugin {action.plugin} of {node} is stopped",
    KillPlugin: "the plugin {action.plugin} of {node} was killed",
    PausePlugin: "the plugin {action.plugin} of {node} is paused",
    ResumePlugin: "the plugin {action.plugin} of {node} runs",
    HealNvml: "NVML works again on {node}",
}
"""What is reported of a step that is done, in a sentence; of the others their title says it."""


def live_action(step: object) -> LiveAction:
    """Read a step, as a story has it: ``{"fail": {"node": "node-1", "gpu": 0, "xid": 79}}``.

    Raises:
        InputError: It is no step, or none that can be done to a live cluster.
    """
    try:
        action = Step.model_validate(step).action
    except ValidationError as error:
        first = next(complaints(error.errors(include_url=False), Step))
        where = f"{shown_path(first.path)}: " if first.path else ""
        raise InputError(f"no step: {where}{first.message}") from None
    if not isinstance(action, LiveAction):
        verb = "expect" if action is None else action.verb
        raise InputError(f"'{verb}' cannot be done to a running cluster; pods and labels are changed with kubectl")
    return action


@dataclass(slots=True, eq=False)
class Controls:
    """Performs steps on the nodes of a cluster, one after the other.

    Attributes:
        cluster: Its name, for messages.
        live: Its nodes.
        store: Who holds which GPU.
    """

    cluster: str
    live: LiveNodes
    store: Store | RemoteCluster
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def perform(self, step: object) -> str:
        """Do a step when all steps before it are done, and report it in a line.

        Raises:
            InputError: It is no step for a live cluster, or the node, GPU or plugin is missing or in another state.
            PluginError: No GPU is as the step wants it.
            HostError: The machine failed.
        """
        action = live_action(step)
        async with self._turn:
            node = self._node(action.node)
            with self.live.logs.of(node):
                await self._do(action, self.live.by_name[node], self.live.kubelets[node])
        return _DONE.get(type(action), "{action.title} on {node}").format(node=node, action=action)

    async def _do(self, action: LiveAction, node: SimNode, kubelet: Kubelet) -> None:
        match action:
            case StopKubelet() if not kubelet.is_running:
                raise InputError(f"the kubelet of node '{node.name}' is stopped already; start it first")
            case KubeletAction():
                pauses = Pauses(self.live.until_published, self.live.until_published)
                await change_kubelet(action, node, kubelet, self.live.plugins, self.live.record, pauses)
            case RuntimeAction():
                change_runtime(action, node, kubelet.runtime.cri, self.live.record)
            case NvidiaAction():
                change_gpus(action, node, self._snapshot(), self.live.record)
            case ProcessAction():
                self._check_plugin(action, node.name)
                await self.live.plugins.perform(action, node.name)

    def _node(self, name: str | None) -> str:
        if name is None and len(self.live.by_name) == 1:
            return next(iter(self.live.by_name))
        if name is None or name not in self.live.by_name:
            problem = "no node is named" if name is None else f"no node '{name}'"
            raise InputError(f"{problem} in cluster '{self.cluster}'; its nodes: {', '.join(self.live.by_name)}")
        return name

    def _snapshot(self) -> Snapshot:
        """The pods alone, by which a step may name a GPU."""
        pods = {
            pod.key: pod_view(pod, self.live.kubelets.get(pod.node_name or ""), self.store) for pod in self.store.pods
        }
        return Snapshot(nodes={}, pods=pods, plugins=())

    def _check_plugin(self, action: ProcessAction, node: str) -> None:
        states = {view.name: view.state for view in self.live.plugins.views if view.node == node}
        if action.plugin not in states:
            problem = unknown("plugin", action.plugin, states)
            raise InputError(f"{problem}; pods that are plugins are changed with kubectl")
        if states[action.plugin] is PluginState.WAITING and not isinstance(action, StartPlugin | StopPlugin):
            raise InputError(f"plugin '{action.plugin}' has ended, and is started again when its back-off is over")
