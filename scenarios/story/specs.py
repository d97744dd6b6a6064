"""What the world of a story consists of: its nodes, with their fake GPUs and their kubelets, and its plugins."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    Discriminator,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from simkubelet.model.version import DEFAULT

from .part import Capability, KubernetesVersion, Name, NodePath, Part
from .stub_spec import Serves

MESSAGE_BYTES = 4 << 20
"""What a real kubelet reads of a plugin's message at most."""
MANIFESTS = "/etc/kubernetes/manifests"
"""The folder from which a node's kubelet takes static pods."""
CDI_SPEC = "/etc/cdi/nvidia.json"
"""The file on a node with fake GPUs by which the container runtime gives them to a container."""
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
"""How the devices are called in it: as NVIDIA's plugin asks for them."""
DRIVER_ROOT = "/var/lib/simkubelet/driver"
"""The folder on a node with fake GPUs in which their driver is installed, as a container brings one."""

_GATES_OF_THE_API: Final = frozenset(
    {
        *("ContainerRestartRules", "ResourceHealthStatus", "SidecarContainers"),
        *("DRADerivedAttributes", "DRADeviceCompatibilityGroups", "DRAFractionalCapacityRange"),
        *("DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAOptionalNodeOperations"),
    }
)
"""Feature gates without which an API server drops fields of pods or of claims and devices, or refuses their values.

Source: pkg/api/pod/util.go, ``dropDisabledFields``, ``dropDisabledPodStatusFields`` (kubernetes v1.34.4);
pkg/registry/resource/resourceslice/strategy.go, pkg/api/resourceclaimspec/util.go (v1.37.2).
"""

_MigProfile = Annotated[StrictStr, Field(pattern=r"^[0-9]+g\.[0-9]+gb(\+[a-z.]+)?$")]
MigPartition = tuple[_MigProfile, ...] | Literal["disabled"]
"""Profiles of a GPU's MIG devices, such as ``1g.10gb``, in the order in which they are placed; or MIG mode is off."""


class GpuSpec(Part):
    """The fake GPUs of a node, all of one profile.

    Attributes:
        profile: The model, such as `h100-80gb`; `fakegpu profiles` lists them.
        count: How many the node has.
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
        profile: The model, such as `mi300x`.
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
    """The fake Iluvatar chips of a node, each on a board of its own or two on each board.

    Attributes:
        count: How many the node has.
        chips_per_board: One or two.
    """

    count: Annotated[StrictInt, Field(ge=1, le=64)]
    chips_per_board: Annotated[StrictInt, Field(ge=1, le=2)] = 1


class NodeFile(Part):
    """A file of a node: what is in it, or as a symbolic link where it leads.

    Attributes:
        path: An absolute path on the node.
        content: What is in the file; nothing where it is left out.
        link: What the link says: an absolute path of the node, or one from the link's own folder; not one that leads
            above the node's root.
    """

    path: NodePath
    content: StrictStr = ""
    link: Annotated[StrictStr, Field(min_length=1)] | None = None

    @field_validator("link")
    @classmethod
    def _leads_to_the_node(cls, link: str | None, info: ValidationInfo) -> str | None:
        depth = 0 if link is None or link.startswith("/") else len(PurePosixPath(info.data.get("path", "/")).parts) - 2
        for name in PurePosixPath(link or "").parts:
            depth += {"..": -1, "/": 0}.get(name, 1)
            if depth < 0:
                raise PydanticCustomError(
                    "path", "expected a link that does not lead out of the node: fewer '..', or an absolute path"
                )
        return link

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
        policy: The kubelet's `topologyManagerPolicy`.
        scope: The kubelet's `topologyManagerScope`.
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
    """A node: its kubelet's version and settings, its machine, and the files that exist when the story begins.

    Attributes:
        name: As the node object has it.
        kubernetes: The kubelet's version, a minor or a patch of one, as text.
        gpus: Fake NVIDIA GPUs.
        numa_nodes: How many NUMA nodes the machine has.
        topology: The topology manager.
        feature_gates: Feature gate of the kubelet and whether it is on.
        max_message_bytes: The largest message that the kubelet reads from a plugin. Real kubelets read 4 MiB, the
            default, which is about 60,000 devices; more is for plugins that go beyond it.
        runtime: `book-keeping`: containers are recorded; `process`: they run in a sandbox.
        files: Files that exist from the beginning, such as device files: paths, or mappings with `path` and
            `content` or `link`.
    """

    name: Name
    kubernetes: KubernetesVersion = DEFAULT
    gpus: GpuSpec | None = None
    amd: AmdSpec | None = None
    iluvatar: IluvatarSpec | None = None
    numa_nodes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    topology: TopologySpec = Field(default_factory=TopologySpec)
    feature_gates: Mapping[StrictStr, StrictBool] = Field(default_factory=dict)
    max_message_bytes: Annotated[StrictInt, Field(ge=1, le=1 << 30)] = MESSAGE_BYTES
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
            Capability.MESSAGE_LIMIT: self.max_message_bytes != MESSAGE_BYTES,
            Capability.PROCESS_RUNTIME: self.runtime is Runtime.PROCESS,
        }
        return frozenset(capability for capability, is_needed in conditions.items() if is_needed)


def vendor_specs(spec: NodeSpec) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The AMD GPUs and the Iluvatar chips of a node, as `hardware.VendorDevices` takes them."""
    amd, iluvatar = spec.amd, spec.iluvatar
    return None if amd is None else amd.model_dump(), None if iluvatar is None else iluvatar.model_dump()


