"""kubectl against a simulated cluster: what a user of a cluster does every day."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster
from tests.support.patience import eventually

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("--nodes 2 --profile t4 --gpus 2") as cluster:
        for node in ("node-1", "node-2"):
            cluster.wait(f"node/{node}", r".status.allocatable.nvidia\.com/gpu", 2)
        yield cluster


def gpu_pod(name: str, gpus: int = 1, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def rows(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def test_nodes_are_shown_as_a_table(cluster: LiveCluster) -> None:
    header, *nodes = rows(cluster.kubectl("get nodes"))

    assert header == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [(row[0], row[1], row[2], row[4]) for row in nodes] == [
        ("node-1", "Ready", "<none>", "v1.34.4"),
        ("node-2", "Ready", "<none>", "v1.34.4"),
    ]


def test_pod_gets_its_gpu_and_gives_it_back(cluster: LiveCluster) -> None:
    assert cluster.kubectl("apply -f -", gpu_pod("one-gpu")) == "pod/one-gpu created\n"
    cluster.wait_until_ready("one-gpu")

    described = cluster.kubectl("describe pod one-gpu")
    assert "nvidia.com/gpu:  1" in described
    assert re.search(
        r"Normal +Scheduled +\S+ +default-scheduler +Successfully assigned default/one-gpu to node-", described
    )
    assert re.search(r"Normal +Started +\S+ +kubelet ", described)
    assert rows(cluster.kubectl("get pod one-gpu"))[1][:4] == ["one-gpu", "1/1", "Running", "0"]
    assert cluster.kubectl("logs one-gpu") == ""

    said = cluster.kubectl("delete pod one-gpu")
    assert said.replace(" from default namespace", "") == 'pod "one-gpu" deleted\n'
    assert "not found" in cluster.kubectl("get pod one-gpu", fails=True)


def test_unschedulable_pod_reports_the_reason(cluster: LiveCluster) -> None:
    cluster.kubectl("apply -f -", gpu_pod("greedy", 3))
    cluster.wait("pod/greedy", ".status.conditions[0].reason", "Unschedulable")

    events = cluster.kubectl("get events --field-selector involvedObject.name=greedy -o jsonpath='{.items[*].message}'")
    assert events.startswith("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    cluster.kubectl("delete pod greedy")


def test_file_with_a_namespace_is_deleted_in_the_order_of_the_file(cluster: LiveCluster) -> None:
    demo = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "demo"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "demo"}},
        {**gpu_pod("p"), "metadata": {"name": "p", "namespace": "demo"}},
    ]
    everything = {"apiVersion": "v1", "kind": "List", "items": demo}
    cluster.kubectl("apply -f -", everything)

    # From 1.34 on kubectl says from which namespace.
    said = cluster.kubectl("delete -f -", everything).replace(" from demo namespace", "")
    assert said == 'namespace "demo" deleted\nconfigmap "settings" deleted\npod "p" deleted\n'
    assert cluster.kubectl("get namespace demo", fails=True) == (
        'Error from server (NotFound): namespaces "demo" not found\n'
    )


def test_status_patch_adds_an_extended_resource(cluster: LiveCluster) -> None:
    patch = '[{"op":"add","path":"/status/capacity/example.com~1dongle","value":"4"}]'
    said = cluster.kubectl(f"patch node node-1 --subresource=status --type=json -p '{patch}'")
    assert said == "node/node-1 patched\n"
    cluster.wait("node/node-1", r".status.allocatable.example\.com/dongle", 4)

    pod = gpu_pod("dongles")
    pod["spec"]["containers"][0]["resources"]["limits"] = {"example.com/dongle": 3}
    cluster.kubectl("apply -f -", pod)
    cluster.wait_until_ready("dongles")

    assert cluster.get("pod dongles")["spec"]["nodeName"] == "node-1"
    cluster.kubectl("delete pod dongles")


def test_cordoned_nodes_take_no_pod(cluster: LiveCluster) -> None:
    for node in ("node-1", "node-2"):
        assert cluster.kubectl(f"cordon {node}") == f"node/{node} cordoned\n"
    assert rows(cluster.kubectl("get nodes"))[1][1] == "Ready,SchedulingDisabled"
    cluster.kubectl("apply -f -", gpu_pod("homeless"))
    cluster.wait("pod/homeless", ".status.conditions[0].reason", "Unschedulable")
    assert "2 node(s) were unschedulable" in cluster.kubectl("describe pod homeless")

    for node in ("node-1", "node-2"):
        cluster.kubectl(f"uncordon {node}")

    cluster.wait_until_ready("homeless")
    cluster.kubectl("delete pod homeless")


def test_watch_prints_each_state(cluster: LiveCluster) -> None:
    argv = [go_client("SIMKUBELET_KUBECTL"), "get", "pods", "--watch", "--output-watch-events", "--no-headers"]
    with subprocess.Popen(argv, env=cluster.env, stdout=subprocess.PIPE, text=True) as watch:
        try:
            assert watch.stdout is not None
            # What kubectl shows of this one says that it watches.
            cluster.kubectl("apply -f -", gpu_pod("herald", gpus=0))
            assert watch.stdout.readline().split()[:2] == ["ADDED", "herald"]
            cluster.kubectl("apply -f -", gpu_pod("watched"))
            cluster.wait_until_ready("watched")
            cluster.kubectl("delete pod watched")
            seen = []
            while not seen or seen[-1][0] != "DELETED":
                seen.append(watch.stdout.readline().split())
        finally:
            watch.terminate()
    cluster.kubectl("delete pod herald")

    states = [(event, *row) for event, name, *row in seen if name == "watched"]
    assert [state[0] for state in states] == ["ADDED", *["MODIFIED"] * (len(states) - 2), "DELETED"]
    assert ("MODIFIED", "1/1", "Running", "0") in [state[:4] for state in states]


def test_apply_changes_only_what_differs(cluster: LiveCluster) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1", "b": "2"}}
    assert cluster.kubectl("apply -f -", settings) == "configmap/settings created\n"
    assert cluster.kubectl("apply -f -", settings) == "configmap/settings unchanged\n"
    assert cluster.kubectl("apply -f -", {**settings, "data": {"a": "3"}}) == "configmap/settings configured\n"

    assert cluster.get("configmap settings")["data"] == {"a": "3"}
    assert cluster.kubectl("apply --server-side --field-manager=other -f -", {**settings, "data": {"c": "4"}}) == (
        "configmap/settings serverside-applied\n"
    )
    # kubectl hands what client-side apply set to the new manager, who does not name it any more.
    assert cluster.get("configmap settings")["data"] == {"c": "4"}
    cluster.kubectl("delete configmap settings")


def test_labels_and_fields_select(cluster: LiveCluster) -> None:
    cluster.kubectl("label node node-2 zone=west")

    assert cluster.kubectl("get nodes -l zone=west -o name") == "node/node-2\n"
    assert cluster.kubectl("get nodes -l 'zone notin (west)' -o name") == "node/node-1\n"
    assert cluster.kubectl("get nodes --field-selector metadata.name=node-1 -o name") == "node/node-1\n"


def test_resources_are_discovered_and_explained(cluster: LiveCluster) -> None:
    listed = cluster.kubectl("api-resources --no-headers")
    assert {line.split()[0] for line in listed.splitlines()} >= {"pods", "nodes", "daemonsets", "configmaps", "leases"}
    assert cluster.kubectl("version").splitlines()[-1] == "Server Version: v1.34.4"


def test_what_kubectl_refuses(cluster: LiveCluster) -> None:
    no_container = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {"containers": []}}
    assert cluster.kubectl("create --validate=false -f -", no_container, fails=True) == (
        'The Pod "empty" is invalid: spec.containers: Required value\n'
    )
    assert cluster.kubectl("get pod nobody", fails=True) == 'Error from server (NotFound): pods "nobody" not found\n'
    assert 'namespaces "nowhere" not found' in cluster.kubectl("-n nowhere apply -f -", gpu_pod("x"), fails=True)
    assert "the server doesn't have a resource type" in cluster.kubectl("get unicorns", fails=True)
    unauthorized = cluster.kubectl("--token=wrong --kubeconfig=/dev/null get pods " + _insecure(cluster), fails=True)
    assert "Unauthorized" in unauthorized or "logged in" in unauthorized


def _insecure(cluster: LiveCluster) -> str:
    return f"--server={cluster.server} --insecure-skip-tls-verify=true"


def test_streams_to_a_container_are_refused_in_words(cluster: LiveCluster) -> None:
    cluster.kubectl("apply -f -", gpu_pod("silent"))
    cluster.wait_until_ready("silent")

    for command, words in {
        "exec silent -- true": "exec and cp are not simulated",
        "cp silent:/etc/hosts /dev/null": "exec and cp are not simulated",
        "attach silent": "attach is not simulated",
        "port-forward pod/silent :80": "port-forward is not simulated",
    }.items():
        assert f"simkubelet: {words}" in cluster.kubectl(command, fails=True)
    cluster.kubectl("delete pod silent")


def test_reboot_gives_the_node_another_boot_id_and_an_event(cluster: LiveCluster) -> None:
    before = cluster.get("node node-1")["status"]["nodeInfo"]["bootID"]

    assert cluster.command("simkubelet node reboot node-1") == "node-1 was rebooted\n"

    after = cluster.get("node node-1")["status"]["nodeInfo"]["bootID"]
    events = cluster.kubectl("get events --field-selector reason=Rebooted -o jsonpath='{.items[*].message}'")
    assert events == f"Node node-1 has been rebooted, boot id: {after}"
    assert before != after
    cluster.wait("node/node-1", r".status.allocatable.nvidia\.com/gpu", 2)


def test_kubelet_restart_keeps_running_pod_and_gpu(cluster: LiveCluster) -> None:
    cluster.kubectl("apply -f -", gpu_pod("steady", nodeName="node-2"))
    cluster.wait_until_ready("steady")

    assert cluster.command("simkubelet kubelet restart node-2") == "the kubelet of node-2 was restarted\n"

    cluster.wait("node/node-2", r".status.allocatable.nvidia\.com/gpu", 2)
    assert rows(cluster.kubectl("get pod steady"))[1][:4] == ["steady", "1/1", "Running", "0"]
    cluster.kubectl("delete pod steady")


def test_broken_gpu_leaves_the_allocatable(cluster: LiveCluster) -> None:
    machine = re.search(r"node-1 .* --dir (\S+)", cluster.introduction)
    assert machine is not None

    cluster.command(f"fakegpu fail 0 --xid 79 --dir {machine[1]}")
    cluster.wait("node/node-1", r".status.allocatable.nvidia\.com/gpu", 1)

    assert cluster.get("node node-1")["status"]["capacity"]["nvidia.com/gpu"] == "2"


def test_drained_node_is_empty(cluster: LiveCluster) -> None:
    cluster.kubectl("apply -f -", gpu_pod("movable", nodeName="node-2"))
    cluster.wait_until_ready("movable")

    cluster.kubectl("drain node-2 --force --grace-period=1")

    eventually(lambda: "movable" not in cluster.kubectl("get pods -o name"))
    cluster.kubectl("uncordon node-2")
