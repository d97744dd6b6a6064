"""What users run on their clusters, on nodes that joined a real control plane: an operator, and NVIDIA's own manifest.

The nox session `workloads` provides both.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkubelet.remote import ApiClient, ApiError
from tests.support.joined_nodes import PODS, eventually_so, joining
from tests.support.patience import LIMIT_S
from tools.control_plane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRAININGS = "/apis/example.com/v1/namespaces/default/trainings"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
OPERATOR = Path(__file__).with_name("kopf_operator.py")


def provided(variable: str) -> str:
    """What the session has named."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: run nox -s workloads")
    return value


def definition() -> dict[str, Any]:
    """The kind ``Training``."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
    names = {"plural": "trainings", "singular": "training", "kind": "Training"}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "trainings.example.com"}, "spec": spec}


@pytest.fixture
def start_operator(plane: ControlPlane) -> Iterator[Any]:
    """Starts the operator, which runs until the end of the test."""
    kopf = provided("SIMKUBELET_KOPF")
    started = []

    def start() -> None:
        command = [kopf, "run", "--standalone", "--namespace=default", str(OPERATOR)]
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
        started.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))

    yield start
    for process in started:
        process.terminate()
        process.wait(LIMIT_S)


async def phases(client: ApiClient, prefix: str) -> list[str]:
    """The phases of pods whose names begin so, sorted."""
    pods = (await client.get(PODS))["items"]
    return sorted(pod["status"]["phase"] for pod in pods if pod["metadata"]["name"].startswith(prefix))


async def test_operators_pods_get_gpus_and_go_with_their_owner(
    plane: ControlPlane, client: ApiClient, start_operator: Any
) -> None:
    async def is_served() -> bool:
        try:
            return isinstance((await client.get(TRAININGS))["items"], list)
        except ApiError as error:
            # The server makes the storage of a new kind.
            if error.may_pass:
                return False
            raise

    async def two_of_three_run() -> bool:
        training = await client.get(f"{TRAININGS}/bert")
        return (training.get("status") or {}).get("running") == 2

    async def are_gone() -> bool:
        return not await phases(client, "bert-")

    await client.call("POST", CRDS, definition())
    await eventually_so(is_served)
    start_operator()
    with joining(plane.kubeconfig, "--name-prefix kopf --profile t4 --gpus 2"):
        training = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"name": "bert"}}
        await client.call("POST", TRAININGS, {**training, "spec": {"workers": 3}})
        await eventually_so(two_of_three_run)
        assert await phases(client, "bert-") == ["Pending", "Running", "Running"]

        await client.call("DELETE", f"{TRAININGS}/bert", {"propagationPolicy": "Background"})
        await eventually_so(are_gone)


@pytest.fixture
def manifest() -> dict[str, Any]:
    """NVIDIA's DaemonSet."""
    read: dict[str, Any] = yaml.safe_load(Path(provided("SIMKUBELET_NVIDIA_MANIFEST")).read_text())
    return read


async def test_nvidias_own_manifest_offers_gpus(
    plane: ControlPlane, client: ApiClient, manifest: dict[str, Any]
) -> None:
    name = manifest["metadata"]["name"]
    image, _, _ = manifest["spec"]["template"]["spec"]["containers"][0]["image"].rpartition(":")

    async def are_ready() -> bool:
        status = (await client.get(f"{DAEMON_SETS}/{name}"))["status"]
        return bool(status.get("numberReady") == status.get("desiredNumberScheduled") == 2)

    async def runs() -> bool:
        return await phases(client, "cuda") == ["Running"]

    with joining(
        plane.kubeconfig, f"--name-prefix own --nodes 2 --profile t4 --gpus 2 --plugin none --image {image}=nvidia"
    ):
        await client.call("POST", DAEMON_SETS, manifest)
        await eventually_so(are_ready)
        resources = {"limits": {"nvidia.com/gpu": "2"}}
        spec = {"containers": [{"name": "main", "image": "cuda", "resources": resources}]}
        await client.call("POST", PODS, {"metadata": {"name": "cuda"}, "spec": spec})
        await eventually_so(runs)
        await client.call("DELETE", f"{DAEMON_SETS}/{name}", {"propagationPolicy": "Foreground"})
        await client.call("DELETE", f"{PODS}/cuda")
