"""What goes wrong with a real cluster under a story: one line, the right status, and nothing of the run is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.patience import PROGRAM_LIMIT_S, eventually

Run = Callable[..., subprocess.CompletedProcess[str]]
_OURS = "app.kubernetes.io/managed-by=simkubelet"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the runs of a test make their temporary files; empty in the end."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def start(story: str, cluster: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "simkubelet", "run", story, "--backend", "kind", "--cluster", cluster, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def docker(*command: str) -> str:
    argv = ["docker", *command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S, check=True)
    return done.stdout.strip()


def on_node(cluster: str, *command: str) -> str:
    return docker("exec", "-e", "KUBECONFIG=/etc/kubernetes/admin.conf", f"{cluster}-control-plane", *command)


def until(cluster: str, condition: str, run: subprocess.Popen[str] | None = None) -> None:
    """Wait until a command succeeds on a cluster's first node; a run that is under way meanwhile must show why not."""
    try:
        on_node(cluster, "timeout", "120", "sh", "-c", f"until {condition}; do sleep 0.02; done >/dev/null 2>&1")
    except subprocess.CalledProcessError:
        if run is None:
            raise
        run.send_signal(signal.SIGINT)
        said = "".join(run.communicate(timeout=PROGRAM_LIMIT_S))
        pytest.fail(f"never true on the cluster: {condition}\nthe run ended with {run.returncode}: {said}")


def assert_untouched(cluster: str) -> None:
    assert on_node(cluster, "kubectl", "get", "pods,daemonsets", "--all-namespaces", "-l", _OURS, "-o", "name") == ""
    assert "simkubelet-agent" not in on_node(cluster, "ctr", "-n", "k8s.io", "containers", "ls", "-q")
    assert on_node(cluster, "sh", "-c", "ls -d /var/lib/simkubelet /etc/gophers 2>/dev/null || true") == ""
    assert "simkubelet" not in on_node(cluster, "kubectl", "get", "nodes", "--show-labels")


def test_an_interrupted_creation_leaves_nothing(new_cluster: str, scratch: Path) -> None:
    there = ("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={new_cluster}")
    nobodys_volumes = ("volume", "ls", "--quiet", "--filter", "dangling=true")
    volumes = set(docker(*nobodys_volumes).split())
    run = start("gopher-pending", new_cluster, "--keep", "--image", os.environ.get("KIND_NODE_IMAGE", ""))
    while not docker(*there) and run.poll() is None:
        pass

    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=PROGRAM_LIMIT_S)

    assert (run.returncode, said) == (130, "interrupted; everything was ended\n")
    assert docker(*there) == ""
    # Clusters of other tests are made and deleted meanwhile, and their volumes are nobody's for a moment.
    eventually(lambda: set(docker(*nobodys_volumes).split()) <= volumes, lambda: "a volume is left")


def test_missing_node_image_is_one_line(new_cluster: str, scratch: Path) -> None:
    run = start("gopher-pending", new_cluster, "--image", "127.0.0.1:1/no/such:image")

    _, said = run.communicate(timeout=PROGRAM_LIMIT_S)

    assert run.returncode == 3
    assert said.startswith("error: kind create cluster: ")
    assert "127.0.0.1:1/no/such:image" in said
    assert len(said.splitlines()) == 1
    assert docker("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={new_cluster}") == ""


def test_story_that_kind_cannot_play_is_skipped(run: Run) -> None:
    answer = run("plugin-gone-for-good", "--backend", "kind")

    assert answer.returncode == 0
    assert "the backend cannot let node time pass at will" in answer.stdout


def test_another_version_than_the_clusters_is_refused(run: Run) -> None:
    answer = run("gopher-pending", "--backend", "kind", "--kubelet-version", "1.28")

    assert answer.returncode == 2
    assert answer.stderr.startswith("error: --kubelet-version: cluster ")


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("pgrep -f [s]cenarios.backends.kind.agent", id="the agent comes up"),
        pytest.param(f"kubectl get pods -l {_OURS} | grep Running", id="pods run"),
        pytest.param("! systemctl is-active kubelet", id="the kubelet restarts"),
    ],
)
def test_an_interrupted_story_leaves_nothing(phase: str, cluster: str, scratch: Path) -> None:
    run = start("kubelet-restart", cluster)
    until(cluster, phase, run)

    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=PROGRAM_LIMIT_S)

    assert (run.returncode, said.splitlines()[-1]) == (130, "interrupted; everything was ended")
    assert_untouched(cluster)


def test_next_run_cleans_up_after_lost_api_server(cluster: str, run: Run, scratch: Path) -> None:
    story = start("gopher-pending", cluster)
    until(cluster, f"kubectl get pods -l {_OURS} | grep Running", story)
    # Without its manifest nobody starts it again.
    manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
    on_node(cluster, "sh", "-c", f"mv {manifest} /etc/kubernetes && pkill -KILL kube-apiserver")
    try:
        said, error = story.communicate(timeout=PROGRAM_LIMIT_S)
    finally:
        on_node(cluster, "mv", "/etc/kubernetes/kube-apiserver.yaml", manifest)
        until(cluster, "kubectl get --raw /readyz")

    assert story.returncode == 3, said + error
    assert "the cluster's API server" in said + error
    assert run("gopher-pending", "--backend", "kind").returncode == 0
    assert_untouched(cluster)


def test_ended_node_is_one_line(cluster: str, scratch: Path) -> None:
    story = start("gopher-pending", cluster)
    until(cluster, f"kubectl get pods -l {_OURS} | grep Running", story)
    docker("kill", f"{cluster}-control-plane")
    try:
        said, error = story.communicate(timeout=PROGRAM_LIMIT_S)
    finally:
        docker("start", f"{cluster}-control-plane")
        until(cluster, "kubectl get --raw /readyz")

    assert story.returncode == 3, said + error
    assert "was ended under the story" in said + error
