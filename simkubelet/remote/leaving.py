"""The end of nodes of this process: as an administrator takes a node out of a cluster, drained and then deleted.

Source: kubectl pkg/drain/drain.go, ``RunNodeDrain``, ``DeleteOrEvictPods``; filters.go, ``daemonSetFilter``,
``mirrorPodFilter`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Final

from ..model.pod import Pod, PodUID
from .back_off import BackOff
from .client import ApiClient, ApiError, if_there, items_of
from .cluster import RemoteCluster
from .pods import delete_pod, pod_path

__all__ = ["drain", "remove"]

_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def drain(client: ApiClient, cluster: RemoteCluster, nodes: Sequence[str]) -> None:
    """Cordon nodes, and evict their pods except those of DaemonSets; return when these have ended.

    A budget that does not allow an eviction is waited for; the caller sets a limit.

    Args:
        client: of the server.
        cluster: whose kubelets still run, and end the pods.
        nodes: all of them are cordoned before a pod is evicted, so that none goes from one to the other.

    Raises:
        ApiError: the server refuses, or is away.
    """
    for node in nodes:
        await if_there(client.patch(f"{_NODES}/{node}", {"spec": {"unschedulable": True}}))
    await _all(_drain(client, cluster, node) for node in nodes)
    await cluster.until_sent()


async def remove(client: ApiClient, nodes: Sequence[str]) -> None:
    """Delete the objects of nodes whose kubelets have ended, their leases, and the pods that they still have.

    Raises:
        ApiError: the server refuses, or is away.
    """
    for node in nodes:
        await if_there(client.call("DELETE", f"{_NODES}/{node}"))
        await if_there(client.call("DELETE", f"{_LEASES}/{node}"))
        left = await client.get("/api/v1/pods", {"fieldSelector": f"spec.nodeName={node}"})
        for metadata in (pod["metadata"] for pod in items_of(left)):
            path = pod_path(str(metadata.get("namespace")), metadata["name"])
            await delete_pod(client, path, str(metadata.get("uid")))


async def _drain(client: ApiClient, cluster: RemoteCluster, node: str) -> None:
    watch, asked = cluster.watch_pods(node), set[PodUID]()
    try:
        while leaving := [pod for pod in cluster.pods_on(node) if not _stays(pod)]:
            seen = watch.change.count
            # A pod that was bound just before the node was cordoned comes late.
            new = [pod for pod in leaving if pod.uid not in asked]
            asked |= {pod.uid for pod in new}
            await _all(_evict(client, pod) for pod in new)
            if not new:
                await watch.change.wait(seen)
    finally:
        cluster.end_watch(node, watch)


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """Wait until all is done, then raise the first error."""
    results = await asyncio.gather(*work, return_exceptions=True)
    if error := next((result for result in results if result is not None), None):
        raise error


async def _evict(client: ApiClient, pod: Pod) -> None:
    path = f"{pod_path(pod.namespace, pod.name)}/eviction"
    metadata = {"name": pod.name, "namespace": pod.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    back_off = BackOff(first_s=1.0)
    while True:
        try:
            await if_there(client.call("POST", path, eviction))
        except ApiError as error:
            if error.status != 429:
                raise
            await asyncio.sleep(back_off.next_s(error.retry_after_s))
        else:
            return


def _stays(pod: Pod) -> bool:
    """Whether an eviction makes no sense: a controller or a file of the node would bring the pod back."""
    owners = pod.manifest["metadata"].get("ownerReferences") or ()
    return pod.mirror_of is not None or any(one.get("controller") and one["kind"] == "DaemonSet" for one in owners)
