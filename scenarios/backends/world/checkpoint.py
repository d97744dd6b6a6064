"""A kubelet's checkpoints, the same in every world: what they say, and what accidents and upgrades make of them.

Source of the format before 1.20: devicemanager/checkpoint/checkpointv1.go (kubernetes v1.30.14).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from simkubelet.apis.documents import load_json
from simkubelet.devices import Checkpoint, CorruptCheckpointError, checksum, decode
from simkubelet.dra import BadCheckpointError, ClaimInfo
from simkubelet.dra import decode as decode_claims
from simkubelet.model.errors import InputError

from ...story.verbs.node_action import CheckpointState
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


def read_claims(text: str | None) -> Sequence[ClaimInfo]:
    """What the text of the DRA manager's checkpoint has of claims; nothing where there is none or it cannot be read."""
    try:
        return decode_claims(text or "{}")
    except BadCheckpointError:
        return ()


def claim_users(claims: Iterable[ClaimInfo], pods: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """Claim -> the pods that use it; for `pods` see `checkpoint_view`."""
    return {claim.name: tuple(pods.get(uid, uid) for uid in claim.pods) for claim in claims}


def changed_checkpoint(text: str, to: CheckpointState) -> str | None:
    """What becomes of a checkpoint's text; None where the file is to be removed.

    Raises:
        InputError: The text has to be changed, and is not that of a kubelet any more.
    """
    match to:
        case CheckpointState.REMOVED:
            return None
        case CheckpointState.EMPTY:
            return ""
    try:
        return _with_another_checksum(text) if to is CheckpointState.CORRUPT else _without_numa_nodes(text)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"changeCheckpoint: a step before has made the checkpoint unreadable, so it cannot become '{to}'; let the "
            "kubelet write it first"
        ) from None


def _with_another_checksum(text: str) -> str:
    document = load_json(text)
    document["Checksum"] ^= 1
    return json.dumps(document, separators=(",", ":"))


def _without_numa_nodes(text: str) -> str:
    data = load_json(text)["Data"]
    for entry in data["PodDeviceEntries"] or ():
        entry["DeviceIDs"] = [device_id for ids in entry["DeviceIDs"].values() for device_id in ids]
    return json.dumps({"Data": data, "Checksum": checksum(data)}, separators=(",", ":"))
