"""The real scheduler says of a pod whose device fails before it is bound what the simulated one says."""

from __future__ import annotations

from itertools import dropwhile
from typing import Any

import pytest

from simkubelet.remote import ApiClient
from tests.support.device_claims import DRIVER, claim_for, device, request, slice_of
from tests.support.joined_nodes import PODS, eventually_so, joining
from tests.support.scheduled_cluster import CLAIMS, SLICES, USES_CLAIM, DeviceCluster
from tools.control_plane import ControlPlane

GROUP = "/apis/resource.k8s.io/v1"
CREATED = f"{GROUP}/namespaces/default/resourceclaims"
CLAIM = f"{CREATED}/claim"
FAILED = "example.com/failed"
WAITS = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": [FAILED], "bindsToNode": True}
TAINT = {"key": FAILED, "effect": "NoSchedule"}
CONDITION = {"type": FAILED, "status": "True", "reason": "Broken", "message": 'it is "broken"'}
REPORT = {"driver": DRIVER, "pool": "shared", "device": "gpu-0"}
POD = {"metadata": {"name": "pod"}, "spec": {**USES_CLAIM, "containers": [{"name": "c", "image": "none"}]}}


def devices(**parts: Any) -> dict[str, Any]:
    return slice_of([{**device("gpu-0"), **WAITS, **parts}], node=None, allNodes=True)


def said_by_ours(release: str) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Reason and message of each Event about the pod, and the claim's allocation while it waits."""
    cluster = DeviceCluster(release, devices=0)
    cluster.write(SLICES, devices())
    cluster.write(CLAIMS, claim_for(request()))
    cluster.claim_pod("pod")
    cluster.try_all()
    claim = cluster.claim()
    cluster.write(SLICES, devices(taints=[TAINT]))
    cluster.write(CLAIMS, {**claim, "status": {**claim["status"], "devices": [{**REPORT, "conditions": [CONDITION]}]}})
    for _ in range(5):
        cluster.advance(5)
    return [(reason, message) for _, reason, message in cluster.events], undated(claim["status"]["allocation"])


def undated(allocation: dict[str, Any]) -> dict[str, Any]:
    assert allocation["allocationTimestamp"]
    return {name: part for name, part in allocation.items() if name != "allocationTimestamp"}


async def said_by_the_real_one(client: ApiClient) -> list[tuple[str, str]]:
    """The same Events, without those from before the scheduler knew the node as ready."""
    found = sorted(
        (one["eventTime"], one["reason"], one["message"])
        for one in (await client.get("/api/v1/namespaces/default/events"))["items"]
        if one["involvedObject"]["name"] == "pod"
    )
    return [(reason, message) for _, reason, message in dropwhile(lambda one: one[1] == "FailedScheduling", found)]


async def test_failed_device_is_told_in_the_same_words(plane: ControlPlane, client: ApiClient) -> None:
    release = await client.get("/version")
    if int(release["minor"]) < 36:
        pytest.skip("devices have binding conditions from 1.36 on: nox -s join -- --kubernetes 1.37")
    events, allocation = said_by_ours(release["gitVersion"].removeprefix("v"))
    with joining(plane.kubeconfig, f"--name-prefix node --kubelet-version 1.{release['minor']}"):
        await client.call("POST", f"{GROUP}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        await client.call("POST", f"{GROUP}/resourceslices", devices())
        wanted = claim_for(request())
        await client.call("POST", CREATED, {**wanted, "metadata": {"name": "claim"}})
        await client.call("POST", PODS, POD)

        async def waits() -> bool:
            return [reason for reason, _ in await said_by_the_real_one(client)] == ["BindingConditionsPending"]

        await eventually_so(waits)
        assert (await client.get(f"{PODS}/pod"))["status"]["nominatedNodeName"] == "node-1"
        assert undated((await client.get(CLAIM))["status"]["allocation"]) == allocation

        tainted = devices(taints=[TAINT])
        await client.patch(f"{GROUP}/resourceslices/slice", {"spec": {"devices": tainted["spec"]["devices"]}})
        condition = {**CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await client.patch(f"{CLAIM}/status", {"status": {"devices": [{**REPORT, "conditions": [condition]}]}})

        # The real one may miss that its own deallocation makes the pod schedulable, and then tries it minutes later.
        given_back = events[:3]

        async def is_given_back() -> bool:
            return given_back[-1] in await said_by_the_real_one(client)

        await eventually_so(is_given_back)
        assert (await said_by_the_real_one(client))[:3] == given_back
        assert "nominatedNodeName" not in (await client.get(f"{PODS}/pod"))["status"]
        assert (await client.get(CLAIM))["status"] == {}
        for path in (f"{PODS}/pod", CLAIM, f"{GROUP}/resourceslices/slice", f"{GROUP}/deviceclasses/gpu"):
            await client.call("DELETE", path)
