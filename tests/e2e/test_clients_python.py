"""Python's client libraries against a simulated cluster: the official one and kr8s."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import kr8s
import pytest
from kr8s.objects import Node, Pod
from kubernetes import client, config, watch

from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import LIMIT_S

pytestmark = [
    pytest.mark.clients,
    # kr8s leaves connections and files of keys to the garbage collector, which comes when it likes.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning"),  # since Python 3.14
]


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """What kr8s leaves open goes before the next module, where it would be an error."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("--nodes 2 --profile t4 --gpus 2") as cluster:
        yield cluster


@pytest.fixture
def core(cluster: LiveCluster) -> Iterator[Any]:
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield client.CoreV1Api(api)


@pytest.fixture
def connect(cluster: LiveCluster) -> Callable[[], Any]:
    """Connects kr8s. The test alone holds the connection: pytest keeps what a fixture returns until all have ended."""
    return partial(kr8s.api, kubeconfig=str(cluster.kubeconfig))


def manifest(name: str, **limits: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_official_client_lists_typed_objects(core: Any) -> None:
    assert [node.metadata.name for node in core.list_node().items] == ["node-1", "node-2"]
    assert core.list_node().items[0].status.node_info.kubelet_version == "v1.34.4"


def test_official_client_watches_pod_until_deletion(core: Any) -> None:
    begin = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", manifest("followed", **{"nvidia.com/gpu": "1"}))
    seen = []
    for event in watch.Watch().stream(
        core.list_namespaced_pod,
        "default",
        resource_version=begin,
        timeout_seconds=LIMIT_S,
        _request_timeout=LIMIT_S,
    ):
        if event["object"].metadata.name != "followed":
            continue
        seen.append(event["type"])
        if event["object"].status.phase == "Running" and event["object"].metadata.deletion_timestamp is None:
            core.delete_namespaced_pod("followed", "default")
        if event["type"] == "DELETED":
            break

    assert seen[0] == "ADDED"
    assert seen[-1] == "DELETED"


def test_official_client_meets_a_conflict(core: Any) -> None:
    stale = core.create_namespaced_config_map("default", config_map("shared", a="1"))
    core.patch_namespaced_config_map("shared", "default", {"data": {"a": "2"}})

    with pytest.raises(client.ApiException) as refused:
        core.replace_namespaced_config_map("shared", "default", stale)

    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in refused.value.body
    with pytest.raises(client.ApiException, match="AlreadyExists"):
        core.create_namespaced_config_map("default", config_map("shared"))
    core.delete_namespaced_config_map("shared", "default")


def test_official_client_reads_a_list_in_pages(core: Any) -> None:
    for n in range(5):
        labels = {"in": "pages"}
        core.create_namespaced_config_map("default", {"metadata": {"name": f"page-{n}", "labels": labels}})

    names, go_on = [], None
    while go_on != "":
        page = core.list_namespaced_config_map("default", label_selector="in=pages", limit=2, _continue=go_on)
        assert len(page.items) <= 2
        names += [item.metadata.name for item in page.items]
        go_on = page.metadata._continue or ""

    assert names == [f"page-{n}" for n in range(5)]
    core.delete_collection_namespaced_config_map("default", label_selector="in=pages")
    assert core.list_namespaced_config_map("default", label_selector="in=pages").items == []


def test_kr8s_runs_a_pod(connect: Callable[[], Any]) -> None:
    api = connect()
    pod = Pod(manifest("quick", **{"nvidia.com/gpu": "1"}), api=api)
    pod.create()
    pod.wait("condition=Ready", timeout=LIMIT_S)

    assert pod.ready()
    assert pod.spec.nodeName in ("node-1", "node-2")

    pod.delete()
    pod.wait("delete", timeout=LIMIT_S)
    assert not pod.exists()


def test_kr8s_patches_a_nodes_status_and_cordons_it(connect: Callable[[], Any]) -> None:
    api = connect()
    node = Node.get("node-2", api=api)
    node.patch({"status": {"capacity": {"example.com/dongle": "2"}}}, subresource="status")
    node.refresh()
    assert node.status.capacity["example.com/dongle"] == "2"

    node.cordon()
    assert node.unschedulable
    node.uncordon()


def test_kr8s_watches_a_config_map_until_deletion(connect: Callable[[], Any]) -> None:
    api = connect()
    found = kr8s.objects.ConfigMap({"metadata": {"name": "noticed", "namespace": "default"}}, api=api)
    found.create()
    seen: list[str] = []
    begun = threading.Event()

    def follow() -> None:
        for event, followed in api.watch("configmaps", namespace="default"):
            if followed.name == "noticed":
                seen.append(event)
                begun.set()
                if event == "DELETED":
                    return

    follower = threading.Thread(target=follow)
    follower.start()
    assert begun.wait(timeout=LIMIT_S)
    found.delete()
    follower.join(timeout=LIMIT_S)

    assert (seen[0], seen[-1]) == ("ADDED", "DELETED")
