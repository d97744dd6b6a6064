"""What a story's steps change on a node from outside: its GPUs, its files, its manifests of static pods."""

from __future__ import annotations

import json

from simkubelet.errors import InputError
from simkubelet.runtime.cri import Cri

from ..action import (
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
from ..events import CriRefused, FaultHealed, FaultInjected, FileCreated, FileRemoved, RuntimePaused, RuntimeResumed
from ..node_action import PauseRuntime, RefuseCri, ResumeRuntime, RuntimeAction
from ..node_spec import MANIFESTS
from ..selection import chosen_file, chosen_gpu
from ..snapshot import Snapshot
from ..trace import Trace
from .sim_node import SimNode, told_errors


def change_gpu(action: Fail | Heal, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Inject a fault into a GPU, or take its faults back.

    Raises:
        InputError: The node has no such GPU.
        HostError: The fake GPU cannot be changed.
    """
    if node.machine is None:
        raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
    gpu = chosen_gpu(action.gpu, [gpu.uuid for gpu in node.machine.gpus], snapshot)
    with told_errors():
        if isinstance(action, Fail):
            is_lost = action.lost is not None
            trace.append(FaultInjected(node.name, gpu, action.xid, is_lost))
            node.machine.fail(gpu, xid=action.xid, lost=is_lost)
        else:
            node.machine.heal(gpu)
            trace.append(FaultHealed(node.name, gpu))


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


def change_file(action: FileAction, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Create or remove a file or a folder of a node.

    Raises:
        InputError: It is there already, or is not there.
    """
    match action:
        case CreateFile(path=path):
            node.create_file(path)
            trace.append(FileCreated(node.name, path))
        case CreateFolder(path=path):
            node.create_folder(path)
            trace.append(FileCreated(node.name, path))
        case RemoveFolder(path=path):
            node.remove_folder(path)
            trace.append(FileRemoved(node.name, path))
        case AddStaticPod(manifest=pod):
            path = _manifest_of(pod.pod)
            node.create_file(path, json.dumps(pod.manifest, indent=2))
            trace.append(FileCreated(node.name, path))
        case RemoveStaticPod(pod=name):
            _remove(node, _manifest_of(name), trace)
        case RemoveFile():
            _remove(node, chosen_file(action, snapshot), trace)


def _manifest_of(pod: str) -> str:
    return f"{MANIFESTS}/{pod}.yaml"


def _remove(node: SimNode, path: str, trace: Trace) -> None:
    node.remove_file(path)
    trace.append(FileRemoved(node.name, path))
