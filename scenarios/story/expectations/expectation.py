"""What a story may expect of a node, a pod or a plugin: the document's ``expect`` parts.

The keys that are left out expect nothing. Whether an expectation is met is decided in `evaluation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, StrictBool, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ...trace.snapshot import KubeletState, PluginState
from ..duration import Duration
from ..part import Count, FilledPart, Name, Part, ResourceName
from ..tap_answer import Rpc
from .expected_checkpoint import ExpectedCheckpoint
from .expected_devices import Devices, ListedDevices, PlacedDevices, ToldDevices
from .expected_options import DeviceNodes, Mounts
from .expected_values import Message, PastQuantity, Quantity


class _Expectation(Part):
    """Base: how long an expectation may take to come true, and how long it must stay so."""

    subject_key: ClassVar[str]

    within: Duration = 10.0
    holds: Duration = 0.0

    @property
    def subject(self) -> str:
        """The name of the node, pod or plugin."""
        return str(getattr(self, self.subject_key))

    @property
    def expected(self) -> frozenset[str]:
        """The fields that the story gives, without the subject and the times."""
        return frozenset(self.model_fields_set - {self.subject_key, "within", "holds"})

    @property
    def title(self) -> str:
        """What is expected of whom, in a few words."""
        return f"expect {self.subject_key} {self.subject}"

    @property
    def pods_to_get(self) -> tuple[str, ...]:
        """The pods of which it expects an answer to Get of a PodResources API."""
        return ()

    @property
    def reads_checkpoint(self) -> bool:
        """Whether it expects anything of a checkpoint."""
        return False

    @property
    def asks_pod_resources(self) -> bool:
        """Whether it takes a look at the PodResources API."""
        return not {"pod_resources", "pod_resources_get"}.isdisjoint(self.model_fields_set)

    @model_validator(mode="after")
    def _expects_something(self) -> _Expectation:
        if not self.expected:
            raise PydanticCustomError("nothing", f"says nothing about the {self.subject_key}; add what is expected")
        return self


Phase = Literal["Pending", "Running", "Succeeded", "Failed"]


class NodeExpectation(_Expectation):
    """The published status of a node, and its kubelet.

    Attributes:
        capacity_history: Resource -> all capacities published since the story began, repetitions left out; one with a
            question mark may have been passed over, where chance decides.
        pods: Phase -> how many of the pods that are bound to the node are in it.
        lists: Resource -> how many lists of its plugins the kubelet has taken since the story began.
        pod_resources: Resource -> devices that the kubelet's PodResources API calls allocatable.
        pod_resources_get: Pod -> what that API answers to Get: resource -> devices, or the text of its error.
        checkpoint: What the file of who holds which device says, or that it is not there, or cannot be read.
        labels: What some of its labels say; ``absent`` where there is none of that name.
        annotations: The same for annotations.
        kubelet: Whether the kubelet is there.
        panic: How the first line of a crashed kubelet's panic begins.
    """

    subject_key = "node"

    node: Name
    capacity: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    allocatable: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    capacity_history: Mapping[ResourceName, tuple[PastQuantity, ...]] = Field(default_factory=dict)
    pods: Mapping[Phase, Count] = Field(default_factory=dict)
    lists: Mapping[ResourceName, Count] = Field(default_factory=dict)
    pod_resources: Mapping[ResourceName, PlacedDevices] = Field(default_factory=dict)
    pod_resources_get: Mapping[Name, ToldDevices] = Field(default_factory=dict)
    checkpoint: ExpectedCheckpoint | None = None
    labels: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    annotations: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    kubelet: KubeletState | None = None
    panic: StrictStr | None = None

    @property
    def pods_to_get(self) -> tuple[str, ...]:
        return tuple(self.pod_resources_get)

    @property
    def reads_checkpoint(self) -> bool:
        return self.checkpoint is not None


class EventPattern(FilledPart):
    """A Kubernetes Event; what is left out may be anything."""

    type: Literal["Normal", "Warning"] | None = None
    reason: StrictStr | None = None
    message: Message | None = None


Health = Literal["Healthy", "Unhealthy", "Unknown", "absent"]
"""Health of a device in a pod's status; ``absent`` where the status does not name the device."""


class ContainerExpectation(FilledPart):
    """One container of a pod.

    Attributes:
        devices: Resource -> devices that it holds.
        pod_resources: Resource -> devices that List of the PodResources API names for it; ``absent`` where it does not
            list the container.
        env: Some variables that plugins added, as in a `PodExpectation`.
        mounts: All mounts that plugins added.
        device_nodes: All device files that plugins added.
        annotations: Some annotations that plugins added for the container runtime; ``absent`` where there is none of
            that name.
        cdi_devices: The names of all CDI devices that plugins added, in any order.

    In `mounts`, `device_nodes` and `cdi_devices` an entry with ``{device}`` stands for one entry for each device that
    the container holds.
    """

    devices: Mapping[ResourceName, Devices] = Field(default_factory=dict)
    pod_resources: ListedDevices | None = None
    env: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    mounts: Mounts = Field(default_factory=dict)
    device_nodes: DeviceNodes = Field(default_factory=dict)
    annotations: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    cdi_devices: tuple[StrictStr, ...] = ()


