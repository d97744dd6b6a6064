"""The real scheduler makes the claims for extended resources that the simulated one makes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import pytest

from simkubelet.cluster.scheduler.cluster_state import PodInfo
from simkubelet.cluster.scheduler.dynamic_resources.extended_claims import claim_for
from simkubelet.model.pod import pod_from_manifest
from simkubelet.model.resources import ResourceName
from simkubelet.remote import ApiClient
from tests.support.joined_nodes import PODS, eventually_so, joining
from tools.control_plane import ControlPlane

DEVICES = "/apis/resource.k8s.io/v1"
CLASSES = {
    "example.com/gpu": "gpu",
    "example.com/nic": "nic",
    "deviceclass.resource.kubernetes.io/gpu": "gpu",
}
SEED = 20261128
POD_COUNT = 40
NODE = "extended-1"


def random_pod(randomly: random.Random, number: int) -> dict[str, Any]:
    """A pod whose containers, of all kinds, ask for some of the resources."""

    def container(name: str, **more: Any) -> dict[str, Any]:
        resources = randomly.sample([*CLASSES, "memory", "zero.example.com/none"], randomly.randint(0, 4))
        sizes = {"memory": "1Mi", "zero.example.com/none": "0"}
        limits = {one: sizes.get(one) or str(randomly.randint(0, 3)) for one in resources}
        return {"name": name, "image": "none", "resources": {"limits": limits}, **more}

    first = [
        container(f"i{index}", **({"restartPolicy": "Always"} if randomly.random() < 0.4 else {}))
        for index in range(randomly.randint(0, 3))
    ]
    apps = [container(f"a{index}") for index in range(randomly.randint(1, 2))]
    apps[0]["resources"]["limits"]["example.com/gpu"] = "1"
    spec = {"nodeSelector": {"kubernetes.io/hostname": NODE}, "initContainers": first, "containers": apps}
    return {"metadata": {"name": f"extended-{number}"}, "spec": spec}


async def create_devices(client: ApiClient) -> None:
    """Classes that stand for resources, and devices for all pods."""
    for name, resource in (("gpu", "example.com/gpu"), ("nic", "example.com/nic")):
        expression = f'device.driver == "{name}.example.com"'
        spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": resource}
        await client.call("POST", f"{DEVICES}/deviceclasses", {"metadata": {"name": name}, "spec": spec})
        for part in range(8):
            spec = {
                "driver": f"{name}.example.com",
                "nodeName": NODE,
                "pool": {"name": f"pool-{part}", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"d{index}"} for index in range(128)],
            }
            slice_ = {"metadata": {"name": f"{name}-{part}"}, "spec": spec}
            await client.call("POST", f"{DEVICES}/resourceslices", slice_)


def served(pod: dict[str, Any]) -> Iterable[str]:
    """The resources that a pod asks for, of those with a class."""
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    limits = [one["resources"].get("limits") or {} for one in containers]
    return {name for one in limits for name, amount in one.items() if name in CLASSES and amount != "0"}


async def test_claims_are_those_of_the_real_scheduler(plane: ControlPlane, client: ApiClient) -> None:
    version = await client.get("/version")
    if int(version["minor"]) < 36:
        pytest.skip("extended resources are served by claims from 1.36 on: nox -s join -- --kubernetes 1.37")
    randomly = random.Random(SEED)  # noqa: S311 - repeats, guards nothing
    pods = [random_pod(randomly, number) for number in range(POD_COUNT)]
    with joining(plane.kubeconfig, f"--name-prefix extended --kubelet-version 1.{version['minor']}"):
        await create_devices(client)
        for pod in pods:
            await client.call("POST", PODS, pod)

        async def all_bound() -> bool:
            return all(pod["spec"].get("nodeName") for pod in (await client.get(PODS))["items"])

        await eventually_so(all_bound)
        for pod in (await client.get(PODS))["items"]:
            status = pod["status"]["extendedResourceClaimStatus"]
            claim = await client.get(f"{DEVICES}/namespaces/default/resourceclaims/{status['resourceClaimName']}")
            classes = {ResourceName(name): CLASSES[name] for name in served(pod)}

            ours, mappings = claim_for(PodInfo(pod_from_manifest(pod)), classes)

            assert ours["spec"]["devices"]["requests"] == claim["spec"]["devices"]["requests"]
            assert mappings == status["requestMappings"]
            assert claim["metadata"]["annotations"] == ours["metadata"]["annotations"]
        await asyncio.gather(*(client.call("DELETE", f"{PODS}/{pod['metadata']['name']}") for pod in pods))
        await eventually_so(lambda: no_claims(client))


async def no_claims(client: ApiClient) -> bool:
    return not (await client.get(f"{DEVICES}/resourceclaims"))["items"]
