"""What a story's steps do to the GPUs and the files of a cluster's node, through the agent on it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from simkubelet.errors import InputError

from ...action import (
    AddStaticPod,
    CreateFile,
    CreateFolder,
    Fail,
    FileAction,
    Heal,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
)
from ...events import FaultHealed, FaultInjected, FileCreated, FileRemoved
from ...node_spec import MANIFESTS
from ...selection import chosen_file, chosen_gpu
from ...snapshot import Snapshot
from ...trace import Trace
from .node import KindNode
from .pods import KindPods


async def change_gpu(
    action: Fail | Heal, node: KindNode, gpus: Sequence[str] | None, seen: Snapshot, trace: Trace
) -> None:
    """Inject a fault or take it back.

    Args:
        action: The step.
        node: Where the GPU is.
        gpus: The UUIDs of the node's GPUs, None where it has none.
        seen: The world, by which the step chooses a GPU.
        trace: Gets what is done.

    Raises:
        InputError: There is no such GPU.
    """
    if gpus is None:
        raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
    gpu = chosen_gpu(action.gpu, gpus, seen)
    if isinstance(action, Fail):
        is_lost = action.lost is not None
        trace.append(FaultInjected(node.name, gpu, action.xid, is_lost))
        await node.ask("fail", gpu=gpu, xid=action.xid, lost=is_lost)
    else:
        await node.ask("heal", gpu=gpu)
        trace.append(FaultHealed(node.name, gpu))


async def change_file(
    action: FileAction,
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
        case CreateFile(path=path):
            await _create(node, path, "", trace)
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
