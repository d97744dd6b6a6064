"""A cluster of a minor in which claims have to be turned on: a pod with a claim, from the scheduler to its driver."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from simkubelet.remote import ApiClient, ApiError, read_kubeconfig
from tests.support.joined_nodes import PODS, eventually_so, is_running
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import eventually

DRIVER = Path(__file__).parents[2] / "scenarios" / "catalog" / "dra" / "driver.py"
GROUP = "/apis/resource.k8s.io/v1beta1"
ON = "--runtime-config resource.k8s.io/v1beta1=true --feature-gates DynamicResourceAllocation=true"
OBJECTS: dict[str, dict[str, Any]] = {
    f"{GROUP}/deviceclasses": {
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.example.com"},
        "spec": {},
    },
    f"{GROUP}/resourceslices": {
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpus"},
        "spec": {
            "driver": "dra.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "device-0", "basic": {}}],
        },
    },
    f"{GROUP}/namespaces/default/resourceclaimtemplates": {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.example.com"}]}}},
    },
}
POD = {
    "metadata": {"name": "train"},
    "spec": {
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
        "containers": [{"name": "main", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}],
    },
}


def await_driver(cluster: LiveCluster) -> None:
    """Wait until the driver is registered: a pod that finds none is tried again after more than a minute."""
    log = next(cluster.scratch.glob("simkubelet/*/node-1/logs/plugins"), Path()) / "driver.log"
    eventually(lambda: log.is_file() and "registered" in log.read_text())


@pytest.mark.parametrize("minor", ["1.32", "1.33"])
async def test_pod_runs_with_a_claim_where_gate_and_group_are_on(minor: str) -> None:
    driver = shlex.quote(f"driver={sys.executable} {DRIVER}")
    with live_cluster(f"--kubelet-version {minor} {ON} --plugin {driver}") as cluster:
        async with ApiClient(read_kubeconfig(cluster.kubeconfig)) as client:
            for path, body in OBJECTS.items():
                await client.call("POST", path, {"apiVersion": "resource.k8s.io/v1beta1", **body})
            await asyncio.to_thread(await_driver, cluster)
            await client.call("POST", PODS, POD)

            async def is_running() -> bool:
                pod = await client.get(f"{PODS}/train")
                return bool(pod["status"]["phase"] == "Running")

            await eventually_so(is_running)
            (claim,) = (await client.get(f"{GROUP}/namespaces/default/resourceclaims"))["items"]
            assert [one["name"] for one in claim["status"]["reservedFor"]] == ["train"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert (result["driver"], result["device"]) == ("dra.example.com", "device-0")


async def test_pod_has_no_claims_where_the_gate_is_off() -> None:
    with live_cluster("--kubelet-version 1.33") as cluster:
        async with ApiClient(read_kubeconfig(cluster.kubeconfig)) as client:
            created = await client.call("POST", PODS, POD)

    assert "resourceClaims" not in created["spec"]
    assert created["spec"]["containers"][0]["resources"] == {}


V1 = "/apis/resource.k8s.io/v1"
NUMBERS = str(list(range(40)))
LOOPS = f"{NUMBERS}.all(x, {NUMBERS}.all(y, {NUMBERS}.all(z, INNER)))"
REFUSED = {
    "loops": LOOPS.replace("INNER", "x + y + z + x + y + z + x + y + z >= 0"),
    "strings": "'a'" + ".replace('a', 'aa')" * 27 + ".size() > 0",
}
# What looks into a value without a type costs nothing by the estimate, and one for each step when it is done.
NESTED = "{'a': " * 20 + "1" + "}" * 20
DEEP = f"cel.bind(d, dyn({NESTED}), {LOOPS})".replace("INNER", "d" + ".a" * 20 + " == 1")


async def test_selectors_that_cost_too_much_end_nothing() -> None:
    def claim(name: str, expression: str) -> dict[str, Any]:
        exactly = {"deviceClassName": "gpu.example.com", "selectors": [{"cel": {"expression": expression}}]}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}

    def pod(name: str) -> dict[str, Any]:
        spec = {**POD["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        return {"metadata": {"name": name}, "spec": spec}

    driver = shlex.quote(f"driver={sys.executable} {DRIVER}")
    with live_cluster(f"--kubelet-version 1.34 --plugin {driver}") as cluster:
        async with ApiClient(read_kubeconfig(cluster.kubeconfig)) as client:
            for path, body in OBJECTS.items():
                if "templates" not in path:
                    await client.call("POST", path.replace(GROUP, V1), in_v1(body))
            await asyncio.to_thread(await_driver, cluster)
            claims = f"{V1}/namespaces/default/resourceclaims"
            for name, expression in REFUSED.items():
                with pytest.raises(ApiError, match="Forbidden: too complex, exceeds cost limit"):
                    await client.call("POST", claims, claim(name, expression))
            for name, expression in {"deep": DEEP, "fine": "device.driver == 'dra.example.com'"}.items():
                await client.call("POST", claims, claim(name, expression))
                await client.call("POST", PODS, pod(name))

            async def is_told() -> bool:
                query = {"fieldSelector": "involvedObject.name=deep,reason=FailedScheduling"}
                events = (await client.get("/api/v1/namespaces/default/events", query))["items"]
                text = "deep: selector #0: CEL runtime error: operation cancelled: actual cost limit exceeded"
                return any(text in event["message"] for event in events)

            await eventually_so(is_told)
            await eventually_so(lambda: is_running(client, "fine"))
            assert cluster.process.poll() is None


def in_v1(body: dict[str, Any]) -> dict[str, Any]:
    """An object of ``v1beta1`` in ``v1``: devices have no ``basic``."""
    spec = {**body["spec"]}
    if "devices" in spec:
        spec["devices"] = [{"name": device["name"], **device["basic"]} for device in spec["devices"]]
    return {**body, "apiVersion": "resource.k8s.io/v1", "spec": spec}
