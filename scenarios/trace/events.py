"""What the runner and its backend do to a story's world, as typed events beside those of `simkubelet.model.events`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The runner came to a step; `step` is its number, counted from 1."""

    kind: ClassVar[str] = "step-started"
    step: int
    title: str


@dataclass(frozen=True, slots=True)
class ExpectationMet:
    """An expectation came true, and stayed so for as long as it asked."""

    kind: ClassVar[str] = "expectation-met"
    step: int


@dataclass(frozen=True, slots=True)
class ExpectationFailed:
    """An expectation did not come true in time, or did not stay true."""

    kind: ClassVar[str] = "expectation-failed"
    step: int
    mismatches: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimAllocated:
    """A step allocated a ResourceClaim, in the place of a scheduler; `devices` as ``driver/pool/device``."""

    kind: ClassVar[str] = "claim-allocated"
    claim: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PluginStarted:
    """A plugin's process was started; `life` counts from 1."""

    kind: ClassVar[str] = "plugin-started"
    plugin: str
    node: str
    life: int


@dataclass(frozen=True, slots=True)
class PluginExited:
    """A plugin's process ended; `status` is negative for a signal, and `said` the end of what it wrote."""

    kind: ClassVar[str] = "plugin-exited"
    plugin: str
    node: str
    status: int
    said: str


@dataclass(frozen=True, slots=True)
class PluginPaused:
    """A plugin's process was paused."""

    kind: ClassVar[str] = "plugin-paused"
    plugin: str
    node: str


@dataclass(frozen=True, slots=True)
class PluginResumed:
    """A paused plugin's process was resumed."""

    kind: ClassVar[str] = "plugin-resumed"
    plugin: str
    node: str


@dataclass(frozen=True, slots=True)
class PluginSignalled:
    """A plugin's process was sent a signal, such as HUP."""

    kind: ClassVar[str] = "plugin-signalled"
    plugin: str
    node: str
    signal: str


@dataclass(frozen=True, slots=True)
class PluginCalled:
    """The kubelet called a stub, or a plugin with a tap; `devices` are the ids that the call names."""

    kind: ClassVar[str] = "plugin-called"
    plugin: str
    node: str
    rpc: str
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegistrationAnswered:
    """A Register call of a stub, or of a plugin with a tap, was answered; `error` is empty where it was accepted."""

    kind: ClassVar[str] = "registration-answered"
    plugin: str
    node: str
    resource: str
    endpoint: str
    error: str


@dataclass(frozen=True, slots=True)
class ContractBroken:
    """A message of a plugin with a tap broke a rule of the device plugin API, in a way that it had not before."""

    kind: ClassVar[str] = "contract-broken"
    plugin: str
    node: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class PluginMeasured:
    """A step measured what a plugin's processes use of the machine; memory is what they have resident.

    Attributes:
        cpu_s: CPU time of the processes that there are, since they began.
    """

    kind: ClassVar[str] = "plugin-measured"
    plugin: str
    node: str
    open_files: int
    threads: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A step ran a program on this machine, which ended well."""

    kind: ClassVar[str] = "command-run"
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRebooted:
    """A node has rebooted: what ran on it is gone, and its kubelet is about to start."""

    kind: ClassVar[str] = "node-rebooted"
    node: str


@dataclass(frozen=True, slots=True)
class CheckpointChanged:
    """A step changed a kubelet's checkpoint; `to` is what became of it."""

    kind: ClassVar[str] = "checkpoint-changed"
    node: str
    to: str


@dataclass(frozen=True, slots=True)
class DiskFilled:
    """There is no room left for a kubelet's checkpoint."""

    kind: ClassVar[str] = "disk-filled"
    node: str


@dataclass(frozen=True, slots=True)
class DiskFreed:
    """There is room for a kubelet's checkpoint again."""

    kind: ClassVar[str] = "disk-freed"
    node: str


@dataclass(frozen=True, slots=True)
class RuntimePaused:
    """A node's container runtime was paused."""

    kind: ClassVar[str] = "runtime-paused"
    node: str


@dataclass(frozen=True, slots=True)
class RuntimeResumed:
    """A paused container runtime was resumed."""

    kind: ClassVar[str] = "runtime-resumed"
    node: str


@dataclass(frozen=True, slots=True)
class CriRefused:
    """A node's container runtime refuses these calls from now on, and no others."""

    kind: ClassVar[str] = "cri-refused"
    node: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultInjected:
    """A GPU was made to report an XID (None: it reports none), to fall off the bus, or both.

    One that does neither is reported unhealthy by its vendor's monitor.
    """

    kind: ClassVar[str] = "fault-injected"
    node: str
    gpu: str
    xid: int | None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class GpuPartitioned:
    """The MIG devices of the GPU of an index were replaced: `mig` has their profiles, or is ``disabled``."""

    kind: ClassVar[str] = "gpu-partitioned"
    node: str
    index: int
    mig: tuple[str, ...] | str


@dataclass(frozen=True, slots=True)
class NvmlFailed:
    """Calls of the NVIDIA driver's library answer with an error from now on."""

    kind: ClassVar[str] = "nvml-failed"
    node: str
    call: str
    error: str


@dataclass(frozen=True, slots=True)
class NvmlHealed:
    """The NVIDIA driver's library answers as usual again."""

    kind: ClassVar[str] = "nvml-healed"
    node: str


@dataclass(frozen=True, slots=True)
class FaultHealed:
    """All that was injected into a GPU was taken back."""

    kind: ClassVar[str] = "fault-healed"
    node: str
    gpu: str


@dataclass(frozen=True, slots=True)
class FileCreated:
    """A file or a folder appeared on a node."""

    kind: ClassVar[str] = "file-created"
    node: str
    path: str


@dataclass(frozen=True, slots=True)
class FileWritten:
    """A file of a node was given another content."""

    kind: ClassVar[str] = "file-written"
    node: str
    path: str


@dataclass(frozen=True, slots=True)
class FileDated:
    """The time at which a file of a node was changed last was set, to so many seconds ago."""

    kind: ClassVar[str] = "file-dated"
    node: str
    path: str
    age: float


@dataclass(frozen=True, slots=True)
class FileMoved:
    """A file of a node was given another path."""

    kind: ClassVar[str] = "file-moved"
    node: str
    path: str
    to: str


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """A file was removed from a node, or a folder with all that was in it."""

    kind: ClassVar[str] = "file-removed"
    node: str
    path: str


@dataclass(frozen=True, slots=True)
class ClockAdvanced:
    """A step let node time pass."""

    kind: ClassVar[str] = "clock-advanced"
    seconds: float


StoryEvent = (
    StepStarted
    | ExpectationMet
    | ExpectationFailed
    | PluginStarted
    | PluginExited
    | PluginPaused
    | PluginResumed
    | PluginSignalled
    | ClaimAllocated
    | PluginCalled
    | RegistrationAnswered
    | ContractBroken
    | PluginMeasured
    | CommandRun
    | NodeRebooted
    | CheckpointChanged
    | DiskFilled
    | DiskFreed
    | RuntimePaused
    | RuntimeResumed
    | CriRefused
    | FaultInjected
    | FaultHealed
    | GpuPartitioned
    | NvmlFailed
    | NvmlHealed
    | FileCreated
    | FileWritten
    | FileDated
    | FileMoved
    | FileRemoved
    | ClockAdvanced
)