Builtin: TypeAlias = Literal[
    "amd", "generic", "gopher", "gpu-memory", "gpushare", "iluvatar", "nvidia", "nvidia-mps", "stub", "volcano"
]
"""A bundled plugin."""


_PYTHONS: Final = frozenset({"python", "python3"})


def runnable_words(words: Sequence[str], folder: Path | None = None) -> tuple[str, ...]:
    """A command with a first word that can be run: the Python that runs this, or a path from the root.

    ``python`` and ``python3`` are the interpreter that runs simkubelet, which has its packages; another one is given by
    its path, or as ``env python3``.

    Args:
        words: The command.
        folder: Where a relative path begins; the working directory where it is left out.
    """
    first, *rest = words
    if first in _PYTHONS:
        first = sys.executable
    elif "/" in first and folder is not None:
        first = str(folder / first)
    return (first, *rest)


_OVER_THE_API = frozenset({"gpu-memory", "gpushare", "volcano"})


class PluginSpec(Part):
    """A device plugin, run on every node and started again when it exits, as a DaemonSet would.

    Attributes:
        name: By which steps name it; unique.
        builtin: One of the bundled plugins.
        command: Any other program's argv; ``python`` is the interpreter that runs simkubelet, and relative paths begin
            in the story's folder, where the plugin runs.
        serves: What the builtin ``stub`` serves.
        tap: Whether it talks to the kubelet through a tap, which records its calls and can answer them in another way.
        api: Whether it is given the API server, and its node's name as ``NODE_NAME``: a kubeconfig as ``KUBECONFIG``,
            on a cluster a service account. The bundled plugins that need it always get it.
        start: Whether it runs from the beginning, or from the step that starts it.
        quirks: Whose behaviour a builtin follows; it says nothing to a program in its place.
        args: Appended to the argv of either, and of a program in their place.
        env: Added to the plugin's environment.
    """

    name: Name
    builtin: Builtin | None = None
    command: Annotated[tuple[StrictStr, ...], Field(min_length=1)] | None = None
    serves: Serves | None = None
    tap: StrictBool = False
    api: StrictBool = False
    start: Literal["with-node", "manual"] = "with-node"
    quirks: Literal["article", "original"] | None = None
    args: tuple[StrictStr, ...] = ()
    env: Mapping[Annotated[StrictStr, Field(pattern="^[^=]+$")], StrictStr] = Field(default_factory=dict)

    _folder: Path | None = PrivateAttr(default=None)
    _has_own_network: bool = PrivateAttr(default=False)

    @model_validator(mode="after")
    def _one_program(self) -> PluginSpec:
        if (self.builtin is None) == (self.command is None):
            raise PydanticCustomError("program", "needs exactly one of 'builtin' and 'command'")
        if self.serves is not None and self.builtin != "stub":
            raise PydanticCustomError("program", "only 'builtin: stub' serves what 'serves' says")
        if self.tap and self.serves is not None and self.serves.registers.is_found:
            raise PydanticCustomError(
                "program", "a stub that the kubelet finds reports all calls itself; leave out 'tap'"
            )
        if self.quirks is not None and self.builtin is None:
            raise PydanticCustomError("program", "only a 'builtin' has 'quirks'; give a program of yours 'args'")
        return self

    def in_folder(self, folder: Path) -> PluginSpec:
        """The same plugin of a story in this folder."""
        copy = self.model_copy()
        copy._folder = folder.absolute()  # our own
        return copy

    def in_own_network(self) -> PluginSpec:
        """The same plugin in a network of its own, as a pod's without ``hostNetwork``; in the host's with `api`."""
        copy = self.model_copy()
        copy._has_own_network = not self.uses_api  # our own
        return copy

    @property
    def has_own_network(self) -> bool:
        """Whether its network is a loopback device that no other has; nothing for a builtin."""
        return self._has_own_network

    def working_folder(self, replacement: Sequence[str] | None) -> Path | None:
        """Where its process runs; None for the working directory of this process, as for a program in its place."""
        return None if replacement else self._folder

    @property
    def builtin_args(self) -> tuple[str, ...]:
        """The arguments that follow the name of a builtin."""
        return (*(("--quirks", self.quirks) if self.quirks else ()), *self.args)

    def foreign_program(self, replacement: Sequence[str] | None) -> tuple[str, ...]:
        """The argv of a program that is not built in, with the story's arguments; empty where the builtin is run.

        Args:
            replacement: What takes the place of the story's own program.
        """
        program = replacement or self.command
        return (*runnable_words(program, self.working_folder(replacement)), *self.args) if program else ()

    @property
    def is_stub(self) -> bool:
        """Whether it understands the verbs of `plugin_action.StubAction`."""
        return self.builtin == "stub"

    @property
    def uses_api(self) -> bool:
        """Whether it talks to the API server."""
        return self.api or self.builtin in _OVER_THE_API

    @property
    def reports_calls(self) -> bool:
        """Whether it is known what the kubelet asks it, and the verbs of `plugin_action.CallAction` act on it."""
        return self.is_stub or self.tap

    @property
    def needed(self) -> frozenset[Capability]:
        """What a backend must be able to do to run it."""
        program = Capability.COMMAND_PLUGINS if self.builtin is None else Capability.BUILTIN_PLUGINS
        started = () if self.start == "with-node" else (Capability.PLUGIN_PROCESSES,)
        return frozenset((Capability.NODE_VIEW, program, *started))
