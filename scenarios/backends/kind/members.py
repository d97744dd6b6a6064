"""Which of a cluster's nodes take part in a story: the scheduler counts every node that the cluster knows.

A node that a story has no use for leaves the cluster: its kubelet stops, and its Node object is deleted. It comes back
by itself when its kubelet starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkubelet.model.errors import HostError

from .api import ClusterApi
from .kubelet_settings import take_back
from .node import KindNode

_READY_WITHIN_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.3
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


class KindMembers:
    """The nodes of one cluster, for one story after the other.

    Args:
        nodes: All of them, the control plane first. It is a story's first node, since no cluster can be without it;
            the taint that keeps pods away from it is taken off.
    """

    def __init__(self, nodes: Sequence[KindNode]) -> None:
        self._nodes = nodes
        self._was_tainted = False

    @property
    def containers(self) -> tuple[str, ...]:
        """The names of all nodes in the cluster, and of their containers."""
        return tuple(node.container for node in self._nodes)

    async def bring_in(self, api: ClusterApi, count: int) -> list[KindNode]:
        """Let the first nodes be members that take pods.

        Returns:
            The other nodes that are members.

        Raises:
            HostError: One does not become ready.
        """
        for node in self._nodes[:count]:
            # With the settings of a run that was killed it may never be ready.
            await node.systemctl("restart" if await take_back(node) else "start")
            await self._until_ready(api, node)
        return [node for node in self._nodes[count:] if await api.call("GET", f"nodes/{node.container}")]

    async def take_out(self, api: ClusterApi, nodes: Sequence[KindNode]) -> None:
        """Let nodes leave the cluster."""
        for node in nodes:
            await node.systemctl("stop")
            await api.call("DELETE", f"nodes/{node.container}")

    async def restore(self) -> None:
        """Leave the cluster as it was found, with all its nodes that are still there."""
        for node in self._nodes:
            with contextlib.suppress(HostError):
                await node.systemctl("start")
        if self._was_tainted:
            first = self._nodes[0]
            taint = ("taint", "node", first.container, f"{_CONTROL_PLANE}:NoSchedule", "--overwrite")
            with contextlib.suppress(HostError):
                await first.run("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", *taint)

    async def _until_ready(self, api: ClusterApi, node: KindNode) -> None:
        limit = time.monotonic() + _READY_WITHIN_S
        while True:
            found = await api.call("GET", f"nodes/{node.container}")
            taints = [taint["key"] for taint in found.get("spec", {}).get("taints", ())]
            if taints == [_CONTROL_PLANE]:
                self._was_tainted = True
                await api.call("PATCH", f"nodes/{node.container}", {"spec": {"taints": None}})
            elif not taints and _is_ready(found):
                return
            if time.monotonic() > limit:
                because = f", tainted with {', '.join(taints)}" if taints else ""
                raise HostError(f"node {node.container}: not ready for pods within {_READY_WITHIN_S:g} s{because}")
            await asyncio.sleep(_LOOK_AGAIN_S)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions: Sequence[Mapping[str, str]] = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
