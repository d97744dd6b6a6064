"""What a story may expect of a node, a pod or a plugin: the document's ``expect`` parts, one class for each subject.

The keys that are left out expect nothing. Whether an expectation is met is decided in `evaluation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Union

from pydantic import Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ..trace.snapshot import KubeletState, PluginState, Rpc, Rule
from .expected_values import (
    AnsweredDevices,
    ClaimUsers,
    DeviceNodes,
    Devices,
    DevicesOrAbsent,
    EventPattern,
    ExpectedCheckpoint,
    Health,
    ListedDevices,
    Mounts,
    PastQuantity,
    Phase,
    PlacedDevices,
    Quantity,
)
from .part import Capability, Count, Duration, FilledPart, HeldName, Name, Part, ResourceName


class Expectation(Part):
    """Base of all expectations: the subject, how long it may take to come true, and how long it must stay so.

    Attributes:
        within: How long it may take to come true.
        holds: How long it must stay true afterwards.
        subject_key: The key that names the subject, and by which a story says which expectation it means.
    """

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
    def reads_claims(self) -> bool:
        """Whether it expects anything of the checkpoint of claims."""
        return False

    @property
    def reads_slices(self) -> bool:
        """Whether it expects anything of ResourceSlices."""
        return False

    @property
    def asks_pod_resources(self) -> bool:
        """Whether it takes a look at the PodResources API."""
        return not {"pod_resources", "pod_resources_get", "consistent"}.isdisjoint(self.model_fields_set)

    @property
    def needed(self) -> frozenset[Capability]:
        """All that a backend must be able to observe, beyond what every one can."""
        return frozenset()

    @model_validator(mode="after")
    def _expects_something(self) -> Expectation:
        if not self.expected:
            raise PydanticCustomError("nothing", f"says nothing about the {self.subject_key}; add what is expected")
        return self


class NodeExpectation(Expectation):
    """The published status of a node, and its kubelet.

    Attributes:
        node: The node's name.
        capacity: Resource -> amount that the node publishes; `absent` where it does not name the resource.
        allocatable: The same for what pods may request.
        capacity_history: Resource -> all capacities published since the story began, repetitions left out; one with a
            question mark (`"0?"`) may have been skipped, where chance decides.
        pods: Phase -> how many of the pods that are bound to the node are in it.
        lists: Resource -> how many lists of its plugins the kubelet has received since the story began.
        pod_resources: Resource -> [devices](#devices) that GetAllocatableResources of the PodResources API names.
        pod_resources_get: Pod -> what that API answers to Get: resource -> devices, or the text of its error.
        checkpoint: The kubelet's file of who holds which device: `pods` (pod -> container -> resource -> devices, or
            `absent`) and `registered` (resource -> healthy devices, or `absent`); `absent` where there is no file,
            `corrupt` where it cannot be read.
        claims: Claim -> the pods that use it, as the file `dra_manager_state` of the kubelet has them; `absent` where
            it does not name the claim.
        resource_slices: Driver -> [devices](#devices) in its ResourceSlices for the node; `absent` where it has none.
        labels: Some labels and their values; `absent` where there is none of that name.
        annotations: The same for annotations.
        kubelet: `running`, `stopped` or `crashed`.
        panic: How the first line of a crashed kubelet's panic begins.
        connected: Resource -> how many healthy devices a plugin has listed to the kubelet that runs now; `absent` where
            no plugin is connected to it.
        same_devices: Resources whose latest list has the ids of the first list in this story.
        consistent: `true`: all that can be seen of the node agrees. No device is in two pods; the published amounts,
            GetAllocatableResources and the checkpoint have what connected plugins listed last; the checkpoint and List
            of the PodResources API have what running pods hold.
    """

    subject_key = "node"

    node: Name
    capacity: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    allocatable: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    capacity_history: Mapping[ResourceName, tuple[PastQuantity, ...]] = Field(default_factory=dict)
    pods: Mapping[Phase, Count] = Field(default_factory=dict)
    lists: Mapping[ResourceName, Count] = Field(default_factory=dict)
    pod_resources: Mapping[ResourceName, PlacedDevices] = Field(default_factory=dict)
    pod_resources_get: Mapping[Name, AnsweredDevices] = Field(default_factory=dict)
    checkpoint: ExpectedCheckpoint | None = None
    claims: Mapping[Name, ClaimUsers] = Field(default_factory=dict)
    resource_slices: Mapping[StrictStr, DevicesOrAbsent] = Field(default_factory=dict)
    labels: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    annotations: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    kubelet: KubeletState | None = None
    panic: StrictStr | None = None
    connected: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    same_devices: tuple[ResourceName, ...] = ()
    consistent: Literal[True] | None = None

    @property
    def pods_to_get(self) -> tuple[str, ...]:
        return tuple(self.pod_resources_get)

    @property
    def reads_checkpoint(self) -> bool:
        return self.checkpoint is not None or self.consistent is not None

    @property
    def reads_claims(self) -> bool:
        return bool(self.claims)

    @property
    def reads_slices(self) -> bool:
        return bool(self.resource_slices)


class ExpectedOptions(FilledPart):
    """The options of a plugin, as it answers GetDevicePluginOptions.

    Attributes:
        pre_start: Whether it asks for PreStartContainer.
        preferred_allocation: Whether it offers GetPreferredAllocation.
    """

    pre_start: StrictBool | None = None
    preferred_allocation: StrictBool | None = None

    @property
    def wanted(self) -> Mapping[str, bool]:
        """What is expected, by the words of a `PluginView`."""
        given = self.model_dump(by_alias=True, exclude_none=True)
        return {str(name): bool(value) for name, value in given.items()}


class Growth(FilledPart):
    """How much more than before a plugin's processes use at most.

    Attributes:
        open_files: Open files, sockets and pipes.
        threads: Threads.
        memory_mib: Resident memory, in MiB.
        cpu: CPU time.
    """

    open_files: Count | None = None
    threads: Count | None = None
    memory_mib: Count | None = None
    cpu: Duration | None = None


class PluginExpectation(Expectation):
    """A plugin on a node, as its supervisor sees it.

    Attributes:
        plugin: The plugin's name.
        node: Where it runs; the only node where none is named.
        state: `running`, `waiting` (for its restart), `stopped` or `exited`.
        restarts: Starts after the first one.
        registrations: How often Register was accepted.
        refusal: The answer to the latest Register call, empty where it was accepted; of the stub, or with a tap.
        calls: RPC -> how often the kubelet made it, and Register -> how often that was answered; of the stub, or with
            a tap.
        most_calls: The same, but how often at most.
        call_log: All calls that the kubelet has made to the plugin's latest process, in their order; of the stub, or
            with a tap.
        connections: How many connections the kubelet has to the plugin's sockets; with a tap.
        contract: [Rules](#the-contract) of the device plugin API that no message of the plugin has broken; with a tap.
        options: `preStart`, `preferredAllocation`: whether the plugin has them on; with a tap.
        sockets: How many sockets the plugin has in its folder; with a tap.
        exit_status: Of its latest process that has ended, negative for a signal.
        ends_within: How long that process took at most to end after SIGTERM, in real time.
        growth: How much more its processes use at most than when `measurePlugin` measured them first: `openFiles`,
            `threads`, `memoryMib`, `cpu`.
    """

    subject_key = "plugin"

    plugin: Name
    node: Name | None = None
    state: PluginState | None = None
    restarts: Count | None = None
    registrations: Count | None = None
    refusal: StrictStr | None = None
    calls: Mapping[Rpc, Count] = Field(default_factory=dict)
    most_calls: Mapping[Rpc, Count] = Field(default_factory=dict)
    call_log: tuple[Rpc, ...] = ()
    connections: Count | None = None
    contract: tuple[Rule, ...] = ()
    options: ExpectedOptions | None = None
    sockets: Count | None = None
    exit_status: StrictInt | None = None
    ends_within: Duration | None = None
    growth: Growth | None = None

    @property
    def needed(self) -> frozenset[Capability]:
        process = not self.expected.isdisjoint({"sockets", "exit_status", "ends_within", "growth"})
        return frozenset({Capability.MEASURE_PLUGINS} if process else ())

    @model_validator(mode="after")
    def _logs_calls_of_the_kubelet(self) -> PluginExpectation:
        if Rpc.REGISTER in self.call_log:
            raise PydanticCustomError("log", "'callLog' has the calls of the kubelet; Register is the plugin's")
        return self


class ContainerExpectation(FilledPart):
    """One container of a pod.

    Attributes:
        devices: Resource -> [devices](#devices) that it holds.
        pod_resources: Resource -> devices that List of the PodResources API names for it; `absent` where it does not
            list the container.
        env: Some variables that plugins added, and their values; `absent` where there is none of that name.
        mounts: All mounts that plugins added: path in the container -> path on the node, or
            `{hostPath: …, readOnly: …}` with one key or both.
        device_nodes: All device files that plugins added: path in the container -> path on the node, or
            `{hostPath: …, permissions: …}`, the letters as the plugin wrote them.
        annotations: Some annotations that plugins added for the container runtime, in the same way as `env`;
            `cdi.k8s.io/nvidia-*` is one whose name begins so, as plugins put random ids into names.
        cdi_devices: The names of all CDI devices that plugins added, in any order: `[nvidia.com/gpu=0]`.

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


class PodExpectation(Expectation):
    """A pod, its events and what its containers hold.

    Attributes:
        pod: The pod's name.
        phase: `Pending`, `Running`, `Succeeded` or `Failed`.
        reason: The reason in the pod's status, a word.
        message: The message in the pod's status, word for word.
        devices: Resource -> [devices](#devices) that the pod's containers hold.
        containers: Container -> what is expected [of that one alone](#of-a-container).
        keeps_devices: `true`: it holds exactly the devices that it was given first in this story.
        shares_no_device_with: Pods that hold none of its devices; both pods must hold some.
        env: Variables that plugins added to every container that holds devices; where the kubelet knows of none, to
            every container that has all of these variables. `{devices}` stands for the ids that the container holds,
            joined by commas in any order; `absent` where there is no such variable.
        labels: Some labels and their values; `absent` where there is none of that name.
        annotations: The same for annotations.
        device_nodes: All device files that plugins added to its containers, as [of a container](#of-a-container).
        health: Resource -> device id -> health, as the pod's status reports it; a claim is named as there:
            `"claim:gpu": {example.com/gpu=0: Healthy}`.
        pod_resources: Resource -> devices that List of the PodResources API names for the pod; `absent` where it does
            not list the pod.
        restarts: How often its containers were started again, added up.
        event: A Kubernetes Event about it: `type`, `reason`, `message`.
        gone: `true`: there is no such pod.
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
    health: Mapping[HeldName, Mapping[StrictStr, Health]] = Field(default_factory=dict)
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


EXPECTATIONS: Final[Mapping[str, type[Expectation]]] = {
    one.subject_key: one for one in (NodeExpectation, PodExpectation, PluginExpectation)
}
"""The key of its subject -> class."""


def _subject_tag(value: Any) -> str | None:
    """The tag of the class whose subject is given; another's may be given, too, where it is one of the class' keys."""
    if isinstance(value, Expectation):
        return f"({value.subject_key})"
    given = EXPECTATIONS.keys() & value.keys() if isinstance(value, Mapping) else set()
    meant = [key for key in sorted(given) if given <= EXPECTATIONS[key].model_fields.keys()]
    return f"({meant[0]})" if len(meant) == 1 else None


if TYPE_CHECKING:
    AnyExpectation = Expectation
else:
    AnyExpectation = Annotated[
        Union[tuple(Annotated[one, Tag(f"({key})")] for key, one in EXPECTATIONS.items())],  # noqa: UP007  # made of a tuple
        Discriminator(
            _subject_tag,
            custom_error_type="subject",
            custom_error_message=f"expected a mapping with exactly one of {', '.join(map(repr, EXPECTATIONS))}",
        ),
    ]
"""One expectation; its subject's key says which."""
