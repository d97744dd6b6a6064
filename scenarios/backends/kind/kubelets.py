"""The kubelets of a cluster: what a story's steps do to them, and their settings for one story.

The settings are the kubelet's configuration file, changed before the story and restored after it.

Source: staging/src/k8s.io/kubelet/config/v1beta1/types.go, ``KubeletConfiguration`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import yaml

from simkubelet.dra import CHECKPOINT_NAME as CLAIMS_CHECKPOINT
from simkubelet.model.errors import HostError, InputError
from simkubelet.runtime import CriCall

from ...story.specs import NodeSpec, TopologySpec
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
from ..world.checkpoint import changed_checkpoint
from .api import ClusterApi
from .node import CRI, PLUGIN_FOLDER, UP_WITHIN_S, KindNode, until
from .plugins import KindPlugins
from .state import ClusterState

_CHECKPOINT: Final = f"{PLUGIN_FOLDER}/kubelet_internal_checkpoint"
_VERBOSITY: Final = 2
"""At which a kubelet logs registrations and lists. Source: devicemanager/manager.go, plugin/v1beta1/server.go."""
_OF_DRIVERS: Final[Mapping[str, Any]] = {"filePattern": "dra_plugin_manager", "verbosity": 3}
"""At which it logs registrations of DRA drivers. Source: cm/dra/plugin/dra_plugin_manager.go, ``add``."""
_FILE: Final = "/var/lib/kubelet/config.yaml"
_ORIGINAL: Final = f"{_FILE}.simkubelet"
_KEEP: Final = f"[ -e {_ORIGINAL} ] || {{ cp -p {_FILE} {_ORIGINAL}.new && mv {_ORIGINAL}.new {_ORIGINAL}; }}"
_WRITE: Final = f"cat >{_FILE}.new && mv {_FILE}.new {_FILE}"
CLAIMS: Final = f"/var/lib/kubelet/{CLAIMS_CHECKPOINT}"
REMOVE_BAD_CLAIMS: Final = f"[ ! -e {CLAIMS} ] || grep -q DRACheckpoint {CLAIMS} || rm {CLAIMS}"
"""A shell command: with claims that it cannot read a kubelet does not start."""
TAKE_BACK: Final = f"[ ! -e {_ORIGINAL} ] || {{ mv {_ORIGINAL} {_FILE} && echo changed; }}"
"""A shell command that restores the cluster's settings, for the next start of the kubelet; it writes if it did."""


class KindKubelets:
    """The kubelets of a story.

    Args:
        api: Of their cluster.
        state: Gets a kubelet's stop; reports when a kubelet serves.
        plugins: Go down and come up with their node.
        trace: Gets what is done.
    """

    def __init__(self, api: ClusterApi, state: ClusterState, plugins: KindPlugins, trace: Trace) -> None:
        self._api = api
        self._state = state
        self._plugins = plugins
        self._trace = trace
        self._paused: set[str] = set()
        self._silent: set[str] = set()

    async def perform(self, action: KubeletAction | RuntimeAction, node: KindNode) -> None:
        """Do what a step says to the kubelet of a node, or to its container runtime.

        Raises:
            InputError: It is not in the state for it.
            HostError: It does not come up.
        """
        match action:
            case RestartKubelet(times=times):
                for _ in range(times):
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
                (self._silent.add if is_silent else self._silent.discard)(node.name)
                self._trace.append(CriRefused(node.name, tuple(calls)))
                await node.ask("refuse_cri", calls=list(calls))
            case FillDisk() | FreeDisk() | SyncNodeStatus():
                raise InputError("a story can neither fill a real kubelet's disk nor choose when it publishes its node")

    async def _reboot(self, node: KindNode, plugins: tuple[str, ...] | None) -> None:
        await node.systemctl("stop")
        ran = await self._plugins.switch_off(node.name)
        await node.reboot()
        self._trace.append(NodeRebooted(node.name))
        self._paused.discard(node.name)
        self._silent.discard(node.name)
        await node.watch()
        # With a tap before the runtime, a kubelet that came up before the agent has found no runtime.
        await node.systemctl("start")
        await self._until_api()
        await self._plugins.switch_on(node.name, ran if plugins is None else plugins)

    async def _stop(self, node: KindNode) -> None:
        await node.systemctl("stop")
        self._state.stopped(node.name)

    async def _start(self, node: KindNode) -> None:
        """Start a kubelet; returns when plugins can register with it or it has ended by itself.

        Where it waits for its runtime, this returns at once.
        """
        self._state.begins(node.name)
        await node.systemctl("start")
        if node.name in self._paused | self._silent:
            self._state.starts(node.name)
            return
        try:
            async with asyncio.timeout(UP_WITHIN_S):
                while self._state.is_beginning(node.name):
                    await self._trace.longer_than(len(self._trace))
        except TimeoutError:
            raise HostError(f"node {node.container}: the kubelet does not come up within {UP_WITHIN_S:g} s") from None

    async def _until_api(self) -> None:
        refusals = ["the cluster's API server does not answer"]

        async def answers() -> bool:
            try:
                await self._api.call("GET", "namespaces/default", within_s=3.0)
            except HostError as error:
                refusals.append(str(error))
                return False
            return True

        await until(answers, UP_WITHIN_S, lambda: refusals[-1])


