"""Kubelets whose cluster is an API server that they reach over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from simkubelet.cluster import KubeletEndpoint
from tests.support.node import RESOURCE, FakePlugin
from tests.support.patience import LIMIT_S, until
from tests.support.remote import NODE, Server, pod_manifest, serving

LEASES = "leases.coordination.k8s.io"


@pytest.fixture
async def cluster() -> AsyncIterator[Server]:
    async with serving(is_scheduling=True) as server:
        yield server


def is_ready(server: Server, node: str = NODE) -> bool:
    found = server.find("nodes", node, "")
    conditions = [] if found is None else found["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def kubelet_port(server: Server) -> int:
    """Where a node says that its kubelet is."""
    node = server.find("nodes", NODE, "")
    return 0 if node is None else int(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"])


async def test_node_registers_and_renews_its_lease(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder):
        await cluster.until(lambda: is_ready(cluster))
        await cluster.until(lambda: cluster.find(LEASES, NODE, "kube-node-lease"))

        lease = cluster.find(LEASES, NODE, "kube-node-lease")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == NODE
        assert [owner["name"] for owner in lease["metadata"]["ownerReferences"]] == [NODE]


async def test_node_and_its_pods_are_where_their_kubelet_is(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined(at=KubeletEndpoint("192.0.2.1", 1234)) as joined, joined.kubelet(short_folder):
        await joined.create("pods", pod_manifest(node=None, hostNetwork=True))
        await cluster.until(lambda: cluster.phase("pod") == "Running")

        node = cluster.find("nodes", NODE, "")
        assert node is not None
        assert kubelet_port(cluster) == 1234
        assert {"type": "InternalIP", "address": "192.0.2.1"} in node["status"]["addresses"]
        status = cluster.pod("pod")["status"]
        assert (status["hostIP"], status["podIP"]) == ("192.0.2.1", "192.0.2.1")


async def test_pod_runs_and_ends_where_the_scheduler_binds_it(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder):
        await joined.create("pods", pod_manifest(node=None, terminationGracePeriodSeconds=1))
        await cluster.until(lambda: cluster.phase("pod") == "Running")

        await joined.client.call("DELETE", "/api/v1/namespaces/default/pods/pod")
        await cluster.until(lambda: cluster.find("pods", "pod") is None)

        await joined.cluster.until_sent()
        reasons = {event["reason"] for event in cluster.objects.all_of("events")}
        assert {"Starting", "Scheduled", "Created", "Started", "Killing"} <= reasons
        assert joined.complaints == []


async def test_devices_of_a_plugin_are_published_and_given(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder) as kubelet:
        plugin = FakePlugin(kubelet.folder.directory)
        plugin.list(["dev-1"])
        await plugin.serve()
        await plugin.register()
        limits = {"resources": {"limits": {RESOURCE: "1"}}}
        await joined.create("pods", pod_manifest(node=None, containers=[{"name": "main", "image": "i", **limits}]))

        async with asyncio.timeout(LIMIT_S):
            while cluster.phase("pod") != "Running":
                # As at the end of each ten seconds.
                kubelet.publish()
                await asyncio.sleep(0)

        pod = joined.cluster.pod_named("pod")
        assert pod is not None
        assert kubelet.devices_of(pod) == {"main": {RESOURCE: ("dev-1",)}}
        await plugin.stop()


async def test_nothing_is_lost_while_the_server_is_away(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder) as kubelet:
        await joined.create("pods", pod_manifest(node=None, restartPolicy="Never"))
        await cluster.until(lambda: cluster.phase("pod") == "Running")
        await joined.cluster.until_sent()

        await cluster.api.stop()
        await kubelet.complete("pod", "main")
        await until(lambda: joined.cluster.pods[0].status.phase.is_terminal)
        # What the kubelet itself shows is not behind.
        assert joined.cluster.as_published(joined.cluster.pods[0])["status"]["phase"] == "Succeeded"
        later = cluster.store.create_pod(pod_manifest("later"))
        assert cluster.phase("pod") == "Running"
        await cluster.api.start()

        await cluster.until(lambda: cluster.phase("pod") == "Succeeded" and cluster.phase("later") == "Running")
        assert joined.cluster.pod(later.uid) is not None


async def test_node_is_taken_over_by_the_next_process(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder / "1"):
        await joined.create("pods", pod_manifest(node=None))
        await cluster.until(lambda: cluster.phase("pod") == "Running")
        await joined.cluster.until_sent()

    moved = KubeletEndpoint(port=1234)
    async with cluster.joined(at=moved) as joined, joined.kubelet(short_folder / "2") as kubelet:
        (pod,) = joined.cluster.pods
        await until(lambda: "main" in kubelet.containers_of(pod))
        await cluster.until(lambda: kubelet_port(cluster) == 1234)

        assert len(cluster.objects.all_of("nodes")) == 1


async def test_removed_node_is_not_registered_again(cluster: Server, short_folder: Path) -> None:
    async with cluster.joined() as joined, joined.kubelet(short_folder) as kubelet:
        await cluster.until(lambda: is_ready(cluster))
        await joined.client.call("DELETE", f"/api/v1/nodes/{NODE}")
        await until(lambda: joined.cluster.node(NODE) is None)

        kubelet.publish()
        await joined.cluster.until_sent()

        assert cluster.find("nodes", NODE, "") is None


def write_static_pod(manifests: Path) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", **pod_manifest("agent", node=None)}
    manifests.mkdir(exist_ok=True)
    (manifests / "agent.json").write_text(json.dumps(manifest))


async def test_late_mirror_shows_status_of_its_running_pod(cluster: Server, short_folder: Path) -> None:
    manifests = short_folder / "manifests"
    async with cluster.joined() as joined, joined.kubelet(short_folder, static_pod_path=manifests) as kubelet:
        await cluster.until(lambda: is_ready(cluster))
        await joined.cluster.until_sent()
        await cluster.api.stop()
        write_static_pod(manifests)
        await until(lambda: any(kubelet.containers_of(pod) for pod in kubelet.runtime.pods()))
        assert cluster.find("pods", f"agent-{NODE}") is None

        await cluster.api.start()
        await cluster.until(lambda: cluster.find("pods", f"agent-{NODE}"))

        await cluster.until(lambda: cluster.phase(f"agent-{NODE}") == "Running")


async def test_mirror_is_created_when_its_node_is_registered(cluster: Server, short_folder: Path) -> None:
    manifests = short_folder / "manifests"
    write_static_pod(manifests)
    async with cluster.joined() as joined:
        await cluster.api.stop()
        async with joined.kubelet(short_folder, static_pod_path=manifests) as kubelet:
            await until(lambda: any(kubelet.containers_of(pod) for pod in kubelet.runtime.pods()))

            await cluster.api.start()
            await cluster.until(lambda: cluster.find("pods", f"agent-{NODE}"))

            node = cluster.find("nodes", NODE, "")
            assert node is not None
            (owner,) = cluster.pod(f"agent-{NODE}")["metadata"]["ownerReferences"]
            assert owner["uid"] == node["metadata"]["uid"]
            assert joined.complaints == []
