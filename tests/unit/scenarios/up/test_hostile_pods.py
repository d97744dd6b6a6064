"""Fed in: pods that somebody sends to a live cluster to end it; observed: answers, and that others are served."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from scenarios.up.cluster import ClusterSpec, LiveCluster
from scenarios.up.options import NodeOptions
from simkubelet.runtime.container_records import ContainerRecords
from tests.support.patience import until

_NUMBERS = ("1e999", "NaN", "-Infinity", "1.5", "-1", str(2**63), "9" * 30, "9" * 100_000)
_QUANTITIES = ("1e1000000000", "1e-1000000000", "-1e1000000000", "9" * 100_000, "1e9223372036854775808", "1Ei", "\0")
_PLACE = "@@"


def pod(spec: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "p-", **(metadata or {})},
        "spec": {"containers": [{"name": "c", "image": "none", **container}], **(spec or {})},
    }


def doubled(count: int) -> list[dict[str, str]]:
    return [{"name": "E0", "value": "x"}, *({"name": f"E{i}", "value": f"$(E{i - 1})" * 2} for i in range(1, count))]


def numbers() -> list[bytes]:
    """Pods with each number in each place for one, as no library writes it."""
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PLACE}
    places = [
        pod({"terminationGracePeriodSeconds": _PLACE}),
        pod({"activeDeadlineSeconds": _PLACE}),
        pod({"priority": _PLACE}),
        pod({"tolerations": [toleration]}),
        pod({"unknown": _PLACE}),
        pod(ports=[{"containerPort": _PLACE}]),
        pod(resources={"requests": {"cpu": _PLACE}}),
    ]
    texts = (json.dumps(place) for place in places)
    return [text.replace(f'"{_PLACE}"', number).encode() for text in texts for number in _NUMBERS]


def quantities() -> list[bytes]:
    resources = ("cpu", "memory", "example.com/device")
    bodies = (
        pod(resources={"requests": {resource: quantity}, "limits": {resource: quantity}})
        for resource in resources
        for quantity in _QUANTITIES
    )
    return [json.dumps(body).encode() for body in bodies]


def texts() -> list[bytes]:
    """Characters that are in no name, and some that no UTF-8 has."""
    bodies = [
        body
        for text in ("\0", "\ud800", "\udfff\ud800", "x" * 300_000)
        for body in (
            pod(metadata={"name": text}),
            pod(metadata={"labels": {"k": text}}),
            pod(metadata={"annotations": {"k": text}}),
            pod(metadata={"annotations": {text: "v"}}),
            pod(env=[{"name": "V", "value": text}], args=[text], image=text),
            pod({text: 1}),
        )
    ]
    return [json.dumps(body).encode() for body in bodies] + [b'{"metadata": {"name": "\xff"}}', b"[]", b"null", b""]


def amounts() -> list[bytes]:
    """Pods with very much of one thing."""
    many = range(3000)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    bodies = [
        pod({"containers": [{"name": f"c{i}", "image": "none"} for i in many]}),
        pod({"tolerations": [{"key": f"k{i}", "operator": "Exists"} for i in many]}),
        pod({"resourceClaims": [{"name": f"r{i}", "resourceClaimName": f"c{i}"} for i in many]}),
        pod({"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in many]}),
        pod(metadata={"labels": {f"k{i}": "v" for i in many}}),
        pod(metadata={"ownerReferences": [{**owner, "uid": f"u{i}"} for i in many]}),
        pod(env=[{"name": f"V{i}", "value": "x"} for i in many]),
        pod(env=doubled(40), args=["$(E39)"]),
    ]
    return [json.dumps(body).encode() for body in bodies]


@pytest.fixture
async def cluster() -> AsyncIterator[LiveCluster]:
    given = NodeOptions(1, None, False, None, None, None, (), (), (), "book-keeping", ())
    spec = ClusterSpec("c", given.specs(("node-1",), "1.34"), is_plain=True)
    with tempfile.TemporaryDirectory(prefix="up-") as folder:
        async with LiveCluster(spec, Path(folder)) as cluster:
            yield cluster


async def send(cluster: LiveCluster, *bodies: bytes) -> list[int]:
    headers = {"Content-Type": "application/json"}
    statuses = []
    async with ClientSession(cluster.api.url, headers=headers) as session:
        for body in bodies:
            async with session.post("/api/v1/namespaces/default/pods", data=body) as response:
                statuses.append(response.status)
    return statuses


async def runs(cluster: LiveCluster, name: str) -> bool:
    """Whether another pod runs."""
    assert await send(cluster, json.dumps(pod(metadata={"name": name})).encode()) == [201]
    objects = cluster.api.registry.objects

    def phases() -> set[str]:
        return {one["status"]["phase"] for one in objects.all_of("pods") if one["metadata"]["name"] == name}

    await until(lambda: phases() == {"Running"})
    return True


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [numbers, quantities, texts, amounts])
async def test_pods_are_taken_or_refused_and_others_run(
    cluster: LiveCluster, bodies: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    statuses = await send(cluster, *bodies())

    assert set(statuses) <= {201, 400, 403, 413, 422}
    assert await runs(cluster, "another")
    # Nothing but the kernel's own limit was met.
    assert capfd.readouterr().err == ""


async def test_pod_whose_start_fails_in_an_unknown_way_has_an_event_and_others_run(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    start = ContainerRecords.start

    async def broken(self: ContainerRecords, of: Any, *rest: Any) -> None:
        if of.name == "broken":
            raise RecursionError("maximum recursion depth exceeded")
        await start(self, of, *rest)

    monkeypatch.setattr(ContainerRecords, "start", broken)
    await send(cluster, json.dumps(pod(metadata={"name": "broken"})).encode())
    objects = cluster.api.registry.objects
    await until(lambda: any(one["reason"] == "FailedSync" for one in objects.all_of("events")))

    assert await runs(cluster, "another")
    text = "RecursionError: maximum recursion depth exceeded"
    assert capfd.readouterr().err.startswith(f"warning: sync of a pod: broken: {text}\n")
    [event] = [one for one in objects.all_of("events") if one["reason"] == "FailedSync"]
    assert event["message"] == f"Error syncing pod, skipping: {text}"
    assert event["involvedObject"]["name"] == "broken"
    assert text in cluster.nodes["node-1"].kubelet_log.read_text()
