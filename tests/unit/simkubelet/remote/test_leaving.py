from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from simkubelet.remote import drain, remove
from tests.support.patience import until
from tests.support.remote import NODE, Server, pod_manifest, serving


@pytest.fixture
async def cluster() -> AsyncIterator[Server]:
    async with serving(is_scheduling=True) as server:
        yield server


async def test_drained_node_is_deleted_without_a_trace(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined:
        async with joined.kubelet(short_folder):
            await joined.create("pods", pod_manifest("evicted", node=None, terminationGracePeriodSeconds=1))
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agents", "uid": "1", "controller": True}
            agent = pod_manifest("agent")
            agent["metadata"]["ownerReferences"] = [owner]
            await joined.create("pods", agent)
            await cluster.until(lambda: {cluster.phase("evicted"), cluster.phase("agent")} == {"Running"})

            await drain(joined.client, joined.cluster, [NODE])

            assert cluster.find("pods", "evicted") is None
            assert cluster.phase("agent") == "Running"
            node = cluster.find("nodes", NODE, "")
            assert node is not None
            assert node["spec"]["unschedulable"]
        await remove(joined.client, [NODE])

    kinds = ("nodes", "pods", "leases.coordination.k8s.io")
    assert [len(cluster.objects.all_of(kind)) for kind in kinds] == [0, 0, 0]


async def test_pod_that_ends_meanwhile_is_no_fault(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder):
        await joined.create("pods", pod_manifest(node=None))
        await cluster.until(lambda: cluster.phase("pod") == "Running")
        await until(lambda: joined.cluster.pods)
        (pod,) = joined.cluster.pods
        # The watch has not brought this yet.
        cluster.store.remove_pod(pod.uid)

        await drain(joined.client, joined.cluster, [NODE])

        assert joined.cluster.pods == ()
