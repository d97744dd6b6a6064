"""The manifests that plugins print, applied with kubectl, strictly: what the cluster takes, and what then runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from plugin.cli import PLUGINS
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import LIMIT_S, eventually

pytestmark = pytest.mark.clients

DESCRIPTION = "resource: example.com/seat\ncount: 2\n"
SYSTEM = "-n kube-system"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    with live_cluster("--nodes 1 --profile t4 --gpus 2 --plugin none") as cluster:
        yield cluster


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(DESCRIPTION)
    return file


def manifest(plugin: str, config: Path, *options: str) -> str:
    """What a plugin prints; some cannot do without a file."""
    named = {"generic": ["--config", str(config)], "iluvatar": ["--config-file", str(config)]}.get(plugin, [])
    command = [sys.executable, "-m", "simkubelet", "plugin", plugin, *named, *options, "--manifest"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("plugin", sorted(PLUGINS.keys() - {"stub"}))
def test_cluster_takes_every_manifest_twice_and_deletes_it(plugin: str, config: Path, cluster: LiveCluster) -> None:
    text = manifest(plugin, config)
    kinds = [one["kind"] for one in yaml.safe_load_all(text)]

    made = cluster.kubectl(f"{SYSTEM} apply --validate=strict --dry-run=server -f -", text).splitlines()
    assert [line.rpartition(" created")[2] for line in made] == [" (server dry run)"] * len(kinds)

    if "ClusterRole" in kinds:
        roles = "".join(f"---\n{yaml.safe_dump(one)}" for one in yaml.safe_load_all(text) if one["kind"] != "DaemonSet")
        cluster.kubectl("apply --validate=strict -f -", roles)
        again = cluster.kubectl("apply --validate=strict -f -", roles)
        assert again.count(" unchanged\n") == len(kinds) - 1
        assert f"ClusterRole/{plugin}-device-plugin" in cluster.kubectl("get clusterrolebindings")
        cluster.kubectl("delete -f -", roles)


def test_gopher_manifest_gives_pod_its_device(config: Path, cluster: LiveCluster) -> None:
    cluster.kubectl("apply --validate=strict -f -", manifest("gopher", config))
    cluster.kubectl(f"{SYSTEM} rollout status daemonset/gopher-device-plugin --timeout={LIMIT_S}s")
    burrows = cluster.kubeconfig.parent / "node-1" / "root" / "etc" / "gophers"

    (burrows / "tunnel").touch()

    cluster.wait("node/node-1", r".status.allocatable.lixueduan\.com/gopher", 1)
    container = {"name": "main", "image": "none", "resources": {"limits": {"lixueduan.com/gopher": 1}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "digger"}, "spec": {"containers": [container]}}
    cluster.kubectl("apply -f -", pod)
    cluster.kubectl(f"wait pod/digger --for=condition=Ready --timeout={LIMIT_S}s")
    cluster.kubectl("delete pod digger")
    cluster.kubectl("delete -f -", manifest("gopher", config))
    eventually(lambda: not cluster.get(f"pods {SYSTEM}")["items"])


def test_daemon_set_of_a_manifest_runs_the_plugin(config: Path, cluster: LiveCluster) -> None:
    cluster.kubectl("apply --validate=strict -f -", manifest("nvidia", config, "--gds-enabled=false"))

    cluster.kubectl(f"{SYSTEM} rollout status daemonset/nvidia-device-plugin --timeout={LIMIT_S}s")
    cluster.wait("node/node-1", r".status.allocatable.nvidia\.com/gpu", 2)
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": {"containers": [container]}}
    cluster.kubectl("apply -f -", pod)
    cluster.kubectl(f"wait pod/train --for=condition=Ready --timeout={LIMIT_S}s")
    cluster.kubectl("delete pod train")
    cluster.kubectl("delete -f -", manifest("nvidia", config))
    eventually(lambda: not cluster.get(f"pods {SYSTEM}")["items"])
