"""What a story's steps change on a node from outside: its GPUs, its files, its manifests of static pods."""

from __future__ import annotations

import json

from simkubelet.model.errors import InputError
from simkubelet.runtime.cri import Cri

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
from ...story.verbs.node_action import PauseRuntime, RefuseCri, ResumeRuntime, RuntimeAction
from ...trace.events import (
    CriRefused,
    FaultHealed,
    FaultInjected,
    FileCreated,
    FileMoved,
    FileRemoved,
    FileWritten,
    RuntimePaused,
    RuntimeResumed,
)
from ...trace.snapshot import Snapshot
from ...trace.trace import Trace
from ..world.node import SimNode, told_errors
from ..world.nvidia_change import nvidia_change
from ..world.selection import chosen_file, chosen_gpu, numbered


def change_gpus(action: NvidiaAction, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Break, mend or divide the NVIDIA GPUs of a node.

    Raises:
        InputError: The node has no such GPU.
        HostError: The fake GPU cannot be changed.
    """
    if node.machine is None:
        raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
    from ..world import nvidia_gpus

    with told_errors():
        event, given = nvidia_change(action, node.name, nvidia_gpus.names(node.machine), snapshot)
        trace.append(event)
        nvidia_gpus.change(node.machine, verb_of(action), **given)


def change_device(action: FailDevice | HealDevice, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Let a vendor's monitor tell of a device that it is unhealthy, or healthy again.

    Raises:
        InputError: The node has no such device.
        HostError: Nobody can be told.
    """
    if node.vendor_devices is None:
        raise InputError(f"node '{node.name}' has no such devices: give it some with 'amd' or 'iluvatar'")
    device = chosen_gpu(action.device, numbered(node.vendor_devices.ids), snapshot)
    is_healthy = isinstance(action, HealDevice)
    with told_errors():
        trace.append(FaultHealed(node.name, device) if is_healthy else FaultInjected(node.name, device, None))
        node.vendor_devices.tell_health(device, healthy=is_healthy)


def change_runtime(action: RuntimeAction, node: SimNode, cri: Cri, trace: Trace) -> None:
    """Let a node's container runtime answer other calls of the kubelet than before.

    Raises:
        InputError: It is paused already, or is not.
    """
    match action:
        case RefuseCri(calls=calls):
            trace.append(CriRefused(node.name, tuple(calls)))
            cri.refuse(calls)
        case PauseRuntime() if cri.is_paused:
            raise InputError(f"the container runtime of node '{node.name}' is paused already; resume it first")
        case PauseRuntime():
            trace.append(RuntimePaused(node.name))
            cri.pause()
        case ResumeRuntime() if not cri.is_paused:
            raise InputError(f"the container runtime of node '{node.name}' is not paused; pause it first")
        case ResumeRuntime():
            trace.append(RuntimeResumed(node.name))
            cri.resume()


def change_file(action: AnyFileAction, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Create or remove a file or a folder of a node.

    Raises:
        InputError: It is there already, or is not there.
    """
    match action:
        case CreateFile(path=path, content=content):
            node.files.create(path, content)
            trace.append(FileCreated(node.name, path))
        case WriteFile(path=path, content=content):
            node.files.write(path, content)
            trace.append(FileWritten(node.name, path))
        case MoveFile(path=path, to=to):
            node.files.move(path, to)
            trace.append(FileMoved(node.name, path, to))
        case CreateFolder(path=path):
            node.files.create_folder(path)
            trace.append(FileCreated(node.name, path))
        case RemoveFolder(path=path):
            node.files.remove_folder(path)
            trace.append(FileRemoved(node.name, path))
        case AddStaticPod(manifest=pod):
            path = _manifest_of(pod.pod)
            node.files.create(path, json.dumps(pod.manifest, indent=2))
            trace.append(FileCreated(node.name, path))
        case RemoveStaticPod(pod=name):
            _remove(node, _manifest_of(name), trace)
        case RemoveFile():
            _remove(node, chosen_file(action, snapshot), trace)


def _manifest_of(pod: str) -> str:
    return f"{MANIFESTS}/{pod}.yaml"


def _remove(node: SimNode, path: str, trace: Trace) -> None:
    node.files.remove(path)
    trace.append(FileRemoved(node.name, path))
