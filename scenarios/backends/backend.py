"""The world that a story is played in: what a backend offers, and what a story needs of it.

A backend is one world for one story. The runner enters it, performs the steps' actions in order, and looks at it
between them; it never reaches behind this protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ..story.model import Scenario
from ..story.node_spec import NodeSpec, Runtime, TopologySpec
from ..story.verbs.action import (
    Action,
    AddStaticPod,
    Advance,
    CreateFile,
    CreateFolder,
    ExitContainer,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
    WriteFile,
)
from ..story.verbs.hardware_action import Fail, FailDevice, FailNvml, Heal, HealDevice, HealNvml, PartitionGpu
from ..story.verbs.node_action import (
    ChangeCheckpoint,
    FillDisk,
    FreeDisk,
    PauseRuntime,
    RebootNode,
    RefuseCri,
    RestartKubelet,
    ResumeRuntime,
    StartKubelet,
    StopKubelet,
    SyncNodeStatus,
)
from ..story.verbs.plugin_action import KillPlugin, PausePlugin, ResumePlugin, SignalPlugin, StartPlugin, StopPlugin
from ..trace.snapshot import Snapshot
from ..trace.trace import Trace


class Capability(StrEnum):
    """What not every backend can do; the value completes "cannot …" in a reason to skip."""

    SEVERAL_NODES = "run so many nodes"
    FAKE_GPUS = "give a node fake GPUs"
    GPU_FAULTS = "inject GPU faults"
    NODE_FILES = "change files on a node"
    NODE_FOLDERS = "take a folder from a node"
    RESTART_KUBELET = "restart a kubelet"
    REBOOT_NODE = "reboot a node"
    POD_ORDER = "choose the order in which a kubelet admits pods"
    FULL_DISK = "leave a kubelet no room for its checkpoint"
    SYNC_NODE_STATUS = "let a kubelet publish its node at will"
    PAUSE_RUNTIME = "stop a container runtime in its tracks"
    REFUSE_CRI = "let a container runtime refuse calls"
    CHANGE_CHECKPOINT = "change a kubelet's checkpoint"
    KUBELET_SETTINGS = "set up a kubelet's topology policy or feature gates"
    API_FEATURE_GATES = "switch a feature gate that the API server has too"
    FAKE_NUMA_NODES = "give a machine NUMA nodes"
    PROCESS_RUNTIME = "run the processes of containers"
    EXIT_CONTAINER = "let a container end by itself"
    PLUGIN_PROCESSES = "start and stop a plugin at will"
    ADVANCE_TIME = "let node time pass at will"
    BUILTIN_PLUGINS = "run the plugins that come along"
    COMMAND_PLUGINS = "run any program as a plugin"
    NODE_VIEW = "show plugins their node as its root sees it"


class Patience(Protocol):
    """The time that one expectation has, measured by its backend."""

    async def wait(self) -> bool:
        """Wait for something to look at.

        Returns:
            True when the world may have changed since the last observation; the backend may let its node time pass
            meanwhile. False when the time is used up.
        """
        ...


class Backend(Protocol):
    """One world for one story, an async context manager.

    Entering brings nodes and plugins up (processes started; nothing need be registered yet) or, where it fails, leaves
    nothing behind. Leaving ends every process and removes every file, also after an error or a cancellation, and never
    waits without a limit. After a failure (`verdict.is_failure`) it leaves `logs` behind.

    Raises:
        InputError: What the user gave cannot be used: a folder, a command, a name that the world does not have.
        HostError: The machine could not do what was needed.
        PluginError: A plugin broke the kubelet's contract so that the story cannot go on.
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this backend can do; known before it is entered."""
        ...

    @property
    def remedies(self) -> Mapping[Capability, str]:
        """What only this machine keeps the backend from doing -> what the machine lacks and how to fix it, one line."""
        ...

    @property
    def trace(self) -> Trace:
        """The record of this world; the runner appends its own events."""
        ...

    @property
    def kept(self) -> Path | None:
        """The folder that this world leaves behind, None where it leaves none."""
        ...

    @property
    def logs(self) -> tuple[Path, ...]:
        """The files that have what plugins and kubelets wrote, once a world with a failure has been left."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    async def perform(self, action: Action) -> None:
        """Do one step; returns when the action is done, not when its consequences are."""
        ...

    async def observe(self) -> Snapshot:
        """What the world looks like now; changes nothing."""
        ...

    def patience(self, within_s: float) -> Patience:
        """Begin to wait for at most `within_s` seconds, as this backend counts them."""
        ...


