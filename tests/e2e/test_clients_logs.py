"""`kubectl logs` of containers that are processes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster
from tests.support.patience import eventually

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="containers that are processes need bubblewrap"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("--runtime process") as cluster:
        yield cluster


def running(cluster: LiveCluster, name: str, *scripts: str) -> None:
    """Create a pod with a container for each script, and wait until all of them have been started."""
    containers = [
        {"name": f"c{n}", "image": "none", "command": ["sh", "-c", script]} for n, script in enumerate(scripts)
    ]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers},
    }
    cluster.kubectl("apply -f -", pod)

    def has_started() -> bool:
        statuses = cluster.get(f"pod {name}")["status"].get("containerStatuses", [])
        return len(statuses) == len(scripts) and all(status.get("containerID") for status in statuses)

    eventually(has_started)


def test_output_is_shown_whole_and_in_parts(cluster: LiveCluster) -> None:
    running(cluster, "speaker", "seq 5; exec sleep 1000")
    eventually(lambda: cluster.kubectl("logs speaker") == "1\n2\n3\n4\n5\n")

    assert cluster.kubectl("logs speaker --tail=2") == "4\n5\n"
    assert cluster.kubectl("logs speaker --limit-bytes=3") == "1\n2"
    assert cluster.kubectl("logs speaker --timestamps --tail=1").split()[1] == "5"
    cluster.kubectl("delete pod speaker --now")


def test_followed_output_ends_with_the_container(cluster: LiveCluster) -> None:
    running(cluster, "counter", "echo begun; sleep 2; echo over; exit 0")

    assert cluster.kubectl("logs counter -f") == "begun\nover\n"
    cluster.kubectl("delete pod counter --now")


def test_previous_shows_log_of_last_container(cluster: LiveCluster) -> None:
    running(cluster, "crasher", "echo alive; exit 1")
    cluster.wait("pod/crasher", ".status.containerStatuses[0].restartCount", 1)

    assert cluster.kubectl("logs crasher --previous") == "alive\n"
    cluster.kubectl("delete pod crasher --now")


def test_container_must_be_named_where_there_are_two(cluster: LiveCluster) -> None:
    running(cluster, "pair", "echo left; exec sleep 1000", "echo right; exec sleep 1000")
    eventually(lambda: cluster.kubectl("logs pair -c c1") == "right\n")

    assert "container nobody is not valid for pod pair" in cluster.kubectl("logs pair -c nobody", fails=True)
    assert "previous terminated container" in cluster.kubectl("logs pair -c c0 --previous", fails=True)
    cluster.kubectl("delete pod pair --now")


def test_stopped_kubelet_refuses_the_connection(cluster: LiveCluster) -> None:
    running(cluster, "mute", "exec sleep 1000")
    cluster.command("simkubelet kubelet stop node-1")
    try:
        said = cluster.kubectl("logs mute", fails=True)
        assert said.startswith('Error from server: Get "https://')
        assert said.endswith("connect: connection refused\n")
    finally:
        cluster.command("simkubelet kubelet start node-1")
    cluster.kubectl("delete pod mute --now")


def test_containers_see_only_their_own_gpus() -> None:
    with live_cluster("--profile t4 --gpus 2 --runtime process") as cluster:
        cluster.wait("node/node-1", r".status.allocatable.nvidia\.com/gpu", 2)
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", "nvidia-smi -L; exec sleep 1000"],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [container]}}
        cluster.kubectl("apply -f -", pod)
        cluster.wait_until_ready("one")

        eventually(lambda: cluster.kubectl("logs one").startswith("GPU 0: Tesla T4 (UUID: GPU-"))
        assert cluster.kubectl("logs one").count("\n") == 1


def test_watch_of_logs_can_be_broken_off(cluster: LiveCluster) -> None:
    running(cluster, "endless", "while :; do echo again; sleep 0.05; done")
    argv = [go_client("SIMKUBELET_KUBECTL"), "logs", "endless", "-f"]
    with subprocess.Popen(argv, env=cluster.env, stdout=subprocess.PIPE, text=True) as followed:
        assert followed.stdout is not None
        assert [followed.stdout.readline() for _ in range(5)] == ["again\n"] * 5
        followed.terminate()

    cluster.kubectl("delete pod endless --now")
