"""What a story may expect of a pod and of each of its containers: state, events, and what plugins gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StrictBool, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ..part import Count, FilledPart, Name, ResourceName
from .expectation import Expectation, Phase
from .values import MAPPING, WORD, Devices, ListedDevices, Message, word_or_mapping


class ExpectedMount(FilledPart):
    """A mount of a container; what is left out may be anything."""

    host_path: StrictStr | None = None
    read_only: StrictBool | None = None


class ExpectedDeviceNode(FilledPart):
    """A device file of a container, the same way; `permissions` are the letters that its plugin gave."""

    host_path: StrictStr | None = None
    permissions: StrictStr | None = None


Mounts = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(WORD)] | Annotated[ExpectedMount, Tag(MAPPING)],
        Discriminator(
            word_or_mapping,
            custom_error_type="mount",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'readOnly'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the mount."""

DeviceNodes = Mapping[
    StrictStr,
    Annotated[
        Annotated[StrictStr, Tag(WORD)] | Annotated[ExpectedDeviceNode, Tag(MAPPING)],
        Discriminator(
            word_or_mapping,
            custom_error_type="device",
            custom_error_message="expected the path on the node, or a mapping with 'hostPath' and 'permissions'",
        ),
    ],
]
"""Path in the container -> path on the node, or more about the device file."""


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
        health: Resource -> device id -> health, as the pod's status reports it.
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