def needed(scenario: Scenario) -> frozenset[Capability]:
    """All that a backend must be able to do to play a story."""
    actions = [step.action for step in scenario.steps if scenario.has_step(step)]
    conditions = {
        Capability.SEVERAL_NODES: len(scenario.nodes) > 1,
        Capability.FAKE_GPUS: any(node.has_devices for node in scenario.nodes),
        Capability.NODE_FILES: any(node.files for node in scenario.nodes),
        Capability.KUBELET_SETTINGS: any(_has_settings(node) for node in scenario.nodes),
        Capability.API_FEATURE_GATES: any(_GATES_OF_THE_API & node.feature_gates.keys() for node in scenario.nodes),
        Capability.FAKE_NUMA_NODES: any(node.numa_nodes > 1 for node in scenario.nodes),
        Capability.PROCESS_RUNTIME: any(node.runtime is Runtime.PROCESS for node in scenario.nodes),
        Capability.PLUGIN_PROCESSES: any(plugin.start == "manual" for plugin in scenario.plugins),
        Capability.BUILTIN_PLUGINS: any(plugin.builtin for plugin in scenario.plugins),
        Capability.COMMAND_PLUGINS: any(plugin.command for plugin in scenario.plugins),
        Capability.NODE_VIEW: bool(scenario.plugins),
        Capability.POD_ORDER: any(isinstance(action, RebootNode) and action.pods for action in actions),
    }
    by_action = {_BY_ACTION[type(action)] for action in actions if type(action) in _BY_ACTION}
    return frozenset(by_action | {capability for capability, is_needed in conditions.items() if is_needed})


def _has_settings(node: NodeSpec) -> bool:
    return node.topology != TopologySpec() or bool(node.feature_gates)


_GATES_OF_THE_API = frozenset({"ContainerRestartRules", "ResourceHealthStatus", "SidecarContainers"})
"""Feature gates without which an API server drops fields of pods.

Source: pkg/api/pod/util.go, ``dropDisabledFields``, ``dropDisabledPodStatusFields`` (kubernetes v1.34.4).
"""

_BY_ACTION: dict[type, Capability] = {
    RestartKubelet: Capability.RESTART_KUBELET,
    StopKubelet: Capability.RESTART_KUBELET,
    StartKubelet: Capability.RESTART_KUBELET,
    RebootNode: Capability.REBOOT_NODE,
    ChangeCheckpoint: Capability.CHANGE_CHECKPOINT,
    FillDisk: Capability.FULL_DISK,
    FreeDisk: Capability.FULL_DISK,
    SyncNodeStatus: Capability.SYNC_NODE_STATUS,
    PauseRuntime: Capability.PAUSE_RUNTIME,
    ResumeRuntime: Capability.PAUSE_RUNTIME,
    RefuseCri: Capability.REFUSE_CRI,
    ExitContainer: Capability.EXIT_CONTAINER,
    StartPlugin: Capability.PLUGIN_PROCESSES,
    StopPlugin: Capability.PLUGIN_PROCESSES,
    KillPlugin: Capability.PLUGIN_PROCESSES,
    PausePlugin: Capability.PLUGIN_PROCESSES,
    ResumePlugin: Capability.PLUGIN_PROCESSES,
    SignalPlugin: Capability.PLUGIN_PROCESSES,
    Fail: Capability.GPU_FAULTS,
    Heal: Capability.GPU_FAULTS,
    FailDevice: Capability.GPU_FAULTS,
    HealDevice: Capability.GPU_FAULTS,
    PartitionGpu: Capability.GPU_FAULTS,
    FailNvml: Capability.GPU_FAULTS,
    HealNvml: Capability.GPU_FAULTS,
    CreateFile: Capability.NODE_FILES,
    WriteFile: Capability.NODE_FILES,
    MoveFile: Capability.NODE_FILES,
    RemoveFile: Capability.NODE_FILES,
    CreateFolder: Capability.NODE_FILES,
    RemoveFolder: Capability.NODE_FOLDERS,
    AddStaticPod: Capability.NODE_FILES,
    RemoveStaticPod: Capability.NODE_FILES,
    Advance: Capability.ADVANCE_TIME,
}