async def set_up(node: KindNode, spec: NodeSpec, has_cri_tap: bool) -> None:
    """Restart the kubelet where the story wants other settings than the cluster has.

    Args:
        node: The kubelet's.
        spec: What the story says of it.
        has_cri_tap: Whether the agent stands between the kubelet and the container runtime.

    Raises:
        HostError: It does not come up with them.
    """
    settings = yaml.safe_load(await node.run("cat", _FILE))
    changed = changed_settings(settings, spec)
    if has_cri_tap:
        await node.ask("add_cri_tap")
        changed["containerRuntimeEndpoint"] = f"unix://{CRI}"
    if changed == settings:
        return
    await node.systemctl("stop")
    # What the old instance leaves must not be taken for the new one's.
    change = f"rm -f {PLUGIN_FOLDER}/kubelet.sock && {_KEEP} && {_WRITE}"
    await node.run("sh", "-c", change, given=json.dumps(changed).encode())
    await node.start_kubelet()


async def take_back(node: KindNode) -> bool:
    """Restore the cluster's settings, for the next start of the kubelet; whether they were others."""
    return bool((await node.run("sh", "-c", f"{REMOVE_BAD_CLAIMS}; {TAKE_BACK}")).strip())


def wordy(logging: Mapping[str, Any]) -> dict[str, Any]:
    """A ``LoggingConfiguration`` that says enough, as quiet as it may be.

    Only the format ``text`` has verbosities of files, and with them the others are as they were.
    """
    verbosity = max(logging.get("verbosity", 0), _VERBOSITY)
    files = logging.get("vmodule") or []
    if verbosity >= _OF_DRIVERS["verbosity"] or (logging.get("format") or "text") != "text" or _OF_DRIVERS in files:
        return {**logging, "verbosity": verbosity}
    return {**logging, "verbosity": verbosity, "vmodule": [_OF_DRIVERS, *files]}


def changed_settings(settings: Mapping[str, Any], spec: NodeSpec) -> dict[str, Any]:
    """A ``KubeletConfiguration`` with what a story says of the node, and a log that says enough."""
    topology = spec.topology
    changed = {**settings, "logging": wordy(settings.get("logging") or {})}
    if topology == TopologySpec() and not spec.feature_gates:
        return changed
    return {
        **changed,
        "topologyManagerPolicy": topology.policy,
        "topologyManagerScope": topology.scope,
        "topologyManagerPolicyOptions": dict(topology.options),
        "featureGates": {**(settings.get("featureGates") or {}), **spec.feature_gates},
    }
