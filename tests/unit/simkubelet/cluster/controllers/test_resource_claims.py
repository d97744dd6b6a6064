from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.controllers.garbage_collector import GarbageCollector
from simkubelet.cluster.controllers.resource_claims import ResourceClaimController
from simkubelet.cluster.objects.objects import JSON
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import DEFAULT, version
from tests.support.patience import LIMIT_S

from ..conftest import Cluster, manifest

CLAIMS = kind_named("resourceclaims.resource.k8s.io")
TEMPLATES = kind_named("resourceclaimtemplates.resource.k8s.io")
PODS = kind_named("pods")
FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}
TEMPLATE = {"metadata": {"name": "t"}, "spec": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}
OF_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
OF_CLAIM = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}


class World:
    """A cluster whose claims are looked after."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.objects = cluster, cluster.objects
        self.registry = Registry(cluster.objects, all_strategies(cluster.objects))
        self.registry.create(kind_named("namespaces"), "", {"metadata": {"name": "default"}})

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    def pod(self, **spec: Any) -> JSON:
        self.cluster.store.create_pod(manifest("p", **spec))
        return dict(self.cluster.store.pods[0].manifest)

    def claim(self, *users: str) -> JSON:
        self.registry.create(CLAIMS, "default", {"metadata": {"name": "c", "finalizers": [FINALIZER]}, "spec": SPEC})
        device = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d"}
        status: JSON = {"allocation": {"devices": {"results": [device]}}}
        if users:
            status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": uid} for uid in users]
        return self.registry.update(CLAIMS, "default", "c", lambda old: {**old, "status": status}, subresource="status")

    @property
    def claims(self) -> list[JSON]:
        return self.objects.all_of(CLAIMS.key_kind)


@pytest.fixture
def release() -> str:
    return DEFAULT


@pytest.fixture
async def world(cluster: Cluster, release: str) -> AsyncIterator[World]:
    world = World(cluster)
    controllers = (
        ResourceClaimController(world.registry, cluster.clock, cluster.store.recorder, version(release)),
        GarbageCollector(world.registry),
    )
    tasks = [asyncio.ensure_future(one.run()) for one in controllers]
    yield world
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_claim_of_a_template_is_the_pods(world: World) -> None:
    world.registry.create(TEMPLATES, "default", TEMPLATE)
    pod = world.pod(**OF_TEMPLATE)

    await world.settle()

    (claim,) = world.claims
    metadata = claim["metadata"]
    assert metadata["generateName"] == "p-gpu-"
    assert (metadata["labels"], metadata["annotations"]) == (
        {"a": "b"},
        {"resource.kubernetes.io/pod-claim-name": "gpu"},
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]}
    assert metadata["ownerReferences"] == [{**owner, "controller": True, "blockOwnerDeletion": True}]
    status = world.cluster.store.pods[0].manifest["status"]
    assert status["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": metadata["name"]}]


async def test_claim_goes_with_its_pod(world: World) -> None:
    world.registry.create(TEMPLATES, "default", TEMPLATE)
    world.pod(**OF_TEMPLATE)
    await world.settle()

    world.cluster.store.remove_pod(world.cluster.store.pods[0].uid)
    await world.settle()

    assert world.claims == []


async def test_missing_template_is_an_event_until_it_is_there(world: World) -> None:
    world.pod(**OF_TEMPLATE)
    await world.settle()
    event = world.cluster.store.events_of(world.cluster.store.pods[0].uid)[-1]

    world.registry.create(TEMPLATES, "default", TEMPLATE)
    await world.cluster.clock.advance(1)
    await world.settle()

    why = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    assert (event.reason, event.message) == ("FailedResourceClaimCreation", f"PodResourceClaim gpu: {why}")
    assert len(world.claims) == 1


@pytest.mark.parametrize("release", ["1.33.6", DEFAULT])
async def test_claim_of_ended_user_is_free(world: World) -> None:
    world.claim("no such pod")

    await world.settle()

    (claim,) = world.claims
    assert claim["status"] == {}
    assert "finalizers" not in claim["metadata"]


@pytest.mark.parametrize(("release", "is_gone"), [("1.34", False), ("1.35", True)])
async def test_claim_of_extended_resources_goes_when_its_pod_has_ended(
    world: World, release: str, is_gone: bool
) -> None:
    pod = world.pod()
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"], "controller": True}
    world.claim(pod["metadata"]["uid"])
    world.registry.update(
        CLAIMS, "default", "c", lambda old: {**old, "metadata": {**old["metadata"], "ownerReferences": [owner]}}
    )
    noted = {"resourceClaimName": "c", "requestMappings": []}
    await world.settle()

    ended = {"phase": "Succeeded", "extendedResourceClaimStatus": noted}
    # Before, the API server drops this field of the status.
    registry = Registry(world.objects, all_strategies(world.objects, version("1.36")))
    registry.update(
        PODS, "default", "p", lambda old: {**old, "status": {**old["status"], **ended}}, subresource="status"
    )
    await world.settle()

    assert (world.claims == []) is is_gone


@pytest.mark.parametrize("release", ["1.32", "1.33.5"])
async def test_claim_that_changes_is_passed_over_up_to_1_33_5(world: World) -> None:
    written = world.claim("no such pod")

    await world.settle()

    assert world.claims == [written]


@pytest.mark.parametrize("release", ["1.33.5"])
async def test_end_of_its_pod_frees_a_claim_that_was_passed_over(world: World) -> None:
    pod = world.pod(**OF_CLAIM)
    world.claim(pod["metadata"]["uid"])

    world.cluster.store.remove_pod(world.cluster.store.pods[0].uid)
    await world.settle()

    assert world.claims[0]["status"] == {}


async def test_claim_is_kept_for_its_pod(world: World) -> None:
    pod = world.pod(**OF_CLAIM)
    world.claim(pod["metadata"]["uid"])

    await world.settle()

    assert world.claims[0]["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]


async def test_pod_that_came_with_its_node_gets_its_claim(world: World) -> None:
    world.claim()
    pod = world.pod(nodeName="node-1", **OF_CLAIM)

    await world.settle()

    user = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    assert world.claims[0]["status"]["reservedFor"] == [user]


async def test_deleted_claim_waits_for_its_pod(world: World) -> None:
    pod = world.pod(**OF_CLAIM)
    world.claim(pod["metadata"]["uid"])
    world.registry.delete(CLAIMS, "default", "c")
    await world.settle()
    waiting = world.claims

    world.cluster.store.remove_pod(world.cluster.store.pods[0].uid)
    await world.settle()

    assert len(waiting) == 1
    assert world.claims == []


async def test_claim_that_nobody_protects_does_not_keep_the_cluster_from_going_on(world: World) -> None:
    pod = world.pod(**OF_CLAIM, nodeName="n")
    world.claim(pod["metadata"]["uid"])
    world.registry.update(
        CLAIMS, "default", "c", lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}}
    )
    world.registry.update(
        PODS, "default", "p", lambda old: {**old, "status": {"phase": "Succeeded"}}, subresource="status"
    )

    await asyncio.wait_for(world.settle(), LIMIT_S)

    # The real controllers reserve it for the ended pod, and take that back, in turn.
    assert world.claims[0]["status"]["allocation"]