class PodExpectation(_Expectation):
    """A pod, its events and what its containers hold.

    Attributes:
        devices: Resource -> devices that the pod holds.
        containers: Container -> what is expected of that one alone.
        keeps_devices: Whether it holds exactly the devices that it was given first in this story.
        restarts: How often its containers were started again, added up.
        shares_no_device_with: Pods whose devices are all others; both pods must hold some.
        env: Variables that plugins added to every container that holds devices; where the kubelet knows of none, to
            every container that has all of these variables. ``{devices}`` stands for the ids that the container holds,
            joined by commas in any order; ``absent`` where there is no such variable.
        device_nodes: All device files that plugins added to its containers.
        labels: What some of its labels say; ``absent`` where there is none of that name.
        annotations: The same for annotations.
        health: Resource -> device id -> health, as the pod's status tells it.
        pod_resources: Resource -> devices that the kubelet's PodResources API lists for the pod; ``absent`` where it
            does not list the pod.
        gone: Whether there is no such pod.
    """

    subject_key = "pod"

    pod: Name
    phase: Phase | None = None
    reason: StrictStr | None = None
    message: StrictStr | None = None
    devices: Mapping[ResourceName, Devices] = Field(default_factory=dict)
    containers: Mapping[StrictStr, ContainerExpectation] = Field(default_factory=dict)
    keeps_devices: Literal[True] | None = None
    restarts: Count | None = None
    shares_no_device_with: tuple[Name, ...] = ()
    env: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    device_nodes: DeviceNodes = Field(default_factory=dict)
    labels: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    annotations: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    event: EventPattern | None = None
    health: Mapping[ResourceName, Mapping[StrictStr, Health]] = Field(default_factory=dict)
    pod_resources: ListedDevices | None = None
    gone: StrictBool = False

    @property
    def asks_pod_resources(self) -> bool:
        of_containers = any(container.pod_resources is not None for container in self.containers.values())
        return of_containers or super().asks_pod_resources

    @model_validator(mode="after")
    def _a_gone_pod_has_nothing(self) -> PodExpectation:
        if self.gone and len(self.expected) > 1:
            raise PydanticCustomError("gone", "a pod that is gone has nothing else to expect")
        return self


class PluginExpectation(_Expectation):
    """A plugin on a node (`node` None: the only one), as its supervisor sees it.

    Attributes:
        refusal: The answer to the latest Register call, empty where it was accepted; of a stub or through a tap.
        calls: RPC -> how often the kubelet made it, and Register -> how often that was answered; of a stub or through
            a tap.
        call_log: All calls that the kubelet has made to the plugin's latest process, in their order; of a stub or
            through a tap.
        connections: How many connections the kubelet has to the plugin's sockets; through a tap.
    """

    subject_key = "plugin"

    plugin: Name
    node: Name | None = None
    state: PluginState | None = None
    restarts: Count | None = None
    registrations: Count | None = None
    refusal: StrictStr | None = None
    calls: Mapping[Rpc, Count] = Field(default_factory=dict)
    call_log: tuple[Rpc, ...] = ()
    connections: Count | None = None

    @model_validator(mode="after")
    def _logs_calls_of_the_kubelet(self) -> PluginExpectation:
        if Rpc.REGISTER in self.call_log:
            raise PydanticCustomError("log", "'callLog' has the calls of the kubelet; Register is the plugin's")
        return self


_SUBJECTS = ("node", "pod", "plugin")
AnyExpectation = NodeExpectation | PodExpectation | PluginExpectation


def _subject_tag(value: Any) -> str | None:
    if isinstance(value, _Expectation):
        return f"({value.subject_key})"
    subjects = [subject for subject in _SUBJECTS if isinstance(value, Mapping) and subject in value]
    if subjects == ["node", "plugin"]:
        return "(plugin)"
    return f"({subjects[0]})" if len(subjects) == 1 else None


Expectation = Annotated[
    Annotated[NodeExpectation, Tag("(node)")]
    | Annotated[PodExpectation, Tag("(pod)")]
    | Annotated[PluginExpectation, Tag("(plugin)")],
    Discriminator(
        _subject_tag,
        custom_error_type="subject",
        custom_error_message="expected a mapping with exactly one of 'node', 'pod', 'plugin'",
    ),
]
"""One expectation; its subject's key says which."""
