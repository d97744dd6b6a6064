"""The verbs of a story that write through the API server, as kubectl, a scheduler or a controller does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from simkubelet.model.events import PodScheduled

from ...trace.events import ClaimAllocated
from ..part import LABEL_VALUE, Action, Capability, DataPath, MetadataKey, Name, NodeAction, Part

_Text = Annotated[StrictStr | None, WithJsonSchema({"type": ["string", "null"]})]
_Quantity = Annotated[StrictInt | StrictFloat | StrictStr, Field(union_mode="left_to_right")]
_LabelValue = Annotated[
    Annotated[StrictStr, Field(pattern=LABEL_VALUE)] | None,
    WithJsonSchema({"type": ["string", "null"], "pattern": LABEL_VALUE}),
]


class _ManifestPart(Part):
    """A piece of a Kubernetes object, kept word for word.

    What a story needs of it is checked here, the rest in `complaints.manifest_complaints`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)


class ObjectMeta(_ManifestPart):
    """``metadata`` of a manifest.

    Attributes:
        name: The pod's name.
        namespace: A story has one namespace.
    """

    name: Name
    namespace: Literal["default"] = "default"


class ResourceRequirements(_ManifestPart):
    """``resources`` of a container: resource -> quantity.

    Attributes:
        limits: Resource and quantity, as `nvidia.com/gpu: 1`; those of devices are requests too.
    """

    limits: Mapping[StrictStr, _Quantity] | None = None


class Container(_ManifestPart):
    """One container of a pod.

    Attributes:
        name: Unique in the pod.
        resources: What it asks for.
    """

    name: Name
    resources: ResourceRequirements | None = None


class PodSpec(_ManifestPart):
    """``spec`` of a pod.

    Attributes:
        containers: Those that run side by side.
        init_containers: Those that run before, one after the other.
    """

    containers: Annotated[tuple[Container, ...], Field(min_length=1)]
    init_containers: tuple[Container, ...] | None = Field(default=None, alias="initContainers")


