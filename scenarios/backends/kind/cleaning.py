"""Takes away what stories leave on a cluster, so that each begins with kubelets that know no device."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from .api import ClusterApi
from .daemon_set import SELECTED
from .kubelet_settings import take_back
from .node import PLACE, PLUGIN_FOLDER, KindNode
from .objects import restore_node
from .plugins import NAMESPACE, KindPlugins
from .state import extended
from .until import until

_GONE_WITHIN_S: Final = 90.0
_REMOVE_FILES: Final = (
    f"[ ! -e {PLACE}/created ] || xargs -r -d '\\n' rm -rf <{PLACE}/created; rm -rf {PLACE}; "
    f"find {PLUGIN_FOLDER} -type s ! -name kubelet.sock -delete"
)


async def clean(api: ClusterApi, nodes: Collection[KindNode], plugins: KindPlugins) -> None:
    """Remove pods, plugins, labels, files and agents, and let the kubelets forget all devices and settings.

    Raises:
        HostError: The cluster does not do it.
    """
    for node in nodes:
        await node.resume_runtime()
        await node.run("systemctl", "start", "kubelet")
    await api.call("DELETE", f"namespaces/default/pods?{SELECTED}&gracePeriodSeconds=0")
    await plugins.remove(api, nodes)
    await _until_gone(api, f"namespaces/default/pods?{SELECTED}")
    await _until_gone(api, f"namespaces/{NAMESPACE}/pods?{SELECTED}")
    await api.call("DELETE", "namespaces/default/events")
    for node in nodes:
        await node.close()
        await _forget_devices(api, node)


async def _forget_devices(api: ClusterApi, node: KindNode) -> None:
    """A node as one on which no plugin ever registered: the kubelet must not be there when its status changes."""
    await node.run("sh", "-c", _REMOVE_FILES)
    found = await api.call("GET", f"nodes/{node.container}")
    await restore_node(found, api)
    published = found.get("status", {})
    left = [(part, name) for part in ("capacity", "allocatable") for name in extended(published.get(part, {}))]
    checkpoint = await node.run("sh", "-c", f"cat {PLUGIN_FOLDER}/kubelet_internal_checkpoint 2>/dev/null || true")
    had_other_settings = await take_back(node)
    if not left and not checkpoint and not had_other_settings:
        return
    await node.systemctl("stop")
    await node.run("sh", "-c", f"rm -rf {PLUGIN_FOLDER}/*")
    removals = [{"op": "remove", "path": f"/status/{part}/{name.replace('/', '~1')}"} for part, name in left]
    if removals:
        await api.call("PATCH", f"nodes/{node.container}/status", removals, patch="json-patch")
    await node.systemctl("start")
    await node.until_serving()


async def _until_gone(api: ClusterApi, url: str) -> None:
    async def is_gone() -> bool:
        found = await api.call("GET", url)
        return not found or found.get("items") == []

    await until(is_gone, _GONE_WITHIN_S, f"the cluster does not remove {url}")
