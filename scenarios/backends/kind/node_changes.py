"""What a story's steps do to the GPUs and the files of a cluster's node, through the agent on it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from simkubelet.model.errors import InputError

from ...story.node_spec import MANIFESTS
from ...story.verbs.action import (
    AddStaticPod,
    AnyFileAction,
    CreateFile,
    CreateFolder,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
    WriteFile,
    verb_of,
)
from ...story.verbs.hardware_action import FailDevice, HealDevice, NvidiaAction
from ...trace.events import FaultHealed, FaultInjected, FileCreated, FileMoved, FileRemoved, FileWritten
from ...trace.snapshot import Snapshot
from ...trace.trace import Trace
from ..world.nvidia_change import nvidia_change
from ..world.selection import chosen_file, chosen_gpu, numbered
from .node import KindNode
from .pods import KindPods


async def change_gpus(action: NvidiaAction, node: KindNode, seen: Snapshot, trace: Trace) -> None:
    """Break, mend or divide the NVIDIA GPUs of a node.

    Args:
        action: The step.
        node: Where the GPUs are.
        seen: The world, by which the step chooses a GPU.
        trace: Gets what is done.

    Raises:
        InputError: There is no such GPU.
    """
    event, given = nvidia_change(action, node.name, await node.ask("gpus"), seen)
    trace.append(event)
    await node.ask("change_gpus", verb=verb_of(action), given=given)


async def change_device(
    action: FailDevice | HealDevice, node: KindNode, devices: Sequence[str], seen: Snapshot, trace: Trace
) -> None:
    """Let a vendor's monitor tell of one of a node's devices that it is unhealthy, or healthy again.

    Raises:
        InputError: There is no such device.
    """
    device = chosen_gpu(action.device, numbered(devices), seen)
    is_healthy = isinstance(action, HealDevice)
    trace.append(FaultHealed(node.name, device) if is_healthy else FaultInjected(node.name, device, None))
    await node.ask("tell_health", device=device, healthy=is_healthy)


async def change_file(
    action: AnyFileAction,
    node: KindNode,
    pods: KindPods,
    seen: Snapshot,
    trace: Trace,
) -> None:
    """Make or remove a file or make a folder; a static pod is a file.

    Raises:
        InputError: It is there already, or is not there.
    """
    match action:
        case CreateFile(path=path, content=content):
            await _create(node, path, content, trace)
        case WriteFile(path=path, content=content):
            await node.ask("write_file", path=path, content=content)
            trace.append(FileWritten(node.name, path))
        case MoveFile(path=path, to=to):
            await node.ask("move_file", path=path, to=to)
            trace.append(FileMoved(node.name, path, to))
        case AddStaticPod(manifest=pod):
            manifest = json.dumps(await pods.static_manifest(pod.manifest))
            await _create(node, f"{MANIFESTS}/{pod.pod}.yaml", manifest, trace)
        case RemoveStaticPod(pod=name):
            await _remove(node, f"{MANIFESTS}/{name}.yaml", trace)
        case RemoveFile():
            await _remove(node, chosen_file(action, seen), trace)
        case CreateFolder(path=path):
            await node.ask("create_folder", path=path)
            trace.append(FileCreated(node.name, path))
        case RemoveFolder():
            raise InputError(
                "a cluster's pods keep the folders that are mounted into them, also those that are removed"
            )


async def _create(node: KindNode, path: str, content: str, trace: Trace) -> None:
    await node.ask("create_file", path=path, content=content)
    trace.append(FileCreated(node.name, path))


async def _remove(node: KindNode, path: str, trace: Trace) -> None:
    await node.ask("remove_file", path=path)
    trace.append(FileRemoved(node.name, path))
