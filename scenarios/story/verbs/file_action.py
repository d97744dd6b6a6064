"""The verbs of a story that change the files of a node; the manifest of a static pod is one of them."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import StrictStr, model_validator
from pydantic_core import PydanticCustomError

from ...trace.events import FileCreated, FileDated, FileMoved, FileRemoved, FileWritten
from ..part import Capability, DataPath, Duration, Name, NodeAction, NodePath
from .pod_action import Apply


class FileAction(NodeAction):
    """Base of the verbs for the files of a node."""

    section = "Files"
    capability = Capability.NODE_FILES


class AddStaticPod(FileAction):
    """Put a pod's manifest into the node's folder of static pods, where its kubelet finds it without the API server.

    In the cluster the pod goes by its name and its node's: ``agent-node-1``.

    Attributes:
        manifest: The pod's manifest.
    """

    section = "Pods"
    events = (FileCreated,)

    manifest: Apply

    @property
    def title(self) -> str:
        return f"{self.verb} {self.manifest.pod}"


class RemoveStaticPod(FileAction):
    """Remove the manifest of a static pod; `pod` is the name that the manifest gives.

    Attributes:
        pod: As its manifest names it, without the name of the node.
    """

    section = "Pods"
    events = (FileRemoved,)

    pod: Name

    @property
    def title(self) -> str:
        return f"{self.verb} {self.pod}"


class _PathAction(FileAction):
    """Base of the verbs for the file or the folder at a path.

    Attributes:
        path: An absolute path on the node.
    """

    path: NodePath

    @property
    def title(self) -> str:
        return f"{self.verb} {self.path}"


class CreateFile(_PathAction):
    """Create a file, and the folders above it where they are missing.

    Attributes:
        content: What is in it; nothing where it is left out.
    """

    events = (FileCreated,)

    content: StrictStr = ""

    @property
    def files_made(self) -> tuple[str, ...]:
        return (self.path,)


class WriteFile(_PathAction):
    """Replace the content of a file.

    Attributes:
        content: What is in it from now on.
    """

    events = (FileWritten,)

    content: StrictStr


class DateFile(_PathAction):
    """Set the time at which a file was changed last, as a clock that was set back does for what is made afterwards.

    The sockets of a tap, which a plugin with `tap: true` sees, keep their own.

    Attributes:
        age: How long ago, by the clock of this machine.
    """

    events = (FileDated,)

    age: Duration


class MoveFile(_PathAction):
    """Move a file to another path, in a folder that exists.

    Attributes:
        to: The new path.
    """

    events = (FileMoved,)

    to: NodePath

    @property
    def files_made(self) -> tuple[str, ...]:
        return (self.to,)


class RemoveFile(FileAction):
    """Remove a file: by its `path`, or the one in `directory` that is named as a device that `heldBy`, a pod, holds.

    Attributes:
        path: Of the file.
        directory: A folder of files that are named as devices.
        held_by: The pod.
    """

    events = (FileRemoved,)

    path: NodePath | None = None
    directory: NodePath | None = None
    held_by: Name | None = None

    @property
    def title(self) -> str:
        return self.verb if self.path is None else f"{self.verb} {self.path}"

    @property
    def pods_named(self) -> Iterable[tuple[str, DataPath]]:
        return () if self.held_by is None else ((self.held_by, ("heldBy",)),)

    @model_validator(mode="after")
    def _one_way_to_name_the_file(self) -> RemoveFile:
        named = (self.path is not None, self.directory is not None, self.held_by is not None)
        if named not in {(True, False, False), (False, True, True)}:
            raise PydanticCustomError("file", "name the file by 'path', or by 'directory' and 'heldBy' together")
        return self


class CreateFolder(_PathAction):
    """Create an empty folder, and the folders above it where they are missing."""

    events = (FileCreated,)

    @property
    def files_made(self) -> tuple[str, ...]:
        return (self.path,)


class RemoveFolder(_PathAction):
    """Remove a folder with all that is in it."""

    capability = Capability.NODE_FOLDERS
    events = (FileRemoved,)
