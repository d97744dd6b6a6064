"""What a step does to the NVIDIA GPUs of a node, decided: the event that tells of it, and what is to be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...story.verbs.hardware_action import Fail, FailNvml, Heal, HealNvml, NvidiaAction, PartitionGpu
from ...trace.events import FaultHealed, FaultInjected, GpuPartitioned, NvmlFailed, NvmlHealed
from ...trace.snapshot import Snapshot
from .selection import chosen_gpu

Change = FaultInjected | FaultHealed | GpuPartitioned | NvmlFailed | NvmlHealed


def nvidia_change(
    action: NvidiaAction, node: str, names: Mapping[str, str], snapshot: Snapshot
) -> tuple[Change, dict[str, Any]]:
    """The event, and the arguments of `nvidia_gpus.change` beside the verb.

    Args:
        action: The step.
        node: Where the GPUs are.
        names: Of the node's GPUs and MIG devices, as `selection.chosen_gpu` takes them.
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
