"""What a story's steps do to the kubelets of a simulated world."""

from __future__ import annotations

from simkubelet.kubelet.kubelet import Kubelet
from simkubelet.model.errors import InputError

from ...story.verbs.node_action import (
    ChangeCheckpoint,
    FillDisk,
    FreeDisk,
    KubeletAction,
    RebootNode,
    RestartKubelet,
    StartKubelet,
    StopKubelet,
    SyncNodeStatus,
)
from ...trace.events import CheckpointChanged, DiskFilled, DiskFreed, NodeRebooted
from ...trace.trace import Trace
from ..world.node import SimNode
from ..world.plugins import SimPlugins
from .checkpoint import change_checkpoint
from .patience import settled


async def change_kubelet(
    action: KubeletAction, node: SimNode, kubelet: Kubelet, plugins: SimPlugins, trace: Trace
) -> None:
    """Do what a step says to the kubelet of a node; the node's plugins are tended while it runs.

    Raises:
        InputError: It is not in the state for it.
        HostError: It cannot be started.
    """

    async def until_settled() -> None:
        """What quick plugins do at the start of a kubelet; those of a node that has rebooted are not there yet."""
        await settled(trace)

    match action:
        case RestartKubelet():
            await kubelet.restart(until_settled)
        case StopKubelet():
            await kubelet.stop()
        case StartKubelet() if kubelet.is_running:
            raise InputError(f"the kubelet of node '{node.name}' runs already; stop it first")
        case StartKubelet():
            await kubelet.start(until_settled)
        case RebootNode(plugins=named, pods=pods):
            ran = await plugins.power_off(node.name)
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
    plugins.tend(node.name, kubelet.is_running)
