"""Device plugins that run as DaemonSets: applied, upgraded, followed and deleted with kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import LIMIT_S, eventually

pytestmark = pytest.mark.clients

GPUS = r".status.allocatable.nvidia\.com/gpu"


SOCKETS = "/var/lib/kubelet/device-plugins"
OPTIONS = "--nodes 2 --profile t4 --gpus 2 --plugin none --image example.com/plugin=nvidia"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster(OPTIONS) as cluster:
        yield cluster


def daemon_set(image: str = "example.com/plugin:v1", **template: Any) -> dict[str, Any]:
    labels = {"app": "plugin"}
    mount, volume = {"name": "sockets", "mountPath": SOCKETS}, {"name": "sockets", "hostPath": {"path": SOCKETS}}
    container = {"name": "plugin", "image": image, "volumeMounts": [mount]}
    spec = {"containers": [container], "volumes": [volume], **template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def pods(cluster: LiveCluster) -> list[Any]:
    found = cluster.get("pods -n kube-system -l app=plugin")["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


@pytest.fixture
def applied(cluster: LiveCluster) -> Iterator[None]:
    cluster.kubectl("apply -f -", daemon_set())
    assert "successfully rolled out" in cluster.kubectl(
        f"-n kube-system rollout status daemonset/plugin --timeout={LIMIT_S}s"
    )
    yield
    cluster.kubectl("-n kube-system delete daemonset plugin")
    eventually(lambda: not cluster.get("pods -n kube-system")["items"])


@pytest.mark.usefixtures("applied")
def test_daemon_set_pods_offer_gpus_of_their_nodes(cluster: LiveCluster) -> None:
    for node in ("node-1", "node-2"):
        cluster.wait(f"node/{node}", GPUS, 2)

    assert sorted(pod["spec"]["nodeName"] for pod in pods(cluster)) == ["node-1", "node-2"]
    header, row = cluster.kubectl("-n kube-system get daemonset plugin").splitlines()
    assert header.split()[:6] == ["NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE"]
    assert row.split()[:6] == ["plugin", "2", "2", "2", "2", "2"]
    assert "Created pod: plugin-" in cluster.kubectl("-n kube-system describe daemonset plugin")


@pytest.mark.usefixtures("applied")
def test_plugins_write_their_logs(cluster: LiveCluster) -> None:
    name = pods(cluster)[0]["metadata"]["name"]

    eventually(lambda: "nvidia.com/gpu" in cluster.kubectl(f"-n kube-system logs {name}"))
    assert len(cluster.kubectl(f"-n kube-system logs {name} --tail=1").splitlines()) == 1


def test_rollout_restart_keeps_gpus_of_running_pods() -> None:
    # A cluster of its own: where a plugin was before, a node's status offers its GPUs for some seconds more.
    with live_cluster(OPTIONS) as cluster:
        cluster.kubectl("apply -f -", daemon_set())
        for node in ("node-1", "node-2"):
            cluster.wait(f"node/{node}", GPUS, 2)
        container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 1}}}
        spec = {"containers": [container]}
        cluster.kubectl("apply -f -", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "steady"}, "spec": spec})
        cluster.wait_until_ready("steady")
        before = {pod["metadata"]["name"] for pod in pods(cluster)}

        cluster.kubectl("-n kube-system rollout restart daemonset/plugin")
        cluster.kubectl(f"-n kube-system rollout status daemonset/plugin --timeout={LIMIT_S}s")

        after = {pod["metadata"]["name"] for pod in pods(cluster)}
        assert len(after) == 2
        assert not before & after
        assert cluster.get("pod steady")["status"]["containerStatuses"][0]["restartCount"] == 0
        assert len(cluster.kubectl("-n kube-system rollout history daemonset/plugin").strip().splitlines()) == 4


@pytest.mark.usefixtures("applied")
def test_rollout_undo_brings_the_image_back(cluster: LiveCluster) -> None:
    cluster.kubectl("-n kube-system set image daemonset/plugin plugin=example.com/plugin:v2")
    cluster.kubectl(f"-n kube-system rollout status daemonset/plugin --timeout={LIMIT_S}s")
    assert {pod["spec"]["containers"][0]["image"] for pod in pods(cluster)} == {"example.com/plugin:v2"}

    cluster.kubectl("-n kube-system rollout undo daemonset/plugin")
    cluster.kubectl(f"-n kube-system rollout status daemonset/plugin --timeout={LIMIT_S}s")

    assert {pod["spec"]["containers"][0]["image"] for pod in pods(cluster)} == {"example.com/plugin:v1"}


@pytest.mark.usefixtures("applied")
def test_rebooted_node_gets_its_plugin_back(cluster: LiveCluster) -> None:
    cluster.wait("node/node-1", GPUS, 2)

    assert cluster.command("simkubelet node reboot node-1") == "node-1 was rebooted\n"

    cluster.wait("node/node-1", GPUS, 2)
    eventually(lambda: restarts(cluster, "node-1") == 1)


def restarts(cluster: LiveCluster, node: str) -> int:
    statuses = [pod["status"]["containerStatuses"][0] for pod in pods(cluster) if pod["spec"]["nodeName"] == node]
    return sum(status["restartCount"] for status in statuses)


def test_selector_that_does_not_match_is_refused(cluster: LiveCluster) -> None:
    wrong = daemon_set()
    wrong["spec"]["selector"]["matchLabels"] = {"app": "other"}

    assert "spec.template.metadata.labels: Invalid value" in cluster.kubectl("create -f -", wrong, fails=True)
