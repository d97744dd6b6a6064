"""The example driver of dynamic resources, unmodified, on a simulated node: what it and its pods see."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster
from tests.support.patience import eventually

pytestmark = pytest.mark.dra_go

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
DEVICES: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LiveCluster]:
    driver = go_client("SIMKUBELET_DRA_DRIVER")
    command = f"exec {driver} --node-name node-1 --num-devices 4 --kubeconfig $XDG_RUNTIME_DIR/kubeconfig"
    with live_cluster(f"--runtime process --kubeconfig kubeconfig --plugin \"driver=sh -c '{command}'\"") as cluster:
        selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
        cluster.apply(API, "DeviceClass", DRIVER, {"selectors": [selector]})
        cluster.apply(API, "ResourceClaimTemplate", "template", {"spec": DEVICES})
        assert cluster.watched("resourceslices")
        yield cluster


def run_pod(cluster: LiveCluster, name: str, **source: str) -> str:
    """Run a pod with a claim; what its container sees of the device."""
    return cluster.run_with_claim(name, "env | grep GPU_DEVICE", **source)


def claims(cluster: LiveCluster) -> dict[str, str]:
    """Claim -> the device that it has; empty where it has none."""
    found = {}
    for claim in cluster.get("resourceclaims")["items"]:
        allocation = (claim.get("status") or {}).get("allocation")
        results = allocation["devices"]["results"] if allocation else [{"device": ""}]
        found[claim["metadata"]["name"]] = results[0]["device"]
    return found


def specifications(cluster: LiveCluster) -> int:
    """How many claims have a CDI specification on the node."""
    return len([path for path in cluster.scratch.rglob("k8s.gpu.example.com-gpu_*") if "common" not in path.name])


def drivers(cluster: LiveCluster) -> list[int]:
    """Process ids of the driver."""
    mark = f"{cluster.scratch}/kubeconfig".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                argv = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if argv[0].endswith(b"dra-example-kubeletplugin") and mark in argv:
                found.append(int(entry.name))
    return found


def test_pods_with_claim_and_template_run_with_their_devices(cluster: LiveCluster) -> None:
    cluster.apply(API, "ResourceClaim", "claim", DEVICES)

    named = run_pod(cluster, "named", resourceClaimName="claim")
    templated = run_pod(cluster, "templated", resourceClaimTemplateName="template")

    devices = claims(cluster)
    (generated,) = devices.keys() - {"claim"}
    for seen, device in ((named, devices["claim"]), (templated, devices[generated])):
        assert f"GPU_DEVICE_{device.removeprefix('gpu-')}={device}\n" in seen
    assert len(set(devices.values())) == 2
    assert specifications(cluster) == 2

    cluster.kubectl("delete pod named templated")
    eventually(lambda: claims(cluster) == {"claim": ""})
    assert specifications(cluster) == 0


def test_driver_that_was_killed_prepares_again(cluster: LiveCluster) -> None:
    (first,) = drivers(cluster)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: drivers(cluster) not in ([], [first]))

    run_pod(cluster, "after-driver", resourceClaimTemplateName="template")

    cluster.kubectl("delete pod after-driver")
    eventually(lambda: specifications(cluster) == 0)


def test_restarted_kubelet_unprepares_what_was_prepared_before(cluster: LiveCluster) -> None:
    run_pod(cluster, "kept", resourceClaimTemplateName="template")

    cluster.command("simkubelet kubelet restart node-1")

    assert cluster.get("pod kept")["status"]["phase"] == "Running"
    cluster.kubectl("delete pod kept")
    eventually(lambda: specifications(cluster) == 0)
    # The kubelet has deleted the slices; the driver's library waits for half a minute before it writes them again.
    assert cluster.watched("resourceslices")
