"""A scheduler that crashes, and is started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simkubelet.cluster.objects.objects import Key
from simkubelet.cluster.scheduler.scheduler import Scheduler
from simkubelet.model.version import version
from tests.support.device_claims import CLASS, claim_for, device, request, slice_of

from ..conftest import Cluster, manifest

USES_CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}


class CrashingCluster(Cluster):
    """A cluster of one node, whose scheduler crashes with each pod of `USES_CLAIM`."""

    def begin(self) -> None:
        counters = slice_of([], "counters", count=2)
        del counters["spec"]["devices"]
        counters["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"units": {"value": "1"}}}]
        whole = {**device("gpu"), "consumesCounters": [{"counterSet": "gpu", "counters": {"units": {"value": "1"}}}]}
        for kind, body in (
            ("nodes", {"metadata": {"name": "node-1"}, "spec": {}, "status": {"allocatable": {"pods": "9"}}}),
            ("deviceclasses.resource.k8s.io", CLASS),
            ("resourceslices.resource.k8s.io", counters),
            ("resourceslices.resource.k8s.io", slice_of([whole], "devices", count=2)),
            ("resourceclaims.resource.k8s.io", claim_for(request(allocationMode="All"))),
        ):
            metadata = body["metadata"]
            self.objects.create(Key(kind, metadata.get("namespace", ""), metadata["name"]), body)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def pod(self, name: str, **spec: Any) -> None:
        self.store.create_pod(manifest(name, **spec))

    def node_of(self, name: str) -> str | None:
        return next(pod.node_name for pod in self.store.pods if pod.name == name)

    @property
    def crashes(self) -> int:
        """How often the scheduler has crashed with the pod `crashes`."""
        uid = next(pod.uid for pod in self.store.pods if pod.name == "crashes")
        return sum(event.count for event in self.store.events_of(uid) if event.reason == "SchedulerCrashed")


@pytest.fixture
async def cluster() -> AsyncIterator[CrashingCluster]:
    cluster = CrashingCluster()
    cluster.begin()
    task = asyncio.ensure_future(Scheduler(cluster.store, cluster.clock, version("1.36.1")).run())
    await cluster.settle()
    cluster.pod("crashes", **USES_CLAIM)
    await cluster.settle()
    yield cluster
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_it_crashes_again_after_pauses_that_grow(cluster: CrashingCluster) -> None:
    crashes = [cluster.crashes]
    for away_s in (15, 25, 35, 55, 95, 175, 315, 315):
        await cluster.clock.advance(away_s - 1)
        await cluster.settle()
        crashes.append(cluster.crashes)
        await cluster.clock.advance(1)
        await cluster.settle()

    assert crashes == [1, 1, 2, 3, 4, 5, 6, 7, 8]


async def test_pods_that_come_first_are_scheduled_when_it_is_back(cluster: CrashingCluster) -> None:
    cluster.pod("before")
    cluster.pod("later")
    await cluster.settle()
    assert cluster.node_of("before") is None

    await cluster.clock.advance(15)
    await cluster.settle()

    assert (cluster.node_of("before"), cluster.node_of("later")) == ("node-1", None)


async def test_it_goes_on_without_the_pod(cluster: CrashingCluster) -> None:
    cluster.pod("later")
    cluster.store.remove_pod(next(pod.uid for pod in cluster.store.pods if pod.name == "crashes"))

    await cluster.clock.advance(15)
    await cluster.settle()

    assert cluster.node_of("later") == "node-1"


async def test_pause_is_short_again_after_a_long_time_without_a_crash(cluster: CrashingCluster) -> None:
    await cluster.clock.advance(15)
    await cluster.settle()
    cluster.store.remove_pod(next(pod.uid for pod in cluster.store.pods if pod.name == "crashes"))
    await cluster.clock.advance(700)
    await cluster.settle()

    cluster.pod("crashes", **USES_CLAIM)
    cluster.pod("before")
    await cluster.settle()
    await cluster.clock.advance(15)
    await cluster.settle()

    assert cluster.node_of("before") == "node-1"
