"""Fed in: writes to pods, claims and templates; observed: what the controller of claims makes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simkubelet.cluster import all_strategies
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import DeleteOptions, Registry
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.controllers.resource_claims import ResourceClaimController
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.cluster.store import Store
from simkubelet.model.clock import ManualClock
from simkubelet.model.events import EventRecorded, NodeEvent
from tests.support.device_claims import claim_for, request

PODS = kind_named("pods")
CLAIMS = kind_named("resourceclaims.resource.k8s.io")
TEMPLATES = kind_named("resourceclaimtemplates.resource.k8s.io")
FINALIZER = "resource.kubernetes.io/delete-protection"
FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "template"}
SPEC = claim_for(request())["spec"]


class Claims:
    """A cluster with the controller; `warnings` are the messages of its Events."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.objects = Objects(WallTime(ManualClock()))
        self.store = Store(self.objects, self._hear)
        self.registry = Registry(self.objects, all_strategies(self.objects))
        NamespaceController(self.registry).ensure_namespaces()
        self.controller = ResourceClaimController(self.registry, self.store)

    def template(self, **metadata: Any) -> None:
        spec = {"metadata": metadata, "spec": SPEC}
        self.registry.create(TEMPLATES, "default", {"metadata": {"name": "template"}, "spec": spec})

    def pod(self, entry: JSON, **spec: Any) -> JSON:
        containers = [{"name": "c", "image": "none"}]
        body = {"metadata": {"name": "pod"}, "spec": {"containers": containers, "resourceClaims": [entry], **spec}}
        return self.registry.create(PODS, "default", body)

    def claims(self) -> list[JSON]:
        return self.objects.all_of(CLAIMS.key_kind)

    def allocated(self, *consumers: JSON, **metadata: Any) -> None:
        """A claim `claim` as the scheduler leaves it, for these pods."""
        reserved = [{"resource": "pods", **consumer} for consumer in consumers]
        status = {"allocation": {"devices": {"results": []}}, "reservedFor": reserved}
        body = {"metadata": {"name": "claim", "finalizers": [FINALIZER], **metadata}, "spec": SPEC, "status": status}
        self.objects.create(CLAIMS.key("default", "claim"), body)

    def _hear(self, event: NodeEvent) -> None:
        if isinstance(event, EventRecorded):
            self.warnings.append(event.message)


@pytest.fixture
async def cluster() -> AsyncIterator[Claims]:
    claims = Claims()
    running = asyncio.create_task(claims.controller.run())
    yield claims
    running.cancel()


async def settle() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_claim_is_made_from_its_template(cluster: Claims) -> None:
    cluster.template(labels={"a": "b"}, annotations={"c": "d"})

    pod = cluster.pod(FROM_TEMPLATE)
    await settle()

    (claim,) = cluster.claims()
    metadata = claim["metadata"]
    assert metadata["name"].startswith("pod-gpu-")
    assert metadata["labels"] == {"a": "b"}
    assert metadata["annotations"] == {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (pod["metadata"]["uid"], True, True)
    named = cluster.registry.get(PODS, "default", "pod")["status"]["resourceClaimStatuses"]
    assert named == [{"name": "gpu", "resourceClaimName": metadata["name"]}]


async def test_missing_template_is_reported_and_awaited(cluster: Claims) -> None:
    cluster.pod(FROM_TEMPLATE)
    await settle()

    missing = 'resourceclaimtemplate.resource.k8s.io "template" not found'
    assert cluster.warnings == [f'PodResourceClaim gpu: resource claim template "template": {missing}']

    cluster.template()
    await settle()
    assert len(cluster.claims()) == 1


async def test_ended_pod_frees_its_claim(cluster: Claims) -> None:
    pod = cluster.pod({"name": "gpu", "resourceClaimName": "claim"})
    cluster.allocated({"name": "pod", "uid": pod["metadata"]["uid"]}, {"name": "gone", "uid": "other"})
    await settle()
    assert [one["name"] for one in cluster.claims()[0]["status"]["reservedFor"]] == ["pod"]

    pod = cluster.registry.get(PODS, "default", "pod")
    cluster.objects.replace(PODS.key("default", "pod"), {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
    await settle()

    (claim,) = cluster.claims()
    assert "finalizers" not in claim["metadata"]
    assert claim["status"] == {}


async def test_deleted_claim_stays_while_a_pod_uses_it(cluster: Claims) -> None:
    pod = cluster.pod({"name": "gpu", "resourceClaimName": "claim"})
    cluster.allocated({"name": "pod", "uid": pod["metadata"]["uid"]})
    cluster.registry.delete(CLAIMS, "default", "claim")
    await settle()
    assert len(cluster.claims()) == 1

    cluster.registry.delete(PODS, "default", "pod", DeleteOptions(grace_s=0))
    await settle()

    assert cluster.claims() == []


async def test_claim_of_ended_pod_is_deleted(cluster: Claims) -> None:
    cluster.template()
    cluster.pod(FROM_TEMPLATE)
    await settle()

    pod = cluster.registry.get(PODS, "default", "pod")
    cluster.objects.replace(PODS.key("default", "pod"), {**pod, "status": {**pod["status"], "phase": "Failed"}})
    await settle()

    assert cluster.claims() == []


async def test_allocated_claim_is_reserved_for_pod_with_node(cluster: Claims) -> None:
    cluster.allocated()

    pod = cluster.pod({"name": "gpu", "resourceClaimName": "claim"}, nodeName="node-1")
    await settle()

    consumer = {"resource": "pods", "name": "pod", "uid": pod["metadata"]["uid"]}
    assert cluster.claims()[0]["status"]["reservedFor"] == [consumer]
