"""What a story's steps do to the kubelets of a cluster, with systemd's and docker's means."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from simkubelet.model.errors import HostError, InputError
from simkubelet.runtime.cri_call import CriCall

from ...story.verbs.node_action import (
    ChangeCheckpoint,
    FillDisk,
    FreeDisk,
    KubeletAction,
    PauseRuntime,
    RebootNode,
    RefuseCri,
    RestartKubelet,
    ResumeRuntime,
    RuntimeAction,
    StartKubelet,
    StopKubelet,
    SyncNodeStatus,
)
from ...trace.events import CheckpointChanged, CriRefused, NodeRebooted, RuntimePaused, RuntimeResumed
from ...trace.snapshot import KubeletState
from ...trace.trace import Trace
from ..world.checkpoint_text import changed_checkpoint
from .api import ClusterApi
from .node import PLUGIN_FOLDER, UP_WITHIN_S, KindNode
from .plugins import KindPlugins
from .state import ClusterState

_CHECKPOINT: Final = f"{PLUGIN_FOLDER}/kubelet_internal_checkpoint"


class KindKubelets:
    """The kubelets of a story.

    Args:
        api: Of their cluster.
        state: Told when one is stopped; tells when one serves.
        plugins: Go down and come up with their node.
        trace: Gets what is done.
    """

    def __init__(self, api: ClusterApi, state: ClusterState, plugins: KindPlugins, trace: Trace) -> None:
        self._api = api
        self._state = state
        self._plugins = plugins
        self._trace = trace
        self._paused: set[str] = set()
        self._tells_no_status: set[str] = set()

    async def perform(self, action: KubeletAction | RuntimeAction, node: KindNode) -> None:
        """Do what a step says to the kubelet of a node, or to its container runtime.

        Raises:
            InputError: It is not in the state for it.
            HostError: It does not come up.
        """
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
                await self._reboot(node, plugins)
            case ChangeCheckpoint(to=to):
                changed = changed_checkpoint(await node.run("cat", _CHECKPOINT), to)
                if changed is None:
                    await node.ask("remove_file", path=_CHECKPOINT)
                else:
                    await node.ask("write_file", path=_CHECKPOINT, content=changed)
                self._trace.append(CheckpointChanged(node.name, to.value))
            case PauseRuntime() if node.name in self._paused:
                raise InputError(f"the container runtime of node '{node.name}' is paused already; resume it first")
            case PauseRuntime():
                self._paused.add(node.name)
                await node.pause_runtime()
                self._trace.append(RuntimePaused(node.name))
            case ResumeRuntime() if node.name not in self._paused:
                raise InputError(f"the container runtime of node '{node.name}' is not paused; pause it first")
            case ResumeRuntime():
                self._paused.discard(node.name)
                self._trace.append(RuntimeResumed(node.name))
                await node.resume_runtime()
            case RefuseCri(calls=calls):
                is_silent = CriCall.STATUS in calls
                (self._tells_no_status.add if is_silent else self._tells_no_status.discard)(node.name)
                self._trace.append(CriRefused(node.name, tuple(calls)))
                await node.ask("refuse_cri", calls=list(calls))
            case FillDisk() | FreeDisk() | SyncNodeStatus():
                raise InputError("a real kubelet's disk cannot be filled, nor is it told when to publish its node")

    async def _reboot(self, node: KindNode, plugins: tuple[str, ...] | None) -> None:
        await node.systemctl("stop")
        ran = await self._plugins.switch_off(node.name)
        await node.reboot()
        self._trace.append(NodeRebooted(node.name))
        self._paused.discard(node.name)
        self._tells_no_status.discard(node.name)
        await node.watch()
        # One that came up before the agent has found no runtime, where a tap stands before that.
        await node.systemctl("start")
        await self._until_api()
        await self._plugins.switch_on(node.name, ran if plugins is None else plugins)

    async def _stop(self, node: KindNode) -> None:
        await node.systemctl("stop")
        self._state.stopped(node.name)

    async def _start(self, node: KindNode) -> None:
        """Start a kubelet; returns when plugins can register with it, at once where it waits for its runtime."""
        await node.systemctl("start")
        if node.name in self._paused | self._tells_no_status:
            self._state.starts(node.name)
            return
        try:
            async with asyncio.timeout(UP_WITHIN_S):
                while self._state.kubelet[node.name] is not KubeletState.RUNNING:
                    await self._trace.longer_than(len(self._trace))
        except TimeoutError:
            raise HostError(f"node {node.container}: the kubelet does not come up within {UP_WITHIN_S:g} s") from None

    async def _until_api(self) -> None:
        limit = time.monotonic() + UP_WITHIN_S
        while True:
            try:
                await self._api.call("GET", "namespaces/default", within_s=3.0)
            except HostError:
                if time.monotonic() > limit:
                    raise
                await asyncio.sleep(0.5)
            else:
                return
