"""What a DRA manager asks of a cluster elsewhere, as calls of its API."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from simkubelet.cluster_api import ClaimNotReadError
from simkubelet.model.clock import RealClock
from simkubelet.model.version import version
from simkubelet.remote import ApiError, RemoteCluster

FORBIDDEN = ApiError(403, "Forbidden", "no rights")


class Client:
    """An `ApiClient` that answers as a test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[tuple[str, str, Mapping[str, str] | None]] = []

    async def find(self, path: str) -> Any:
        return await self.call("GET", path)

    async def call(self, method: str, path: str, *, query: Mapping[str, str] | None = None) -> Any:
        self.calls.append((method, path, query))
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


def cluster_of(client: Client, *, has_node: bool = True) -> RemoteCluster:
    given: Any = client
    cluster = RemoteCluster(given, {"n": version("1.34")}, RealClock(), lambda event: None, lambda line: None)
    nodes: Any = SimpleNamespace(node=lambda name: object() if has_node else None)
    cluster._nodes = nodes
    return cluster


@pytest.mark.parametrize("claim", [{"metadata": {"name": "c"}}, None])
async def test_claim_is_read_from_the_server(claim: Any) -> None:
    client = Client(claim)

    assert await cluster_of(client).resource_claim("team", "c") == claim
    assert client.calls == [("GET", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c", None)]


async def test_refused_read_has_the_servers_message() -> None:
    with pytest.raises(ClaimNotReadError, match="no rights"):
        await cluster_of(Client(FORBIDDEN)).resource_claim("team", "c")


async def test_slices_are_deleted_as_a_collection() -> None:
    client = Client({})

    assert await cluster_of(client).delete_resource_slices({"spec.nodeName": "n", "spec.driver": "d"})
    fields = {"fieldSelector": "spec.driver=d,spec.nodeName=n"}
    assert client.calls == [("DELETE", "/apis/resource.k8s.io/v1/resourceslices", fields)]


@pytest.mark.parametrize(("answer", "has_node"), [(FORBIDDEN, True), ({}, False)], ids=["refused", "no-node"])
async def test_slices_stay_to_be_deleted_later(answer: Any, has_node: bool) -> None:
    client = Client(answer)

    assert not await cluster_of(client, has_node=has_node).delete_resource_slices({"spec.nodeName": "n"})
    assert len(client.calls) == has_node
