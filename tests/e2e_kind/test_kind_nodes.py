"""Nodes that a story has no use for leave the cluster and come back."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from tests.support.patience import LIMIT_S, PROGRAM_LIMIT_S

Run = Callable[..., subprocess.CompletedProcess[str]]
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def test_unused_nodes_leave_the_cluster_and_return(cluster: str, run: Run) -> None:
    first = f"{cluster}-control-plane"
    _kubectl(cluster, "taint", "node", first, f"{_CONTROL_PLANE}:NoSchedule", "--overwrite")

    answer = run("two-resources-one-short", "--backend", "kind")

    assert answer.returncode == 0, answer.stdout + answer.stderr
    _kubectl(cluster, "wait", "--for=create", f"node/{cluster}-worker", f"--timeout={LIMIT_S}s")
    taints = _kubectl(cluster, "get", "node", first, "--output=jsonpath={.spec.taints[*].key}")
    assert _CONTROL_PLANE in taints.split()


def _kubectl(cluster: str, *arguments: str) -> str:
    kubectl = ("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", *arguments)
    command = ["docker", "exec", f"{cluster}-control-plane", *kubectl]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PROGRAM_LIMIT_S).stdout
