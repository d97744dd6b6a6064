"""Stories on a real cluster: they tell what the simulator tells, and nothing of them is left."""

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
PORTABLE = (
    "gopher-pending",
    "device-unhealthy",
    "k1-rolling-update-loses-the-new-plugin",
    "r1-old-instance-takes-the-new-one-along",
    "r4-restart-on-the-same-socket",
)


@pytest.mark.parametrize("story", PORTABLE)
def test_both_worlds_tell_the_same(story: str, run: Run) -> None:
    answer = run(story, "--backend", "both")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "1 passed" in answer.stdout


def test_a_story_that_a_cluster_cannot_play_is_skipped_with_the_reason(run: Run) -> None:
    answer = run("plugin-gone-for-good", "--backend", "kind")

    assert answer.returncode == 0
    assert "the backend cannot let node time pass at will" in answer.stdout


def test_another_version_than_the_clusters_is_refused(run: Run) -> None:
    answer = run("gopher-pending", "--backend", "kind", "--kubelet-version", "1.28")

    assert answer.returncode == 2
    assert answer.stderr.startswith("error: --kubelet-version: cluster ")


def test_an_interrupted_story_leaves_nothing(cluster: str) -> None:
    command = [sys.executable, "-m", "simkubelet", "run", "gopher-pending", "--backend", "kind", "--cluster", cluster]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as story:
        _until_labelled(cluster)
        story.send_signal(signal.SIGINT)
        _, said = story.communicate(timeout=200)

    assert story.returncode == 130
    assert "interrupted; everything was ended" in said
    assert _on_node(cluster, "kubectl", "get", "pods", "-o", "name") == ""
    assert "simkubelet" not in _on_node(cluster, "kubectl", "get", "namespaces", "-o", "name")
    assert "simkubelet-agent" not in _on_node(cluster, "ctr", "-n", "k8s.io", "containers", "ls", "-q")
    assert _on_node(cluster, "sh", "-c", "ls -d /var/lib/simkubelet /etc/gophers 2>/dev/null || true") == ""


def _until_labelled(cluster: str) -> None:
    wait = "until kubectl get namespace simkubelet -o name; do sleep 0.2; done 2>/dev/null"
    _on_node(cluster, "timeout", "120", "sh", "-c", wait)


def _on_node(cluster: str, *command: str) -> str:
    environment = ("-e", "KUBECONFIG=/etc/kubernetes/admin.conf")
    argv = ["docker", "exec", *environment, f"{cluster}-control-plane", *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=150, check=True).stdout.strip()