class Apply(Action, _ManifestPart):
    """Create a pod from its manifest.

    Attributes:
        api_version: Always `v1`.
        kind: Always `Pod`.
        metadata: The pod's name, labels and annotations.
        spec: Containers, and what they ask for.
    """

    section = "Pods"

    api_version: Literal["v1"]
    kind: Literal["Pod"]
    metadata: ObjectMeta
    spec: PodSpec

    @property
    def title(self) -> str:
        return f"apply pod {self.pod}"

    @property
    def pod(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def containers(self) -> tuple[str, ...]:
        """The names of the pod's containers, init containers first."""
        return tuple(container.name for container in (*(self.spec.init_containers or ()), *self.spec.containers))

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as the story has it: only what was written, with its own keys; a new dict each time."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Delete(Action, Part):
    """Ask for a pod's deletion; its containers end as they would on a node.

    Attributes:
        pod: The pod's name.
    """

    section = "Pods"

    pod: Name

    @property
    def title(self) -> str:
        return f"delete pod {self.pod}"

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((self.pod, ("pod",)),)


class ExitContainer(Action, Part):
    """Let a container (the only one where none is named) end by itself; its pod's restart policy decides what follows.

    Attributes:
        pod: The pod's name.
        container: The container's name; the only one where it is left out.
        code: Its exit code.
    """

    section = "Pods"
    capability = Capability.EXIT_CONTAINER

    pod: Name
    container: Name | None = None
    code: Annotated[StrictInt, Field(ge=0, le=255)] = 0

    @property
    def title(self) -> str:
        return f"a container of pod {self.pod} exits with {self.code}"

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((self.pod, ("pod",)),)


class Bind(NodeAction):
    """Bind a pod to a node, as the scheduler does that its manifest names by `schedulerName`.

    Attributes:
        pod: The pod's name.
    """

    section = "Pods"
    events = (PodScheduled,)

    pod: Name

    @property
    def title(self) -> str:
        return f"bind pod {self.pod}"

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return ((self.pod, ("pod",)),)


class ClaimedDevice(Part):
    """A device that is allocated to a claim.

    Attributes:
        driver: The driver that prepares it, such as `dra.example.com`.
        pool: The driver's pool that it is in.
        device: Its name in the pool.
        request: The claim's request that it is for.
    """

    driver: Annotated[StrictStr, Field(min_length=1)]
    pool: StrictStr = "node"
    device: StrictStr = "device-0"
    request: Name = "device"


class AllocateClaim(Action, Part):
    """Create a ResourceClaim that is allocated and reserved for pods, or allocate it again: as a scheduler leaves it.

    The pods name a scheduler that is not there (`schedulerName`), so that no other takes them, and `bind` follows.

    Attributes:
        claim: The claim's name, as `resourceClaims` of the pods has it.
        pods: The pods that may use it.
        devices: What is allocated.
    """

    section = "Pods"
    events = (ClaimAllocated,)

    claim: Name
    pods: tuple[Name, ...] = ()
    devices: Annotated[tuple[ClaimedDevice, ...], Field(min_length=1)]

    @property
    def title(self) -> str:
        return f"allocate claim {self.claim}"

    @property
    def event(self) -> ClaimAllocated:
        """What a trace has of it."""
        return ClaimAllocated(self.claim, tuple(f"{one.driver}/{one.pool}/{one.device}" for one in self.devices))

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return tuple((pod, ("pods", index)) for index, pod in enumerate(self.pods))


class DeviceMeta(_ManifestPart):
    """``metadata`` of an object of ``resource.k8s.io``.

    Attributes:
        name: The object's name.
        namespace: A story has one namespace; classes and slices are in none.
    """

    name: Name
    namespace: Literal["default"] | None = None


class ObjectAction(Action):
    """Base of the verbs for one object of ``resource.k8s.io``."""

    section = "Pods"


class DeleteClaim(ObjectAction, Part):
    """Delete a ResourceClaim, and wait until it is gone: it is reserved for no pod that is there.

    Attributes:
        claim: The claim's name.
        waits: `false`: it may stay, as a claim does that a controller has to free first.
    """

    claim: Name
    waits: StrictBool = True

    @property
    def title(self) -> str:
        return f"delete claim {self.claim}"


class ReportConditions(ObjectAction, Part):
    """Report conditions of the devices that a ResourceClaim has, in the claim's status, as their driver does.

    They take the place of all that was reported of these devices.

    Attributes:
        claim: The claim's name.
        conditions: Each condition, and whether it is true.
    """

    claim: Name
    conditions: Annotated[Mapping[MetadataKey, StrictBool], Field(min_length=1)]

    @property
    def title(self) -> str:
        return f"report conditions of claim {self.claim}"


class Create(ObjectAction, _ManifestPart):
    """Create a class, a slice, a claim, a template of claims, or a rule that taints devices: what schedulers look at.

    Its claims are then made from templates, allocated and taken back as on a cluster.

    Attributes:
        api_version: Always `resource.k8s.io/v1`.
        kind: `DeviceClass`, `ResourceSlice`, `ResourceClaim`, `ResourceClaimTemplate`; from 1.37 on `DeviceTaintRule`.
        metadata: The object's name.
        spec: As kubectl takes it.
    """

    api_version: Literal["resource.k8s.io/v1"]
    kind: Literal["DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceTaintRule"]
    metadata: DeviceMeta
    spec: Mapping[StrictStr, Any]

    @property
    def title(self) -> str:
        return f"create {self.kind} {self.metadata.name}"

    @property
    def needed(self) -> frozenset[Capability]:
        return super().needed | ({Capability.DEVICE_SELECTORS} if _has_selector(self.spec) else set())

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as the story has it; a new dict each time."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _has_selector(part: object) -> bool:
    """Whether a part of a manifest has an expression in CEL."""
    if isinstance(part, Mapping):
        return "cel" in part or any(map(_has_selector, part.values()))
    return isinstance(part, Sequence) and not isinstance(part, str) and any(map(_has_selector, part))


class MetadataAction(Action, Part):
    """Base: entries of the ``metadata`` of a pod or of a node are set or removed; the others stay.

    Attributes:
        pod: The pod's name.
        node: The node's name.
    """

    section = "Labels and annotations"
    part: ClassVar[str]
    """The key of ``metadata`` that has the entries."""

    pod: Name | None = None
    node: Name | None = None

    @property
    def entries(self) -> Mapping[str, str | None]:
        """Key -> value; None removes the entry."""
        entries: Mapping[str, str | None] = getattr(self, self.part)
        return entries

    @property
    def subject(self) -> str:
        """The object in words."""
        return f"node {self.node}" if self.pod is None else f"pod {self.pod}"

    @property
    def title(self) -> str:
        return f"{self.verb} {self.subject}"

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return () if self.pod is None else ((self.pod, ("pod",)),)

    @model_validator(mode="after")
    def _one_object(self) -> MetadataAction:
        if (self.pod is None) == (self.node is None):
            raise PydanticCustomError("object", "needs exactly one of 'pod' and 'node'")
        return self


class Annotate(MetadataAction):
    """Set annotations of a pod or a node, as a scheduler of yours would; a value of `null` removes one.

    Attributes:
        annotations: Key and new value of each annotation.
    """

    part = "annotations"

    annotations: Annotated[Mapping[MetadataKey, _Text], Field(min_length=1)]


class Label(MetadataAction):
    """Set labels of a pod or a node; a value of `null` removes one.

    Attributes:
        labels: Key and new value of each label.
    """

    part = "labels"

    labels: Annotated[Mapping[MetadataKey, _LabelValue], Field(min_length=1)]
