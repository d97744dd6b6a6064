"""A client-go program with shared informers against a simulated cluster, as every Go controller has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.live_cluster import LiveCluster, go_client, live_cluster

pytestmark = pytest.mark.clients


def lines(cluster: LiveCluster, *arguments: str) -> list[Any]:
    return [json.loads(line) for line in cluster.run(go_client("SIMKUBELET_INFORMER"), *arguments).splitlines()]


@pytest.mark.parametrize("options", ["--nodes 2", "--nodes 2 --plain"])
def test_informer_fills_caches_and_follows_pod(options: str) -> None:
    with live_cluster(options) as cluster:
        seen = lines(cluster, "-create", "own")

        synced = next(n for n, line in enumerate(seen) if line["event"] == "synced")
        assert {line["name"] for line in seen if line.get("kind") == "node" and line["event"] == "add"} == {
            "node-1",
            "node-2",
        }
        own = [line["event"] for line in seen[synced:] if line.get("kind") == "pod" and line["name"] == "own"]
        assert (own[0], own[-1]) == ("add", "delete")
        versions = [int(line["resourceVersion"]) for line in seen if line.get("name") == "own"]
        assert versions == sorted(versions)
