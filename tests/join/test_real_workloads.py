"""What users run on their clusters, on nodes that joined a real control plane: an operator, and NVIDIA's plugin.

NVIDIA's own manifest and Helm chart install the plugin. The nox session `workloads` provides all of them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkubelet.remote import ApiClient, ApiError
from tests.support.joined_nodes import PODS, eventually_so, is_running, joining
from tests.support.patience import LIMIT_S
from tools.control_plane import ControlPlane

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRAININGS = "/apis/example.com/v1/namespaces/default/trainings"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
RELEASE = "nvdp"
RELEASES_NAMESPACE = "nvidia-device-plugin"
RELEASES_DAEMON_SETS = f"/apis/apps/v1/namespaces/{RELEASES_NAMESPACE}/daemonsets"
WAITING = ("--wait", f"--timeout={LIMIT_S}s")
TIME_SLICING = """
version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 4
"""
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


Helm = Callable[..., str]
"""Runs helm on the control plane's cluster, in the release's namespace, and gives what it prints."""


@pytest.fixture
def helm(plane: ControlPlane, tmp_path: Path) -> Helm:
    program = provided("SIMKUBELET_HELM")
    own = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **own, "KUBECONFIG": str(plane.kubeconfig)}

    def run(*arguments: str | Path) -> str:
        command = [program, *map(str, arguments), "--namespace", RELEASES_NAMESPACE]
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


async def of_release(client: ApiClient) -> list[str]:
    """What a cluster has of the release, helm's own notes about it included."""
    namespaced = ("configmaps", "pods", "secrets", "serviceaccounts")
    paths = [f"/api/v1/namespaces/{RELEASES_NAMESPACE}/{kind}" for kind in namespaced]
    paths += [RELEASES_DAEMON_SETS, f"{RELEASES_DAEMON_SETS.removesuffix('daemonsets')}controllerrevisions"]
    paths += [f"/apis/rbac.authorization.k8s.io/v1/{kind}" for kind in ("clusterroles", "clusterrolebindings")]
    objects = [(path, item) for path in paths for item in (await client.get(path))["items"]]
    names = [(path.rpartition("/")[2], item["metadata"]["name"]) for path, item in objects]
    return sorted({f"{kind}/{name}" for kind, name in names if RELEASE in name})


@pytest.fixture
def chart() -> Path:
    """NVIDIA's chart."""
    return Path(provided("SIMKUBELET_NVIDIA_CHART"))


@pytest.fixture
def chart_image(chart: Path) -> str:
    """The image of the chart's plugin, without its tag."""
    return str(yaml.safe_load((chart / "values.yaml").read_text())["image"]["repository"])


@pytest.fixture
def sharing(tmp_path: Path) -> Path:
    """A file of the plugin's settings, by which each GPU is four."""
    file = tmp_path / "sharing.yaml"
    file.write_text(TIME_SLICING)
    return file


async def test_nvidias_own_chart_is_installed_upgraded_and_uninstalled(
    plane: ControlPlane, client: ApiClient, helm: Helm, chart: Path, chart_image: str, sharing: Path
) -> None:
    nodes = ["chart-1", "chart-2"]

    async def are_labelled() -> bool:
        label = {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}}
        return all([await client.patch(f"/api/v1/nodes/{name}", label) for name in nodes])

    async def daemon_set() -> dict[str, Any]:
        found: dict[str, Any] = await client.get(f"{RELEASES_DAEMON_SETS}/{RELEASE}-nvidia-device-plugin")
        return found

    async def is_observed() -> bool:
        return (await daemon_set())["status"].get("observedGeneration") == 1

    async def are_ready() -> bool:
        status = (await daemon_set())["status"]
        numbers = {status.get(f"{kind}NumberScheduled") for kind in ("desired", "current", "updated")}
        return numbers == {2} and status.get("numberReady") == 2

    async def offered() -> list[str | None]:
        found = [await client.get(f"/api/v1/nodes/{name}") for name in nodes]
        return [node["status"]["allocatable"].get("nvidia.com/gpu") for node in found]

    async def until_offered(each: str) -> None:
        async def are_offered() -> bool:
            return await offered() == [each, each]

        await eventually_so(are_offered)

    async def run(name: str, gpus: str) -> None:
        async def runs() -> bool:
            return await is_running(client, name)

        spec = {"containers": [{"name": "main", "image": "cuda", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}
        await client.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        await eventually_so(runs)

    async def is_all_gone() -> bool:
        return not await of_release(client)

    # No volume is mounted into a container: what the chart's init container would copy from the ConfigMap is a file of
    # the nodes.
    options = f"--plugin none --image {chart_image}=nvidia --files /config/config.yaml={sharing}"
    with joining(plane.kubeconfig, f"--name-prefix chart --nodes 2 --profile t4 --gpus 2 {options}"):
        helm("install", RELEASE, chart, "--create-namespace")
        # The chart chooses nodes by labels of node-feature-discovery, or by one that an administrator gives.
        await eventually_so(is_observed)
        assert (await daemon_set())["status"]["desiredNumberScheduled"] == 0
        await eventually_so(are_labelled)
        await eventually_so(are_ready)
        await until_offered("2")
        await run("whole", "2")

        helm("upgrade", RELEASE, chart, "--set-file", f"config.map.default={sharing}", *WAITING)
        await eventually_so(are_ready)
        await until_offered("8")
        await run("share", "7")
        assert await is_running(client, "whole")

        helm("uninstall", RELEASE, *WAITING)
        await eventually_so(is_all_gone)
        assert helm("list", "--all", "--short") == ""
        await until_offered("0")
        for name in ("whole", "share"):
            await client.call("DELETE", f"{PODS}/{name}")
