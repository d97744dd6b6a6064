"""No object of a stranger ends `simkubelet up`: it answers, and the pods of others run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.hostile_objects import ATTACKS, PODS, pod, send
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.patience import LIMIT_S, eventually


@pytest.fixture(scope="module")
def attacked() -> Iterator[LiveCluster]:
    with live_cluster("--plain --profile t4 --gpus 1") as cluster:
        yield cluster


@pytest.mark.parametrize("name", ATTACKS)
def test_cluster_outlives_an_object(attacked: LiveCluster, name: str) -> None:
    attack = ATTACKS[name]
    other = f"other-{list(ATTACKS).index(name)}"

    status, _ = send(attacked.server, attack.path, attack.body(), LIMIT_S)

    assert status in {201, 400, 413, 422}
    assert send(attacked.server, PODS, json.dumps(pod(other)).encode(), LIMIT_S)[0] == 201
    eventually(lambda: b'"phase":"Running"' in send(attacked.server, f"{PODS}/{other}", None, LIMIT_S)[1])
    assert attacked.process.poll() is None
