from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simkubelet.cluster.controllers.device_taint_eviction import DeviceTaintEviction
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.model.pod_status import ConditionType
from simkubelet.model.version import version

from ..conftest import Cluster, manifest

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
FOR_EVER = {"operator": "Exists", "effect": "NoExecute"}
FOR_A_WHILE = {**FOR_EVER, "tolerationSeconds": 30}


class World:
    """A cluster with a pod that uses a device."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.objects, self.clock = cluster, cluster.objects, cluster.clock

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def run(self, *tolerations: JSON, node: str | None = "node-1", is_reserved: bool = True) -> None:
        """A pod whose claim has the device, with these tolerations."""
        spec: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
        pod = self.cluster.store.create_pod(manifest("p", **spec))
        if node is not None:
            self.cluster.store.bind(pod.uid, node)
        result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0", "tolerations": [*tolerations]}
        user = {"resource": "pods", "name": "p", "uid": pod.uid if is_reserved else "another"}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}, "status": status}
        self.objects.create(Key(CLAIMS, "default", "c"), claim)
        await self.settle()

    async def publish(self, generation: int = 1, *effects: str) -> None:
        """The slice of the driver, whose device has a taint of each effect."""
        added = self.objects.wall_time.now()
        taints = [{"key": "xid", "value": "79", "effect": effect, "timeAdded": added} for effect in effects]
        pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "node-1", "pool": pool, "devices": [{"name": "gpu-0", "taints": taints}]}
        name = f"slice-{generation}"
        self.objects.create(Key(SLICES, "", name), {"metadata": {"name": name}, "spec": spec})
        await self.settle()

    @property
    def is_ending(self) -> bool:
        pod = self.cluster.store.pod_named("p")
        return pod is None or pod.is_deleting

    @property
    def told(self) -> list[str]:
        pod = self.cluster.store.pod_named("p")
        events = () if pod is None else self.cluster.store.events_of(pod.uid)
        return [event.message for event in events if event.reason == "DeviceTaintManagerEviction"]


@pytest.fixture
def release() -> str:
    return "1.36"


@pytest.fixture
async def world(cluster: Cluster, release: str) -> AsyncIterator[World]:
    task = asyncio.ensure_future(DeviceTaintEviction(cluster.store, cluster.clock, version(release)).run())
    yield World(cluster)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_pod_ends_when_its_device_gets_a_taint(world: World) -> None:
    await world.publish()
    await world.run()
    assert not world.is_ending

    await world.publish(2, "NoExecute")

    assert world.is_ending
    assert world.told == ["Marking for deletion"]
    pod = world.cluster.store.pod_named("p")
    assert pod is not None
    condition = pod.status.condition(ConditionType.DISRUPTION_TARGET)
    assert condition is not None
    assert condition.reason == "DeletionByDeviceTaintManager"


@pytest.mark.parametrize(("release", "ends"), [("1.37.1", False), ("1.37.2", True)])
async def test_claim_of_extended_resources_ends_its_pod_from_1_37_2_on(world: World, ends: bool) -> None:
    await world.publish(1, "NoExecute")
    pod = world.cluster.store.create_pod(manifest("p"))
    key = Key("pods", "default", "p")
    body = world.objects.get(key)
    assert body is not None
    claimed = {"resourceClaimName": "p-extended-resources-x", "requestMappings": []}
    status = {**body["status"], "extendedResourceClaimStatus": claimed}
    world.objects.replace(key, {**body, "status": status})
    world.cluster.store.bind(pod.uid, "node-1")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    metadata = {"name": "p-extended-resources-x", "namespace": "default", "ownerReferences": [owner]}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
    users = [{"resource": "pods", "name": "p", "uid": pod.uid}]
    allocated = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    claim = {"metadata": metadata, "spec": {}, "status": allocated}
    world.objects.create(Key(CLAIMS, "default", "p-extended-resources-x"), claim)
    await world.settle()

    assert world.is_ending is ends


async def test_pod_ends_when_it_comes_to_a_device_that_has_one(world: World) -> None:
    await world.publish(1, "NoExecute")

    await world.run()

    assert world.is_ending


@pytest.mark.parametrize(
    ("effects", "settings"),
    [
        pytest.param(["NoSchedule", "None"], {}, id="other effects"),
        pytest.param(["NoExecute"], {"node": None}, id="no node"),
        pytest.param(["NoExecute"], {"is_reserved": False}, id="not its claim"),
    ],
)
async def test_pod_stays(world: World, effects: list[str], settings: dict[str, Any]) -> None:
    await world.publish(1, *effects)

    await world.run(**settings)

    assert not world.is_ending
    assert world.told == []


async def test_tolerated_taint_counts_from_when_it_was_added(world: World) -> None:
    await world.publish(1, "NoExecute")
    await world.clock.advance(20)
    await world.run(FOR_A_WHILE)

    await world.clock.advance(9)
    assert not world.is_ending

    await world.clock.advance(1)
    await world.settle()
    assert world.is_ending


async def test_taint_that_goes_in_time_ends_no_pod(world: World) -> None:
    await world.publish(1, "NoExecute")
    await world.run(FOR_A_WHILE)

    await world.publish(2)
    await world.clock.advance(60)
    await world.settle()

    assert not world.is_ending
    assert world.told == ["Cancelling deletion"]


@pytest.mark.parametrize("release", ["1.35", "1.36"])
async def test_pod_stays_for_ever_where_it_tolerates_the_taint_or_nobody_looks(world: World, release: str) -> None:
    await world.publish(1, "NoExecute")
    await world.run(*([FOR_EVER] if release == "1.36" else []))

    await world.clock.advance(3600)
    await world.settle()

    assert not world.is_ending
