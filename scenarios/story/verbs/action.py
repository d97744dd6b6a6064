"""The verbs of a story that change its world: what a `Backend` is asked to perform, one class each.

The classes are the document's parts themselves, read and checked; a backend takes them as they are. A selector such
as ``{heldBy: trainer}`` is resolved when the step is performed, see `selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from ..duration import Duration
from ..part import Name, NodePath, Part
from .hardware_action import HardwareAction
from .node_action import KubeletAction, RuntimeAction
from .plugin_action import AnyCallAction, AnyStubAction, ProcessAction
from .pod_action import PodAction


class _ManifestPart(Part):
    """A piece of a Kubernetes object: what we need is checked, the rest is kept word for word."""

    model_config = ConfigDict(extra="allow", frozen=True)


class ObjectMeta(_ManifestPart):
    """``metadata`` of a manifest."""

    name: Name
    namespace: Literal["default"] = "default"


class ResourceRequirements(_ManifestPart):
    """``resources`` of a container: resource -> quantity."""

    limits: Mapping[StrictStr, Annotated[StrictInt | StrictStr, Field(union_mode="left_to_right")]] = Field(
        default_factory=dict
    )


class Container(_ManifestPart):
    """One container of a pod."""

    name: Name
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)


class PodSpec(_ManifestPart):
    """``spec`` of a pod."""

    containers: Annotated[tuple[Container, ...], Field(min_length=1)]
    init_containers: tuple[Container, ...] = Field(default=(), alias="initContainers")


class Apply(_ManifestPart):
    """Create a pod from its manifest."""

    api_version: Literal["v1"]
    kind: Literal["Pod"]
    metadata: ObjectMeta
    spec: PodSpec

    @property
    def pod(self) -> str:
        """The pod's name."""
        return self.metadata.name

    @property
    def containers(self) -> tuple[str, ...]:
        """The names of the pod's containers, init containers first."""
        return tuple(container.name for container in (*self.spec.init_containers, *self.spec.containers))

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as the story has it: only what was written, with its own keys; a new dict each time."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class FileAction(Part):
    """Base: what is done to the files of the node that it names (None: the only one); a static pod is a file."""


class AddStaticPod(FileAction):
    """Put a pod's manifest into a node's folder of static pods, where its kubelet finds it without the API server.

    In the cluster the pod goes by its name and its node's: ``agent-node-1``.
    """

    manifest: Apply
    node: Name | None = None


class RemoveStaticPod(FileAction):
    """Take the manifest of a static pod away; `pod` is the name that the manifest gives."""

    pod: Name
    node: Name | None = None


class Delete(Part):
    """Ask for a pod's deletion; its containers end as they would on a node."""

    pod: Name


class ExitContainer(Part):
    """Let a container of a pod (the only one where none is named) end by itself; its restart policy decides further."""

    pod: Name
    container: Name | None = None
    code: Annotated[StrictInt, Field(ge=0, le=255)] = 0


class CreateFile(FileAction):
    """Create a file on a node, and the folders above it where they are missing."""

    path: NodePath
    content: StrictStr = ""
    node: Name | None = None


class WriteFile(FileAction):
    """Give a file on a node another content."""

    path: NodePath
    content: StrictStr
    node: Name | None = None


class MoveFile(FileAction):
    """Give a file on a node another path, in a folder that is there."""

    path: NodePath
    to: NodePath
    node: Name | None = None


class RemoveFile(FileAction):
    """Remove a file from a node: by its `path`, or the one in `directory` named as a device that `held_by` holds."""

    path: NodePath | None = None
    directory: NodePath | None = None
    held_by: Name | None = None
    node: Name | None = None

    @model_validator(mode="after")
    def _one_way_to_name_the_file(self) -> RemoveFile:
        named = (self.path is not None, self.directory is not None, self.held_by is not None)
        if named not in {(True, False, False), (False, True, True)}:
            raise PydanticCustomError("file", "name the file by 'path', or by 'directory' and 'heldBy' together")
        return self


class CreateFolder(FileAction):
    """Create an empty folder on a node, and the folders above it where they are missing."""

    path: NodePath
    node: Name | None = None


class RemoveFolder(FileAction):
    """Remove a folder from a node with all that is in it."""

    path: NodePath
    node: Name | None = None


class Advance(RootModel[Duration]):
    """Let node time pass; plugins are real processes and keep real time."""

    model_config = ConfigDict(frozen=True)

    @property
    def seconds(self) -> float:
        """How much node time passes."""
        return self.root


AnyFileAction = (
    AddStaticPod | RemoveStaticPod | CreateFile | WriteFile | MoveFile | RemoveFile | CreateFolder | RemoveFolder
)
Action = (
    Apply
    | Delete
    | ExitContainer
    | PodAction
    | KubeletAction
    | RuntimeAction
    | ProcessAction
    | AnyStubAction
    | AnyCallAction
    | HardwareAction
    | AnyFileAction
    | Advance
)


def verb_of(action: Action) -> str:
    """The key that names this action in a story: ``restartKubelet`` for `RestartKubelet`."""
    name = type(action).__name__
    return name[0].lower() + name[1:]
