"""What a story's steps change in a simulated world: kubelets and runtimes, GPUs, files, bindings and metadata."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.devices import CHECKPOINT_NAME
from simkubelet.host import run_program
from simkubelet.kubelet import Kubelet
from simkubelet.model.errors import HostError, InputError
from simkubelet.model.events import DevicesListed
from simkubelet.node_tree import FileTree
from simkubelet.runtime import Cri

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
from ...story.verbs.node_action import (
    ChangeCheckpoint,
    CheckpointState,
    FillDisk,
    FreeDisk,
    KubeletAction,
    PauseRuntime,
    RebootNode,
    RefuseCri,
    RestartKubelet,
    ResumeRuntime,
    RunCommand,
    RuntimeAction,
    StartKubelet,
    StopKubelet,
    SyncNodeStatus,
)
from ...trace.events import (
    CheckpointChanged,
    CommandRun,
    CriRefused,
    DiskFilled,
    DiskFreed,
    FaultHealed,
    FaultInjected,
    FileCreated,
    FileDated,
    FileMoved,
    FileRemoved,
    FileWritten,
    NodeRebooted,
    RuntimePaused,
    RuntimeResumed,
)
from ...trace.snapshot import Snapshot
from ...trace.trace import Record, Trace
from ..world.checkpoint import changed_checkpoint
from ..world.node import SimNode, as_story_errors
from ..world.plugins import SimPlugins
from ..world.selection import chosen_file, chosen_gpu, numbered, nvidia_change
from .patience import FairTime, all_listed, settled

_QUICK_ARE_BACK_WITHIN_S: Final = 0.3
_BACK_WITHIN_S: Final = 2.0
_ALL_BACK_WITHIN_S: Final = 20.0


def change_gpus(action: NvidiaAction, node: SimNode, snapshot: Snapshot, trace: Record) -> None:
    """Break, fix or divide the NVIDIA GPUs of a node.

    Raises:
        InputError: The node has no such GPU.
        HostError: The fake GPU cannot be changed.
    """
    if node.machine is None:
        raise InputError(f"node '{node.name}' has no GPUs: give it 'gpus: {{profile: …, count: …}}'")
    from ..world.hardware import change, names

    with as_story_errors():
        event, given = nvidia_change(action, node.name, names(node.machine), snapshot)
        trace.append(event)
        change(node.machine, action.verb, **given)


def change_device(action: DeviceAction, node: SimNode, snapshot: Snapshot, trace: Trace) -> None:
    """Let a vendor's monitor report a device as unhealthy, or as healthy again.

    Raises:
        InputError: The node has no such device.
        HostError: The report cannot be delivered.
    """
    if node.vendor_devices is None:
        raise InputError(f"node '{node.name}' has no such devices: give it some with 'amd' or 'iluvatar'")
    device = chosen_gpu(action.device, numbered(node.vendor_devices.ids), snapshot)
    is_healthy = isinstance(action, HealDevice)
    with as_story_errors():
        trace.append(FaultHealed(node.name, device) if is_healthy else FaultInjected(node.name, device, None))
        node.vendor_devices.report_health(device, healthy=is_healthy)


def change_runtime(action: RuntimeAction, node: SimNode, cri: Cri, trace: Record) -> None:
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
        case CreateFile(path=path, content=content):
            node.files.create(path, content)
            trace.append(FileCreated(node.name, path))
        case WriteFile(path=path, content=content):
            node.files.write(path, content)
            trace.append(FileWritten(node.name, path))
        case DateFile(path=path, age=age):
            node.files.date(path, age)
            trace.append(FileDated(node.name, path, age))
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


@dataclass(frozen=True, slots=True)
class Pauses:
    """What the start of a kubelet waits for, so that plugins which are quick are not missed.

    Attributes:
        last: Before the kubelet publishes its node.
        before_next: The same, of a kubelet that is restarted again at once.
    """

    last: Callable[[], Awaitable[None]]
    before_next: Callable[[], Awaitable[None]]


def story_pauses(node: str, trace: Trace) -> Pauses:
    """The pauses of a story: until the plugins are back and nothing happens, and before the next start until they are.

    A kubelet takes its pods no sooner than a few tenths of a second after it serves; in that time the plugins that it
    had come back, but not one that waits by design. On a busy machine they take longer, and so does the pause.
    Before the next of several starts each has longer, but once some do not come back, or the restarts together have
    taken twenty seconds, the next start waits for none.

    Args:
        node: The kubelet's.
        trace: Has the plugins that the kubelet had.
    """
    awaited = frozenset(one.resource for one in trace.of(DevicesListed) if one.node == node)
    all_together = FairTime(_ALL_BACK_WITHIN_S)

    async def until_quiet() -> None:
        await all_listed(trace, node, awaited, _QUICK_ARE_BACK_WITHIN_S)
        await settled(trace)

    async def until_back() -> None:
        nonlocal awaited
        if all_together.left() <= 0 or not await all_listed(trace, node, awaited, _BACK_WITHIN_S):
            awaited = frozenset()

    return Pauses(until_quiet, until_back)


async def change_kubelet(
    action: KubeletAction,
    node: SimNode,
    kubelet: Kubelet,
    plugins: SimPlugins,
    trace: Record,
    pauses: Pauses,
) -> None:
    """Do what a step says to the kubelet of a node; the node's plugins are supervised while it runs.

    Args:
        action: The step.
        node: The node.
        kubelet: That of the node.
        plugins: Those of all nodes.
        trace: Gets what happens.
        pauses: At the start of the kubelet; not after a reboot, when no plugin is there yet.

    Raises:
        InputError: It is not in the state for it.
        HostError: It cannot be started.
    """
    match action:
        case RestartKubelet(times=times):
            for _ in range(times - 1):
                await kubelet.restart(pauses.before_next)
            await kubelet.restart(pauses.last)
        case StopKubelet():
            await kubelet.stop()
        case StartKubelet() if kubelet.is_running:
            raise InputError(f"the kubelet of node '{node.name}' runs already; stop it first")
        case StartKubelet():
            await kubelet.start(pauses.last)
        case RebootNode(plugins=named, pods=pods):
            ran = await plugins.power_off(node.name)
            await node.end_strays()
            node.lose_memory()
            trace.append(NodeRebooted(node.name))
            await kubelet.reboot(pods)
            await plugins.power_on(node.name, ran if named is None else named)
        case ChangeCheckpoint(to=to):
            change_checkpoint(node.plugin_folder, to)
            trace.append(CheckpointChanged(node.name, to.value))
        case FillDisk():
            kubelet.folder.is_full = True
            trace.append(DiskFilled(node.name))
        case FreeDisk():
            kubelet.folder.is_full = False
            trace.append(DiskFreed(node.name))
        case SyncNodeStatus():
            kubelet.publish()
    plugins.allow_restarts(node.name, kubelet.is_running)


def change_checkpoint(plugin_folder: Path, to: CheckpointState) -> None:
    """Change the checkpoint of a plugin folder.

    Raises:
        InputError: There is none.
    """
    tree, file = FileTree(plugin_folder.parent), f"/{plugin_folder.name}/{CHECKPOINT_NAME}"
    try:
        with tree.open(file, "r+") as opened:
            if (changed := changed_checkpoint(opened.read(), to)) is None:
                tree.unlink(file)
            else:
                opened.seek(0)
                opened.write(changed)
                opened.truncate()
    except FileNotFoundError:
        where = plugin_folder / CHECKPOINT_NAME
        raise InputError(f"changeCheckpoint: the kubelet has written none yet ({where})") from None
    except OSError as error:
        raise InputError(f"changeCheckpoint: {plugin_folder / CHECKPOINT_NAME}: {error.strerror}") from None


async def run_command(action: RunCommand, trace: Trace) -> None:
    """Run a program of this machine.

    Raises:
        InputError: There is no such program.
        HostError: It fails.
    """
    try:
        ended = await run_program(action.command)
    except OSError as error:
        raise InputError(f"runCommand: cannot run {action.command[0]}: {error.strerror}") from None
    if ended.status:
        raise HostError(f"runCommand: {action.command[0]} ended with status {ended.status}: {ended.last_line}")
    trace.append(CommandRun(action.command))
