"""What a story may expect of a node: its status, its kubelet with the checkpoint, and each of its plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ...trace.snapshot import KubeletState, PluginState
from ..part import Count, FilledPart, Name, ResourceName
from ..tap_answer import Rpc
from .expectation import Expectation, Phase
from .values import (
    MAPPING,
    WORD,
    AnsweredDevices,
    Devices,
    DevicesOrAbsent,
    PastQuantity,
    PlacedDevices,
    Quantity,
    word_or_mapping,
)

PodEntries = Annotated[
    Annotated[Literal["absent"], Tag(WORD)]
    | Annotated[Mapping[StrictStr, Mapping[ResourceName, Devices]], Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="entries",
        custom_error_message="expected containers and their devices by resource, or 'absent'",
    ),
]


class CheckpointContent(FilledPart):
    """What a checkpoint says.

    Attributes:
        pods: Pod -> container -> resource -> the devices that it was given; ``absent`` where there is no entry.
        registered: Resource -> its healthy devices; ``absent`` where it is not named.
    """

    pods: Mapping[Name, PodEntries] = Field(default_factory=dict)
    registered: Mapping[ResourceName, DevicesOrAbsent] = Field(default_factory=dict)


ExpectedCheckpoint = Annotated[
    Annotated[Literal["absent", "corrupt"], Tag(WORD)] | Annotated[CheckpointContent, Tag(MAPPING)],
    Discriminator(
        word_or_mapping,
        custom_error_type="checkpoint",
        custom_error_message="expected 'pods' and 'registered', or 'absent', or 'corrupt'",
    ),
]


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
        labels: Some labels and their values; `absent` where there is none of that name.
        annotations: The same for annotations.
        kubelet: `running`, `stopped` or `crashed`.
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
    pod_resources_get: Mapping[Name, AnsweredDevices] = Field(default_factory=dict)
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
        call_log: All calls that the kubelet has made to the plugin's latest process, in their order; of the stub, or
            with a tap.
        connections: How many connections the kubelet has to the plugin's sockets; with a tap.
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
