"""The verbs of a story that act on a node's kubelet and on what it stands on: its checkpoint, its container runtime."""

from __future__ import annotations

from enum import StrEnum

from simkubelet.runtime import CriCall

from ..part import Name, Part


class RestartKubelet(Part):
    """End a node's kubelet and start a new instance, which removes every socket of the plugin folder first."""

    node: Name | None = None


class StopKubelet(Part):
    """End a node's kubelet; containers and plugins go on."""

    node: Name | None = None


class StartKubelet(Part):
    """Start a node's kubelet after it was stopped or has crashed."""

    node: Name | None = None


class RebootNode(Part):
    """Reboot a node: every container and plugin process is gone, then the kubelet starts, then the plugins.

    Attributes:
        plugins: Those that start again, in this order; all that ran before, in the story's order, where it is left
            out. With ``[]`` none does until a step starts it.
        pods: Those that the kubelet admits first, in this order; all others in that of their creation.
    """

    node: Name | None = None
    plugins: tuple[Name, ...] | None = None
    pods: tuple[Name, ...] = ()


class CheckpointState(StrEnum):
    """What can become of the file in which a kubelet remembers who holds which device."""

    REMOVED = "removed"
    EMPTY = "empty"
    CORRUPT = "corrupt"
    """One byte is another, so the checksum is wrong."""
    PRE_1_20 = "pre-1.20"
    """The same content as kubelets before 1.20 wrote it, without NUMA nodes."""


class ChangeCheckpoint(Part):
    """Change the kubelet's checkpoint behind its back; it is read at the kubelet's next start."""

    to: CheckpointState
    node: Name | None = None


class FillDisk(Part):
    """Leave no room on the disk for the kubelet's checkpoint: the file stays as it is."""

    node: Name | None = None


class FreeDisk(Part):
    """Make room on the disk again."""

    node: Name | None = None


class SyncNodeStatus(Part):
    """Let the kubelet publish its node's status at this moment, as it does by itself every ten seconds."""

    node: Name | None = None


class PauseRuntime(Part):
    """Stop the container runtime in its tracks: it answers the kubelet nothing; containers go on."""

    node: Name | None = None


class ResumeRuntime(Part):
    """Let a paused container runtime go on; what it was asked meanwhile it does then."""

    node: Name | None = None


class RefuseCri(Part):
    """Let the container runtime answer these calls of the kubelet with an error from now on, and no others.

    Attributes:
        calls: With ``[]`` it answers all as usual again.
    """

    calls: tuple[CriCall, ...]
    node: Name | None = None


KubeletAction = (
    RestartKubelet | StopKubelet | StartKubelet | RebootNode | ChangeCheckpoint | FillDisk | FreeDisk | SyncNodeStatus
)
RuntimeAction = PauseRuntime | ResumeRuntime | RefuseCri
