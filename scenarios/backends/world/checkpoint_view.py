"""What a kubelet's checkpoint says, the same in every world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from simkubelet.devices.checkpoint import Checkpoint, CorruptCheckpointError, decode

from ...trace.snapshot import CheckpointView

CheckpointFile: TypeAlias = Checkpoint | Literal["absent", "corrupt"]
"""What is in the file, or that it is not there, or cannot be read."""


def read_checkpoint(text: str | None) -> CheckpointFile:
    """Read the text of the file, None where there is none."""
    if text is None:
        return "absent"
    try:
        return decode(text)
    except CorruptCheckpointError:
        return "corrupt"


def checkpoint_view(file: CheckpointFile, pods: Mapping[str, str]) -> CheckpointView | Literal["absent", "corrupt"]:
    """The file as a story sees it.

    Args:
        file: What is in it.
        pods: Uid on the node -> pod, those that are gone too.
    """
    if not isinstance(file, Checkpoint):
        return file
    entries: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
    for entry in file.entries:
        containers = entries.setdefault(pods.get(entry.pod_uid, entry.pod_uid), {})
        ids = tuple(sorted(map(str, entry.allocation.devices())))
        containers.setdefault(entry.container, {})[str(entry.resource)] = ids
    registered = {str(resource): tuple(sorted(map(str, ids))) for resource, ids in file.registered.items()}
    return CheckpointView(entries, registered)
