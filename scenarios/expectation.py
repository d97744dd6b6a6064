"""What a story may expect of a node, a pod or a plugin: the document's ``expect`` parts.

The keys that are left out expect nothing. Whether an expectation is met is decided in `evaluation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, PlainValidator, StrictBool, StrictStr, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from .duration import Duration
from .part import Count, Name, Part, ResourceName
from .snapshot import KubeletState, PluginState
from .tap.answer import Rpc

ABSENT: Literal["absent"] = "absent"
"""The word for a resource that a node's status does not name, which is not 0."""


def _count_or_absent(value: object) -> object:
    if value == ABSENT or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise PydanticCustomError("quantity", "expected a whole number of devices or 'absent'")


Quantity = Annotated[
    int | Literal["absent"],
    PlainValidator(_count_or_absent),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": ABSENT}]}),
]


_MAYBE = r"^[0-9]+\?$"


def _count_or_maybe(value: object) -> object:
    if isinstance(value, str) and re.match(_MAYBE, value):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise PydanticCustomError("past", 'expected a whole number of devices, or as "0?" one that may be left out')


PastQuantity = Annotated[
    int | str,
    PlainValidator(_count_or_maybe),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": _MAYBE}]}),
]
"""A quantity that was published, or with a question mark one that may have been."""


_MINOR = r"^[0-9]+\.[0-9]+$"


def _text_or_texts(value: object) -> object:
    texts = value.items() if isinstance(value, Mapping) and value else [("1.0", value)]
    if all(re.match(_MINOR, minor) and isinstance(text, str) for minor, text in texts):
        return value
    raise PydanticCustomError("message", "expected a text, or a mapping of quoted minor versions to texts")


Message = Annotated[
    str | Mapping[str, str],
    PlainValidator(_text_or_texts),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "minProperties": 1,
                    "patternProperties": {_MINOR: {"type": "string"}},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""A text, or the texts by the minor version that began to say it so."""


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

    @model_validator(mode="after")
    def _expects_something(self) -> _Expectation:
        if not self.expected:
            raise PydanticCustomError("nothing", f"says nothing about the {self.subject_key}; add what is expected")
        return self


class NodeExpectation(_Expectation):
    """The published status of a node, and its kubelet.

    Attributes:
        capacity_history: Resource -> all capacities published since the story began, repetitions left out; one with a
            question mark may have been passed over, where chance decides.
        lists: Resource -> how many lists of its plugins the kubelet has taken since the story began.
        pod_resources: Resource -> how many devices the kubelet's PodResources API calls allocatable.
        kubelet: Whether the kubelet is there.
        panic: How the first line of a crashed kubelet's panic begins.
    """

    subject_key = "node"

    node: Name
    capacity: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    allocatable: Mapping[ResourceName, Quantity] = Field(default_factory=dict)
    capacity_history: Mapping[ResourceName, tuple[PastQuantity, ...]] = Field(default_factory=dict)
    lists: Mapping[ResourceName, Count] = Field(default_factory=dict)
    pod_resources: Mapping[ResourceName, Count] = Field(default_factory=dict)
    kubelet: KubeletState | None = None
    panic: StrictStr | None = None


class EventPattern(Part):
    """A Kubernetes Event; what is left out may be anything."""

    type: Literal["Normal", "Warning"] | None = None
    reason: StrictStr | None = None
    message: Message | None = None

    @model_validator(mode="after")
    def _names_something(self) -> EventPattern:
        if not self.model_fields_set:
            raise PydanticCustomError("nothing", "needs at least one of 'type', 'reason', 'message'")
        return self


Health = Literal["Healthy", "Unhealthy", "Unknown", "absent"]
"""Health of a device in a pod's status; ``absent`` where the status does not name the device."""


def _counts_or_absent(value: object) -> object:
    counts = value.values() if isinstance(value, Mapping) else [value != ABSENT and -1]
    if all(isinstance(count, int) and count >= 0 for count in counts):
        return value
    raise PydanticCustomError("listed", "expected resources and their numbers of devices, or 'absent'")


ListedDevices = Annotated[
    Mapping[str, int] | Literal["absent"],
    PlainValidator(_counts_or_absent),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
                {"const": ABSENT},
            ]
        }
    ),
]


class PodExpectation(_Expectation):
    """A pod, its events and what its containers hold.

    Attributes:
        devices: Resource -> how many devices the pod holds.
        keeps_devices: Whether it holds exactly the devices that it was given first in this story.
        restarts: How often its containers were started again, added up.
        shares_no_device_with: Pods whose devices are all others; both pods must hold some.
        env: What every container that holds devices has in its environment; where the kubelet knows of none, every
            container that has all of these variables. ``{devices}`` stands for the ids that the container holds,
            joined by commas in any order.
        health: Resource -> device id -> health, as the pod's status tells it.
        pod_resources: Resource -> how many devices the kubelet's PodResources API lists for the pod; ``absent`` where
            it does not list the pod.
        gone: Whether there is no such pod.
    """

    subject_key = "pod"

    pod: Name
    phase: Literal["Pending", "Running", "Succeeded", "Failed"] | None = None
    reason: StrictStr | None = None
    message: StrictStr | None = None
    devices: Mapping[ResourceName, Count] = Field(default_factory=dict)
    keeps_devices: Literal[True] | None = None
    restarts: Count | None = None
    shares_no_device_with: tuple[Name, ...] = ()
    env: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)
    event: EventPattern | None = None
    health: Mapping[ResourceName, Mapping[StrictStr, Health]] = Field(default_factory=dict)
    pod_resources: ListedDevices | None = None
    gone: StrictBool = False

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
    """

    subject_key = "plugin"

    plugin: Name
    node: Name | None = None
    state: PluginState | None = None
    restarts: Count | None = None
    registrations: Count | None = None
    refusal: StrictStr | None = None
    calls: Mapping[Rpc, Count] = Field(default_factory=dict)


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
