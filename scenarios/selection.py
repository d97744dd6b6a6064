"""Which GPU or file a selector means in the world as it is: pure look-ups for backends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from simkubelet.errors import InputError, PluginError

from .action import Free, GpuSelector, HeldBy, RemoveFile
from .snapshot import Snapshot


def chosen_gpu(selector: GpuSelector, uuids: Sequence[str], snapshot: Snapshot) -> str:
    """The UUID of the GPU that a selector means.

    Args:
        selector: From a story's step.
        uuids: The UUIDs of the node's GPUs, by index.
        snapshot: Who holds what now.

    Raises:
        InputError: The node has no such GPU.
        PluginError: The pod holds none of the GPUs, or no GPU is free.
    """
    match selector:
        case HeldBy(held_by=pod):
            candidates = [uuid for uuid in sorted(uuids) if uuid in _held(snapshot, pod)]
            complaint: Exception = PluginError(f"pod '{pod}' holds none of the node's GPUs")
        case Free():
            taken = {gpu for pod in snapshot.pods for gpu in _held(snapshot, pod)}
            candidates = [uuid for uuid in uuids if uuid not in taken]
            complaint = PluginError("no GPU is free: pods hold all of them")
        case int(index):
            candidates = list(uuids[index : index + 1])
            complaint = InputError(f"no GPU {index}; the node has {len(uuids)}, counted from 0")
        case uuid:
            candidates = [uuid] if uuid in uuids else []
            complaint = InputError(f"no GPU '{uuid}'; the node has {', '.join(uuids) or 'none'}")
    if not candidates:
        raise complaint
    return candidates[0]


def chosen_file(action: RemoveFile, snapshot: Snapshot) -> str:
    """The absolute path on the node of the file that an action removes.

    Raises:
        PluginError: The pod holds no device.
    """
    if action.path is not None:
        return action.path
    held = sorted(_held(snapshot, action.held_by or ""))
    if not held:
        raise PluginError(f"pod '{action.held_by}' holds no device, so no file is named as one")
    return str(PurePosixPath(action.directory or "/") / held[0])


def _held(snapshot: Snapshot, pod: str) -> set[str]:
    """Ids of all devices that a pod holds; of a shared one the part before ``::``, which names the hardware."""
    view = snapshot.pods.get(pod)
    return {device.split("::")[0] for ids in view.held().values() for device in ids} if view else set()
