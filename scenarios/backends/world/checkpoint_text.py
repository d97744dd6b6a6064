"""A kubelet's checkpoint as accidents and upgrades leave it, the same in every world.

Source of the format before 1.20: devicemanager/checkpoint/checkpointv1.go (kubernetes v1.30.14).
"""

from __future__ import annotations

import json

from simkubelet.devices.checkpoint import checksum

from ...story.verbs.node_action import CheckpointState


def changed_checkpoint(text: str, to: CheckpointState) -> str | None:
    """What becomes of a checkpoint's text; None where the file is to be removed."""
    match to:
        case CheckpointState.REMOVED:
            return None
        case CheckpointState.EMPTY:
            return ""
        case CheckpointState.CORRUPT:
            return _with_another_checksum(text)
        case CheckpointState.PRE_1_20:
            return _without_numa_nodes(text)


def _with_another_checksum(text: str) -> str:
    document = json.loads(text)
    document["Checksum"] ^= 1
    return json.dumps(document, separators=(",", ":"))


def _without_numa_nodes(text: str) -> str:
    data = json.loads(text)["Data"]
    for entry in data["PodDeviceEntries"] or ():
        entry["DeviceIDs"] = [device_id for ids in entry["DeviceIDs"].values() for device_id in ids]
    return json.dumps({"Data": data, "Checksum": checksum(data)}, separators=(",", ":"))
