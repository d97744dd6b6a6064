"""The nodes of a story: version, machine, fake GPUs, and how the kubelet is set up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictStr

from .kubernetes import KubernetesVersion
from .part import Name, NodePath, Part

DEFAULT_KUBERNETES = "1.34"
MANIFESTS = "/etc/kubernetes/manifests"
"""The folder from which a node's kubelet takes static pods."""
CDI_SPEC = "/etc/cdi/nvidia.json"
"""The file on a node with fake GPUs that tells the container runtime how a container gets them."""
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
"""How the devices are called in it: as NVIDIA's plugin asks for them."""


class GpuSpec(Part):
    """The fake GPUs of a node, all of one profile."""

    profile: StrictStr
    count: Annotated[int, Field(strict=True, ge=1, le=1024)]


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
    numa_nodes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    topology: TopologySpec = Field(default_factory=TopologySpec)
    feature_gates: Mapping[StrictStr, StrictBool] = Field(default_factory=dict)
    runtime: Runtime = Runtime.BOOK_KEEPING
    files: tuple[NodePath, ...] = ()
