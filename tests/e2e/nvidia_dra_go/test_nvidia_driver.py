"""NVIDIA's driver of dynamic resources, unmodified, on fake GPUs: what it publishes, and what pods get."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster
from tests.support.patience import eventually

pytestmark = pytest.mark.nvidia_dra_go

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
KINDS = {"gpu": "gpu.nvidia.com", "mig": "mig.nvidia.com"}
"""Value of the attribute ``type`` -> the class that NVIDIA's chart makes for it."""


@contextmanager
def cluster_of(gate: str = "", version: str = "1.36") -> Iterator[LiveCluster]:
    """A node with two H100 and the driver with a feature gate; its slices are published."""
    driver, root = go_client("SIMKUBELET_NVIDIA_DRA_DRIVER"), "$NVIDIA_DRIVER_ROOT"
    command = (
        f"exec {driver} --node-name node-1 --image-name none --cdi-root /var/run/cdi "
        f"--kubeconfig $XDG_RUNTIME_DIR/kubeconfig --container-driver-root {root} --nvidia-driver-root {root} "
        f"--nvidia-cdi-hook-path /usr/bin/nvidia-cdi-hook {gate and f'--feature-gates {gate}=true'}"
    )
    options = f"--profile h100-80gb --gpus 2 --kubelet-version {version} --runtime process --kubeconfig kubeconfig"
    with live_cluster(f"{options} --plugin \"driver=sh -c '{command}'\"") as cluster:
        for kind, name in KINDS.items():
            expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
            cluster.apply(API, "DeviceClass", name, {"selectors": [{"cel": {"expression": expression}}]})
        eventually(lambda: cluster.get("resourceslices")["items"])
        yield cluster


def run_pod(cluster: LiveCluster, name: str, kind: str = "gpu", expression: str = "") -> str:
    """Run a pod with a device; what its container sees of NVIDIA's."""
    exactly: dict[str, Any] = {"deviceClassName": KINDS[kind]}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    template = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    cluster.apply(API, "ResourceClaimTemplate", name, template)
    return cluster.run_with_claim(name, "find /dev -name 'nvidia*'; nvidia-smi -L", resourceClaimTemplateName=name)


def devices(cluster: LiveCluster) -> dict[str, Any]:
    """Name -> device, of all slices."""
    slices = cluster.get("resourceslices")["items"]
    return {one["name"]: one for each in slices for one in each["spec"].get("devices") or ()}


def end_pod(cluster: LiveCluster, name: str) -> None:
    """Delete a pod; its claim goes, and with it the file for the container runtime."""
    cluster.kubectl(f"delete pod {name}")
    eventually(lambda: not cluster.get("resourceclaims")["items"])
    eventually(lambda: not list(cluster.scratch.rglob("k8s.gpu.nvidia.com-claim_*")))


def test_pod_gets_a_whole_gpu() -> None:
    with cluster_of(version="1.34") as cluster:
        gpus = devices(cluster)
        seen = run_pod(cluster, "train")

        assert sorted(gpus) == ["gpu-0", "gpu-1"]
        attributes = gpus["gpu-0"]["attributes"]
        assert attributes["productName"] == {"string": "NVIDIA H100 80GB HBM3"}
        assert "/dev/nvidia0\n" in seen
        assert "/dev/nvidia1\n" not in seen
        assert [line.count(attributes["uuid"]["string"]) for line in seen.splitlines() if "UUID" in line] == [1]
        end_pod(cluster, "train")


def test_gpu_with_an_xid_is_tainted_and_no_pod_gets_it() -> None:
    with cluster_of("NVMLDeviceHealthCheck") as cluster:
        (machine,) = cluster.scratch.rglob("node-1/machine")
        cluster.command(f"fakegpu fail 0 --xid 79 --dir {machine}")
        eventually(lambda: devices(cluster)["gpu-0"].get("taints"))

        seen = run_pod(cluster, "train")

        (taint,) = devices(cluster)["gpu-0"]["taints"]
        assert (taint["key"], taint["value"], taint["effect"]) == ("gpu.nvidia.com/xid", "79", "NoSchedule")
        assert "/dev/nvidia1\n" in seen
        assert "/dev/nvidia0\n" not in seen


def test_mig_devices_are_made_for_pods_and_removed_after_them() -> None:
    with cluster_of("DynamicMIG") as cluster:
        eventually(lambda: len(devices(cluster)) == 52)
        profile = f"device.attributes['{DRIVER}'].profile == '3g.40gb'"

        seen = run_pod(cluster, "train", "mig", profile)

        (machine,) = cluster.scratch.rglob("node-1/machine")
        instances = machine / "proc/driver/nvidia/capabilities/gpu0/mig"
        assert [one.name for one in instances.iterdir()] == ["gi1"]
        assert seen.count("/dev/nvidia-caps/nvidia-cap") == 2
        assert "MIG 3g.40gb" in seen
        end_pod(cluster, "train")
        eventually(lambda: not list(instances.iterdir()))
