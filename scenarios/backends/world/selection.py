"""Which GPU, device or file a step means in the world as it is, and what is to be done to it: pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from simkubelet.model.errors import InputError, PluginError

from ...story.verbs.file_action import RemoveFile
from ...story.verbs.hardware_action import (
    DeviceSelector,
    Fail,
    FailNvml,
    Free,
    GpuSelector,
    Heal,
    HealNvml,
    HeldBy,
    NvidiaAction,
    PartitionGpu,
)
from ...trace.events import FaultHealed, FaultInjected, GpuPartitioned, NvmlFailed, NvmlHealed
from ...trace.snapshot import Snapshot, hardware_of


def numbered(ids: Iterable[str]) -> dict[str, str]:
    """Index -> id, as `chosen_gpu` takes them."""
    return {str(index): one for index, one in enumerate(ids)}


def chosen_gpu(selector: GpuSelector | DeviceSelector, names: Mapping[str, str], snapshot: Snapshot) -> str:
    """The UUID of the GPU or MIG device that a selector means.

    Args:
        selector: From a story's step.
        names: Index -> UUID of each GPU of the node, in order, and ``GPU:DEVICE`` -> UUID of each MIG device.
        snapshot: Who holds what now.

    Raises:
        InputError: The node has no such device.
        PluginError: The pod holds none of them, or no GPU is free.
    """
    gpus = {index: uuid for index, uuid in names.items() if ":" not in index}
    match selector:
        case HeldBy(held_by=pod):
            candidates = sorted(set(names.values()) & _held(snapshot, pod))
            complaint: Exception = PluginError(f"pod '{pod}' holds none of the node's GPUs")
        case Free():
            taken = {gpu for pod in snapshot.pods for gpu in _held(snapshot, pod)}
            candidates = [uuid for uuid in gpus.values() if uuid not in taken]
            complaint = PluginError("no GPU is free: pods hold all of them")
        case int(index):
            candidates = [gpus[str(index)]] if str(index) in gpus else []
            complaint = InputError(f"no GPU {index}; the node has {len(gpus)}, counted from 0")
        case name:
            candidates = [uuid for index, uuid in names.items() if name in (uuid, index if ":" in index else uuid)]
            there = (uuid if ":" not in index else f"{uuid} ({index})" for index, uuid in names.items())
            complaint = InputError(f"no GPU '{name}'; the node has {', '.join(there) or 'none'}")
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
    return {hardware_of(device) for ids in view.held().values() for device in ids} if view else set()


Change = FaultInjected | FaultHealed | GpuPartitioned | NvmlFailed | NvmlHealed


def nvidia_change(
    action: NvidiaAction, node: str, names: Mapping[str, str], snapshot: Snapshot
) -> tuple[Change, dict[str, Any]]:
    """The event, and the arguments of `hardware.change` beside the verb.

    Args:
        action: The step.
        node: Where the GPUs are.
        names: Of the node's GPUs and MIG devices, as `chosen_gpu` takes them.
        snapshot: The world, by which the step chooses a GPU.

    Raises:
        InputError: There is no such GPU.
        PluginError: A pod does not hold what the step takes for granted.
    """
    match action:
        case Fail():
            uuid, is_lost = chosen_gpu(action.gpu, names, snapshot), action.lost is not None
            return FaultInjected(node, uuid, action.xid, is_lost), {"uuid": uuid, "xid": action.xid, "lost": is_lost}
        case Heal():
            uuid = chosen_gpu(action.gpu, names, snapshot)
            return FaultHealed(node, uuid), {"uuid": uuid}
        case PartitionGpu(gpu=gpu, mig=mig):
            return GpuPartitioned(node, gpu, mig), {"gpu": gpu, "profiles": mig}
        case FailNvml(call=call, error=error):
            given = {"call": call, "error": error, "gpu": action.gpu, "times": action.times}
            return NvmlFailed(node, call, error), given
        case HealNvml():
            return NvmlHealed(node), {}
    raise NotImplementedError(action.verb)
