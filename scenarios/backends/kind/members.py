"""The nodes of a cluster, prepared for one story and cleaned after it.

The scheduler counts every node that the cluster knows, so a node that a story has no use for leaves the cluster: its
kubelet stops, and its Node object is deleted. It comes back by itself when its kubelet starts. `clean` removes what
stories leave, so that each begins with kubelets that know no device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from simkubelet.model.errors import HostError

from .api import ClusterApi
from .changes import device_objects, restore_node
from .daemon_set import SELECTED, WRITTEN_BY_PROGRAMS
from .kubelets import CLAIMS, REMOVE_BAD_CLAIMS, TAKE_BACK, take_back
from .node import PLACE, PLUGIN_FOLDER, REMOVE_AGENT, KindNode, until
from .plugins import NAMESPACE, KindPlugins
from .state import extended

_READY_WITHIN_S: Final = 120.0
_CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
_GONE_WITHIN_S: Final = 90.0
_BEFORE: Final = f"{PLACE}/before"
_LIST: Final = f"find {' '.join(WRITTEN_BY_PROGRAMS)} -mindepth 1 -maxdepth 1"
NOTE_FILES: Final = f"mkdir -p {PLACE} {' '.join(WRITTEN_BY_PROGRAMS)} && {_LIST} >{_BEFORE}"
"""A shell command that takes note of what is in folders in which a story's programs may leave something."""
_REMOVE_TRACES: Final = (
    f"{REMOVE_AGENT}; [ ! -e {PLACE}/created ] || xargs -r -d '\\n' rm -rf <{PLACE}/created; "
    f"[ ! -e {_BEFORE} ] || {_LIST} | grep -vxFf {_BEFORE} | xargs -r -d '\\n' rm -rf; rm -rf {PLACE}; "
    f"find {PLUGIN_FOLDER} -type s ! -name kubelet.sock -delete; {TAKE_BACK}; "
    f"[ ! -s {PLUGIN_FOLDER}/kubelet_internal_checkpoint ] || echo checkpoint; "
    f"[ ! -e {CLAIMS} ] || {{ grep -q DRACheckpoint {CLAIMS} && ! grep -q ClaimUID {CLAIMS}; }} || echo claims"
)
"""A shell command; it writes something where the kubelet has to be started again to forget a story."""


class KindMembers:
    """The nodes of one cluster, for one story after the other.

    Args:
        nodes: All of them, the control plane first. It is a story's first node, since no cluster can be without it;
            the taint that keeps pods away from it is taken off.
    """

    def __init__(self, nodes: Sequence[KindNode]) -> None:
        self._nodes = nodes
        self._was_tainted = False
        self._out: set[str] = set()
        self._clean: set[str] = set()

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
            if node.container not in self._clean:
                # With the settings of a run that was killed it may never be ready.
                await node.systemctl("restart" if await take_back(node) else "start")
            elif node.container in self._out:
                await node.systemctl("start")
            self._out.discard(node.container)
            await self._until_ready(api, node)
        others = []
        for node in self._nodes[count:]:
            if await api.call("GET", f"nodes/{node.container}"):
                others.append(node)
            elif node.container not in self._out:
                # After an outage of the API server a kubelet takes seconds to come back: it would join the story.
                with contextlib.suppress(HostError):
                    await self.take_out(api, [node])
        return others

    async def take_out(self, api: ClusterApi, nodes: Sequence[KindNode]) -> None:
        """Let nodes leave the cluster."""
        for node in nodes:
            self._out.add(node.container)
            await node.systemctl("stop")
            await api.call("DELETE", f"nodes/{node.container}")

    async def clean(self, api: ClusterApi, nodes: Collection[KindNode], plugins: KindPlugins) -> None:
        """Remove what stories have left on nodes, those apart on which none has been played since the last time.

        Raises:
            HostError: The cluster does not do it.
        """
        if left := [node for node in nodes if node.container not in self._clean]:
            await clean(api, left, plugins)
            self._clean.update(node.container for node in left)

    def use(self, nodes: Collection[KindNode]) -> None:
        """A story begins on these nodes."""
        self._clean.difference_update(node.container for node in nodes)

    async def restore(self) -> None:
        """Leave the cluster as it was found, with all its nodes that are still there."""
        for node in self._nodes:
            with contextlib.suppress(HostError):
                await node.release()
        if self._was_tainted:
            first = self._nodes[0]
            taint = ("taint", "node", first.container, f"{_CONTROL_PLANE}:NoSchedule", "--overwrite")
            with contextlib.suppress(HostError):
                await first.run("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", *taint)

    async def _until_ready(self, api: ClusterApi, node: KindNode) -> None:
        taints: list[str] = []

        async def is_ready() -> bool:
            found = await api.call("GET", f"nodes/{node.container}")
            taints[:] = [taint["key"] for taint in found.get("spec", {}).get("taints", ())]
            if taints == [_CONTROL_PLANE]:
                self._was_tainted = True
                await api.call("PATCH", f"nodes/{node.container}", {"spec": {"taints": None}})
            return not taints and _is_ready(found)

        def complaint() -> str:
            because = f" (tainted with {', '.join(taints)})" if taints else ""
            return f"node {node.container}: not ready for pods{because}"

        await until(is_ready, _READY_WITHIN_S, complaint)


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions: Sequence[Mapping[str, str]] = node.get("status", {}).get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


async def clean(api: ClusterApi, nodes: Collection[KindNode], plugins: KindPlugins) -> None:
    """Remove pods, plugins, labels, files and agents, and let the kubelets forget all devices and settings.

    Raises:
        HostError: The cluster does not do it.
    """
    for node in nodes:
        await node.run("sh", "-c", REMOVE_BAD_CLAIMS)
        await node.resume()
    await api.call("DELETE", f"namespaces/default/pods?{SELECTED}&gracePeriodSeconds=0")
    await plugins.remove(api, nodes)
    await device_objects(api).remove()
    await _until_gone(api, f"namespaces/default/pods?{SELECTED}")
    await _until_gone(api, f"namespaces/{NAMESPACE}/pods?{SELECTED}")
    await api.call("DELETE", "namespaces/default/events")
    for node in nodes:
        await node.end_watch()
        await _forget_devices(api, node)


async def _forget_devices(api: ClusterApi, node: KindNode) -> None:
    """A node as one on which no plugin ever registered: the kubelet must not be there when its status changes."""
    traces = await node.run("sh", "-c", _REMOVE_TRACES)
    found = await api.call("GET", f"nodes/{node.container}")
    await restore_node(found, api)
    published = found.get("status", {})
    left = [(part, name) for part in ("capacity", "allocatable") for name in extended(published.get(part, {}))]
    if not left and not traces.strip():
        return
    await node.run("sh", "-c", f"systemctl stop kubelet && rm -rf {PLUGIN_FOLDER}/* {CLAIMS}")
    removals = [{"op": "remove", "path": f"/status/{part}/{name.replace('/', '~1')}"} for part, name in left]
    if removals:
        await api.call("PATCH", f"nodes/{node.container}/status", removals, patch="json-patch")
    await node.start_kubelet()


async def _until_gone(api: ClusterApi, url: str) -> None:
    async def is_gone() -> bool:
        found = await api.call("GET", url)
        return not found or found.get("items") == []

    await until(is_gone, _GONE_WITHIN_S, f"the cluster does not remove {url}")
