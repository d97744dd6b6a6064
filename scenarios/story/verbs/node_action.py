"""The verbs of a story that act on a node's kubelet and on what it uses: checkpoint, container runtime, time."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, RootModel, StrictInt, StrictStr

from simkubelet.model.events import KubeletStarted, KubeletStopped
from simkubelet.runtime import CriCall

from ...trace.events import (
    CheckpointChanged,
    ClockAdvanced,
    CommandRun,
    CriRefused,
    DiskFilled,
    DiskFreed,
    NodeRebooted,
    RuntimePaused,
    RuntimeResumed,
)
from ..part import Action, Capability, DataPath, Duration, Name, NodeAction, Part

_SECTION = "The kubelet and its node"


class KubeletAction(NodeAction):
    """Base of the verbs for the kubelet of a node."""

    section = _SECTION


class RuntimeAction(NodeAction):
    """Base of the verbs for the container runtime of a node."""

    section = _SECTION


class RestartKubelet(KubeletAction):
    """End the kubelet and start a new instance, which first removes every socket of the plugin folder.

    Attributes:
        times: How often, one after the other; each time plugins that are quick have registered again. Of many restarts
            each waits two seconds at most for the plugins, and the others not at all once some have not come.
    """

    capability = Capability.RESTART_KUBELET
    events = (KubeletStopped, KubeletStarted)

    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1


class StopKubelet(KubeletAction):
    """End the kubelet as if it were killed; containers and plugins keep running."""

    capability = Capability.RESTART_KUBELET
    events = (KubeletStopped,)


class StartKubelet(KubeletAction):
    """Start the kubelet after it was stopped or has crashed."""

    capability = Capability.RESTART_KUBELET
    events = (KubeletStarted,)


class RebootNode(KubeletAction):
    """Reboot the node: every container and every plugin process ends, then the kubelet starts, then the plugins.

    CDI specifications in ``/var/run/cdi`` are gone, as that is in memory.

    Attributes:
        plugins: Those that start again, in this order; by default all that ran before, in the story's order. With
            ``[]`` none starts until a step starts it.
        pods: Those that the kubelet admits first, in this order; all others follow in the order of their creation.
    """

    capability = Capability.REBOOT_NODE
    events = (NodeRebooted, KubeletStarted)

    plugins: tuple[Name, ...] | None = None
    pods: tuple[Name, ...] = ()

    @property
    def needed(self) -> frozenset[Capability]:
        return super().needed | ({Capability.POD_ORDER} if self.pods else set())

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((pod, ("pods", index)) for index, pod in enumerate(self.pods))


class CheckpointState(StrEnum):
    """What can become of the file in which a kubelet remembers who holds which device."""

    REMOVED = "removed"
    EMPTY = "empty"
    CORRUPT = "corrupt"
    """One byte is another, so the checksum is wrong."""
    PRE_1_20 = "pre-1.20"
    """The same content as kubelets before 1.20 wrote it, without NUMA nodes."""


class ChangeCheckpoint(KubeletAction):
    """Change the kubelet's checkpoint without its knowledge; the kubelet reads it at its next start.

    Attributes:
        to: `removed`, `empty`, `corrupt` (a wrong checksum) or `pre-1.20` (as kubelets before 1.20 wrote it).
    """

    capability = Capability.CHANGE_CHECKPOINT
    events = (CheckpointChanged,)

    to: CheckpointState

    @property
    def title(self) -> str:
        return f"the checkpoint becomes {self.to.value}"


class FillDisk(KubeletAction):
    """Leave no room on the disk for the kubelet's checkpoint: the file stays as it is."""

    capability = Capability.FULL_DISK
    events = (DiskFilled,)


class FreeDisk(KubeletAction):
    """Make room on the disk again."""

    capability = Capability.FULL_DISK
    events = (DiskFreed,)


class SyncNodeStatus(KubeletAction):
    """Let the kubelet publish its node's status now, in addition to every ten seconds."""

    capability = Capability.SYNC_NODE_STATUS


class PauseRuntime(RuntimeAction):
    """Pause the container runtime: it answers no call of the kubelet; containers keep running."""

    capability = Capability.PAUSE_RUNTIME
    events = (RuntimePaused,)


class ResumeRuntime(RuntimeAction):
    """Resume the container runtime, which then also answers the calls that came meanwhile."""

    capability = Capability.PAUSE_RUNTIME
    events = (RuntimeResumed,)


class RefuseCri(RuntimeAction):
    """Let the container runtime answer these calls of the kubelet with an error from now on, and no others.

    Attributes:
        calls: `Status`, `ListPodSandbox`, `ListContainers`; with ``[]`` it answers all as usual again.
    """

    capability = Capability.REFUSE_CRI
    events = (CriRefused,)

    calls: tuple[CriCall, ...]

    @property
    def title(self) -> str:
        return f"the container runtime refuses {', '.join(self.calls) or 'nothing'}"


class RunCommand(Action, Part):
    """Run a program on this machine, outside the node, and wait until it has ended well.

    Attributes:
        command: The program and its arguments.
    """

    section = _SECTION
    capability = Capability.RUN_COMMANDS
    events = (CommandRun,)

    command: Annotated[tuple[StrictStr, ...], Field(min_length=1)]

    @property
    def title(self) -> str:
        return f"run {self.command[0]}"


class Advance(Action, RootModel[Duration]):
    """Let node time pass; plugins are real processes and keep real time."""

    model_config = ConfigDict(frozen=True)
    section = _SECTION
    capability = Capability.ADVANCE_TIME
    events = (ClockAdvanced,)

    @property
    def seconds(self) -> float:
        """How much node time passes."""
        return self.root
