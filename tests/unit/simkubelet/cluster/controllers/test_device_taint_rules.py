"""DeviceTaintRules end pods, and their status says how far that is; the texts are those of 1.37.2's controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simkubelet.cluster.controllers.device_taint_eviction import DeviceTaintEviction
from simkubelet.cluster.objects.device_taint_rules import TAINT_RULES
from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.model.version import version

from ..conftest import Cluster, manifest

CLAIMS, SLICES = "resourceclaims.resource.k8s.io", "resourceslices.resource.k8s.io"
WOULD_BE = (
    "{} would be evicted in {} if the effect was NoExecute. This information will not be updated again. "
    "Recreate the DeviceTaintRule to trigger an update."
)


class World:
    """A cluster with a driver that publishes two devices, and pods that use the first of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.objects, self.clock = cluster, cluster.objects, cluster.clock
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "node-1", "pool": pool, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
        self.objects.create(Key(SLICES, "", "slice"), {"metadata": {"name": "slice"}, "spec": spec})

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def run(self, *names: str, tolerations: tuple[JSON, ...] = ()) -> None:
        """Pods that share a claim."""
        users = []
        for name in names:
            spec: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
            pod = self.cluster.store.create_pod(manifest(name, **spec))
            self.cluster.store.bind(pod.uid, "node-1")
            users.append({"resource": "pods", "name": name, "uid": pod.uid})
        result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0", "tolerations": [*tolerations]}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
        claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}, "status": status}
        self.objects.create(Key(CLAIMS, "default", "c"), claim)
        await self.settle()

    async def write(self, effect: str, generation: int = 1, **selector: str) -> None:
        """The rule, with this effect."""
        taint = {"key": "broken", "effect": effect, "timeAdded": self.objects.wall_time.now()}
        spec = {"deviceSelector": selector or {"driver": "d"}, "taint": taint}
        key = Key(TAINT_RULES, "", "rule")
        known = self.objects.get(key)
        if known is None:
            self.objects.create(key, {"metadata": {"name": "rule", "generation": generation}, "spec": spec})
        else:
            metadata = {**known["metadata"], "generation": generation}
            self.objects.replace(key, {**known, "metadata": metadata, "spec": spec})
        await self.settle()

    @property
    def condition(self) -> tuple[str, str, str, int]:
        rule = self.objects.get(Key(TAINT_RULES, "", "rule"))
        assert rule is not None
        (one,) = rule["status"]["conditions"]
        return one["status"], one["reason"], one["message"], one["observedGeneration"]

    def is_ending(self, name: str = "p") -> bool:
        pod = self.cluster.store.pod_named(name)
        return pod is None or pod.is_deleting


@pytest.fixture
async def world(cluster: Cluster) -> AsyncIterator[World]:
    task = asyncio.ensure_future(DeviceTaintEviction(cluster.store, cluster.clock, version("1.37")).run())
    yield World(cluster)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("selector", "is_ending"),
    [
        pytest.param({"driver": "d"}, True, id="driver"),
        pytest.param({"pool": "p", "device": "gpu-0"}, True, id="device"),
        pytest.param({"device": "gpu-1"}, False, id="another device"),
    ],
)
async def test_rule_ends_the_pods_of_its_devices(world: World, selector: dict[str, str], is_ending: bool) -> None:
    await world.run("p")

    await world.write("NoExecute", **selector)

    assert world.is_ending() is is_ending


async def test_claim_may_tolerate_a_rule(world: World) -> None:
    await world.run("p", tolerations=({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},))
    await world.write("NoExecute")
    await world.clock.advance(20)
    assert not world.is_ending()

    world.objects.remove(Key(TAINT_RULES, "", "rule"))
    await world.settle()
    await world.clock.advance(60)

    assert not world.is_ending()


async def test_status_follows_the_eviction(world: World) -> None:
    await world.run("p", "q")
    await world.write("NoExecute")
    assert world.condition == ("True", "PodsPendingEviction", "2 pods need to be evicted in 1 namespace.", 1)
    await world.settle()
    assert world.is_ending("p")
    assert world.is_ending("q")

    await world.clock.advance(9)
    assert world.condition[0] == "True"
    await world.clock.advance(2)
    await world.settle()

    assert world.condition == ("False", "Completed", "2 pods evicted since starting the controller.", 1)


async def test_changed_rule_has_a_new_status_at_once(world: World) -> None:
    await world.write("NoExecute")
    assert world.condition == ("False", "NotStarted", "", 1)

    await world.write("NoSchedule", 2)

    assert world.condition == ("False", "OtherEffect", "Eviction only happens for the NoExecute effect.", 2)


async def test_effect_none_says_what_would_be(world: World) -> None:
    await world.run("p")

    await world.write("None")

    text = "2 published devices selected. 1 allocated device selected. " + WOULD_BE.format("1 pod", "1 namespace")
    assert world.condition == ("False", "NoEffect", text, 1)
    assert not world.is_ending()


async def test_effect_none_counts_no_pods_that_tolerate_it(world: World) -> None:
    await world.run("p", tolerations=({"operator": "Exists", "effect": "NoExecute"},))

    await world.write("None", device="gpu-0")

    selected = "1 published device selected. 1 allocated device selected. "
    assert world.condition[2] == selected + WOULD_BE.format("0 pods", "0 different namespaces")
