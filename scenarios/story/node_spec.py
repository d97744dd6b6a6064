"""The nodes of a story: version, machine, fake GPUs, and how the kubelet is set up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, StrictBool, StrictInt, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from .capability import Capability
from .kubernetes import KubernetesVersion
from .part import Name, NodePath, Part

DEFAULT_KUBERNETES = "1.34"
MANIFESTS = "/etc/kubernetes/manifests"
"""The folder from which a node's kubelet takes static pods."""
CDI_SPEC = "/etc/cdi/nvidia.json"
"""The file on a node with fake GPUs by which the container runtime gives them to a container."""
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
"""How the devices are called in it: as NVIDIA's plugin asks for them."""
DRIVER_ROOT = "/var/lib/simkubelet/driver"
"""The folder on a node with fake GPUs in which their driver is installed, as a container brings one."""

_GATES_OF_THE_API: Final = frozenset({"ContainerRestartRules", "ResourceHealthStatus", "SidecarContainers"})
"""Feature gates without which an API server drops fields of pods.

Source: pkg/api/pod/util.go, ``dropDisabledFields``, ``dropDisabledPodStatusFields`` (kubernetes v1.34.4).
"""

_MigProfile = Annotated[StrictStr, Field(pattern=r"^[0-9]+g\.[0-9]+gb(\+[a-z.]+)?$")]
MigPartition = tuple[_MigProfile, ...] | Literal["disabled"]
"""Profiles of a GPU's MIG devices, such as ``1g.10gb``, in the order in which they are placed; or MIG mode is off."""


class GpuSpec(Part):
    """The fake GPUs of a node, all of one profile.

    Attributes:
        seed: With the same one the UUIDs are the same each time; new ones where it is left out.
        mig: How each GPU is divided, by index; the last ones are not where none is left for them.
    """

    profile: StrictStr
    count: Annotated[int, Field(strict=True, ge=1, le=1024)]
    seed: StrictStr | None = None
    mig: tuple[MigPartition, ...] = ()


class AmdSpec(Part):
    """The fake AMD GPUs of a node.

    Attributes:
        count: As many as the model's server has slots where it is left out.
        compute: Compute partition mode, such as ``cpx``.
        memory: Memory partition mode, such as ``nps4``.
        exporter: Whether AMD's metrics exporter runs on the node and reports the health of each device.
    """

    profile: StrictStr
    count: Annotated[StrictInt, Field(ge=1)] | None = None
    compute: StrictStr = "spx"
    memory: StrictStr = "nps1"
    exporter: StrictBool = False


class IluvatarSpec(Part):
    """The fake Iluvatar chips of a node, each on a board of its own or two on each board."""

    count: Annotated[StrictInt, Field(ge=1, le=64)]
    chips_per_board: Annotated[StrictInt, Field(ge=1, le=2)] = 1


class NodeFile(Part):
    """A file of a node: what is in it, or as a symbolic link where it leads.

    Attributes:
        link: What the link says: an absolute path of the node, or one from the link's own folder.
    """

    path: NodePath
    content: StrictStr = ""
    link: Annotated[StrictStr, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _content_or_link(self) -> NodeFile:
        if self.link is not None and self.content:
            raise PydanticCustomError("file", "takes 'content' or 'link', not both")
        return self


def _file_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "(path)"
    return "(file)" if isinstance(value, Mapping | NodeFile) else None


File = Annotated[
    Annotated[NodePath, Tag("(path)")] | Annotated[NodeFile, Tag("(file)")],
    Discriminator(
        _file_tag,
        custom_error_type="file",
        custom_error_message="expected a file: its path, or a mapping with 'path' and 'content' or 'link'",
    ),
]
"""A file by its path where it is empty, else in full."""


class TopologySpec(Part):
    """The topology manager of a kubelet, in the words of its configuration.

    Attributes:
        options: Policy option -> value, such as ``prefer-closest-numa-nodes: "true"``.
    """

    policy: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    scope: Literal["container", "pod"] = "container"
    options: Mapping[StrictStr, StrictStr] = Field(default_factory=dict)


class Runtime(StrEnum):
    """What a container of a node is."""

    BOOK_KEEPING = "book-keeping"
    """What plugins asked for is kept; no process runs."""
    PROCESS = "process"
    """Its command runs in a sandbox."""


class NodeSpec(Part):
    """A node: its kubelet's version and settings, its machine, and the files that exist when the story begins."""

    name: Name
    kubernetes: KubernetesVersion = DEFAULT_KUBERNETES
    gpus: GpuSpec | None = None
    amd: AmdSpec | None = None
    iluvatar: IluvatarSpec | None = None
    numa_nodes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    topology: TopologySpec = Field(default_factory=TopologySpec)
    feature_gates: Mapping[StrictStr, StrictBool] = Field(default_factory=dict)
    runtime: Runtime = Runtime.BOOK_KEEPING
    files: tuple[File, ...] = ()

    @property
    def contents(self) -> Mapping[str, str]:
        """Path -> content of each file that is not a link."""
        return {file.path: file.content for file in self._whole_files if file.link is None}

    @property
    def links(self) -> Mapping[str, str]:
        """Path -> what it says, of each symbolic link."""
        return {file.path: file.link for file in self._whole_files if file.link is not None}

    @property
    def _whole_files(self) -> list[NodeFile]:
        return [NodeFile(path=file) if isinstance(file, str) else file for file in self.files]

    @property
    def has_devices(self) -> bool:
        """Whether its machine has fake GPUs of any vendor."""
        return any(spec is not None for spec in (self.gpus, self.amd, self.iluvatar))

    @property
    def needed(self) -> frozenset[Capability]:
        """What a backend must be able to do to have such a node."""
        conditions = {
            Capability.FAKE_GPUS: self.has_devices,
            Capability.NODE_FILES: bool(self.files),
            Capability.KUBELET_SETTINGS: self.topology != TopologySpec() or bool(self.feature_gates),
            Capability.API_FEATURE_GATES: not _GATES_OF_THE_API.isdisjoint(self.feature_gates),
            Capability.FAKE_NUMA_NODES: self.numa_nodes > 1,
            Capability.PROCESS_RUNTIME: self.runtime is Runtime.PROCESS,
        }
        return frozenset(capability for capability, is_needed in conditions.items() if is_needed)


def vendor_specs(spec: NodeSpec) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The AMD GPUs and the Iluvatar chips of a node, as `vendor_devices.VendorDevices` takes them."""
    amd, iluvatar = spec.amd, spec.iluvatar
    return None if amd is None else amd.model_dump(), None if iluvatar is None else iluvatar.model_dump()
