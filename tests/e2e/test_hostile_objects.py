"""No object of a stranger ends `simkubelet up`: it answers, and the pods of others run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile_objects import ATTACKS, PODS, costly_claim, pod, send
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

    status, answer = send(attacked.server, attack.path, attack.body(), LIMIT_S)

    assert status in {201, 400, 413, 422} or b"etcdserver: request is too large" in answer
    assert send(attacked.server, PODS, json.dumps(pod(other)).encode(), LIMIT_S)[0] == 201
    eventually(lambda: b'"phase":"Running"' in send(attacked.server, f"{PODS}/{other}", None, LIMIT_S)[1])
    assert attacked.process.poll() is None


def test_cluster_goes_on_during_an_evaluation_and_ends_in_the_middle_of_one() -> None:
    """Counts answers and processor time, as on a busy machine all takes longer; the try takes 8 s of that time."""
    with live_cluster("--plain --profile t4 --gpus 1") as cluster:
        for attack in costly_claim("costly"):
            assert send(cluster.server, attack.path, attack.body(), LIMIT_S)[0] == 201
        for _ in range(20):
            assert send(cluster.server, "/healthz", None, LIMIT_S)[0] == 200
        assert send(cluster.server, PODS, json.dumps(pod("other")).encode(), LIMIT_S)[0] == 201
        assert b"PodScheduled" not in send(cluster.server, f"{PODS}/costly", None, LIMIT_S)[1]
        before_s = _cpu_s(cluster)

        cluster.process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(cluster.process.pid, 0)
        cluster.process.returncode = os.waitstatus_to_exitcode(status)

    assert cluster.process.returncode == 128 + signal.SIGTERM
    assert usage.ru_utime + usage.ru_stime - before_s < 3


def _cpu_s(cluster: LiveCluster) -> float:
    """What a cluster's own process has taken until now."""
    fields = Path(f"/proc/{cluster.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
