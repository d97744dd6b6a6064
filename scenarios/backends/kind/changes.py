"""What a story's steps change on a cluster: GPUs and files of its nodes, bindings, labels and annotations.

Stories share nodes: the first change of a node's labels or annotations records on the node itself what they were, and
`restore_node` restores that, also after a run that was killed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkubelet.model.errors import InputError

from ...story.specs import MANIFESTS
from ...story.verbs.file_action import (
    AddStaticPod,
    CreateFile,
    CreateFolder,
    DateFile,
    FileAction,
    MoveFile,
    RemoveFile,
    RemoveFolder,
    RemoveStaticPod,
    WriteFile,
)
from ...story.verbs.hardware_action import DeviceAction, HealDevice, NvidiaAction
from ...story.verbs.pod_action import MetadataAction
from ...trace.events import FaultHealed, FaultInjected, FileCreated, FileDated, FileMoved, FileRemoved, FileWritten
from ...trace.snapshot import Snapshot
from ...trace.trace import Trace
from ..world.device_objects import GROUP, DeviceObjects
from ..world.selection import chosen_file, chosen_gpu, numbered, nvidia_change
from .api import ClusterApi, Object
from .daemon_set import LABELS
from .node import KindNode
from .pods import KindPods, annotated

_BEFORE: Final = "simkubelet/before"
"""The annotation of a node that has what was there before: part of ``metadata`` -> key -> value, null for none."""


async def change_gpus(action: NvidiaAction, node: KindNode, seen: Snapshot, trace: Trace) -> None:
    """Break, fix or divide the NVIDIA GPUs of a node.

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
    await node.ask("change_gpus", verb=action.verb, given=given)


async def change_device(
    action: DeviceAction, node: KindNode, devices: Sequence[str], seen: Snapshot, trace: Trace
) -> None:
    """Let a vendor's monitor report one of a node's devices as unhealthy, or as healthy again.

    Raises:
        InputError: There is no such device.
    """
    device = chosen_gpu(action.device, numbered(devices), seen)
    is_healthy = isinstance(action, HealDevice)
    trace.append(FaultHealed(node.name, device) if is_healthy else FaultInjected(node.name, device, None))
    await node.ask("report_health", device=device, healthy=is_healthy)


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
        case CreateFile(path=path, content=content):
            await _create(node, path, content, trace)
        case WriteFile(path=path, content=content):
            await node.ask("write_file", path=path, content=content)
            trace.append(FileWritten(node.name, path))
        case DateFile(path=path, age=age):
            await node.ask("date_file", path=path, age=age)
            trace.append(FileDated(node.name, path, age))
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


async def bind(pod: str, node: str, api: ClusterApi) -> None:
    """Bind a pod to a node; both by the cluster's own names.

    Raises:
        InputError: There is no such pod, or it is bound already.
    """
    binding: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    if not await api.call("POST", f"namespaces/default/pods/{pod}/binding", binding):
        raise InputError(f"no pod '{pod}' is there now")


def device_objects(api: ClusterApi) -> DeviceObjects:
    """The objects of ``resource.k8s.io`` of a story, whichever it is: stories follow one another."""

    async def call(method: str, path: str, body: Any) -> dict[str, Any]:
        return await api.call(method, path, body, group=GROUP, patch="merge-patch")

    return DeviceObjects(call, LABELS)


async def change_metadata(action: MetadataAction, names: Mapping[str, str], api: ClusterApi) -> None:
    """Set or remove labels or annotations of a pod or a node.

    Args:
        action: What the story says.
        names: A node's name in the story -> the cluster's.
        api: Of the cluster.

    Raises:
        InputError: There is no such object, or the API server refuses what is written.
    """
    metadata: dict[str, dict[str, str | None]] = {action.part: annotated(action.entries, names)}
    if action.pod is not None:
        url = f"namespaces/default/pods/{action.pod}"
    else:
        url = f"nodes/{names[action.node or '']}"
        before = _before(await api.call("GET", url), action.part, action.entries)
        metadata.setdefault("annotations", {})[_BEFORE] = json.dumps(before)
    if not await api.call("PATCH", url, {"metadata": metadata}):
        raise InputError(f"no {action.subject} is there now")


async def restore_node(node: Object, api: ClusterApi) -> None:
    """Bring back the labels and annotations that a node had before stories changed them."""
    noted = node["metadata"].get("annotations", {}).get(_BEFORE)
    if noted is not None:
        before: dict[str, dict[str, str | None]] = json.loads(noted)
        before.setdefault("annotations", {})[_BEFORE] = None
        await api.call("PATCH", f"nodes/{node['metadata']['name']}", {"metadata": before})


def _before(node: Object, part: str, keys: Mapping[str, object]) -> dict[str, dict[str, str | None]]:
    """What a node had before the first change of some entries, with what was noted of others."""
    metadata = node.get("metadata", {})
    noted: dict[str, dict[str, str | None]] = json.loads(metadata.get("annotations", {}).get(_BEFORE, "{}"))
    there = metadata.get(part, {})
    return {**noted, part: {**{key: there.get(key) for key in keys}, **noted.get(part, {})}}
