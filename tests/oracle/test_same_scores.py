"""Random clusters with claims: which nodes a pod fits, and what each scores, by the real plugins and by ours."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import event, given, seed
from hypothesis import strategies as st

from simkubelet.cluster.objects.objects import JSON, Key
from simkubelet.cluster.scheduler.cycle import Assignment
from simkubelet.cluster.scheduler.refusals import PRE_BIND_FAILED
from tests.support.oracle import ROUNDS, SEED, OracleProgram, compared, oracle_program
from tests.support.random_claim_cluster import claim_cluster
from tests.support.scheduled_cluster import CLAIMS, CLASSES, SLICES, ScheduledCluster
from tools.generate.extension_points import points_of

pytestmark = pytest.mark.oracle

FIRST = "1.34"
MINOR = max(os.environ.get("SIMKUBELET_ORACLE_VERSION", FIRST), FIRST)
KINDS = {"nodes": "nodes", "classes": CLASSES, "slices": SLICES, "claims": CLAIMS, "pods": "pods"}


@pytest.fixture(scope="session")
def real() -> Iterator[OracleProgram]:
    yield from oracle_program("SIMKUBELET_ORACLE_SCORES")


def ours(cluster: JSON) -> JSON | None:
    """What our scheduler says; None where it fails after it has chosen a node."""
    tried = ScheduledCluster(MINOR)
    for field, kind in KINDS.items():
        for body in [*cluster[field], *([cluster["pod"]] if kind == "pods" else [])]:
            metadata = body["metadata"]
            key = Key(kind, metadata.get("namespace", ""), metadata["name"])
            tried.objects.create(key, {**body, "metadata": {"generation": 1, **metadata}})
    found = tried.scheduler.try_next()
    assert found is not None
    if isinstance(found, Assignment):
        return {"scores": dict(found.scores)} if found.scores else {"nodes": [found.node]}
    if found.message.startswith(PRE_BIND_FAILED):
        return None
    return {"error": found.message} if found.is_error else {"nodes": []}


@pytest.mark.parametrize("shard", range(8 * ROUNDS))
def test_nodes_score_as_with_the_real_plugins(real: OracleProgram, shard: int) -> None:
    def check(number: int) -> None:
        cluster = claim_cluster(number)
        answer = real.ask(cmd="scores", **cluster)
        assert answer["ok"], answer
        expected = {key: answer[key] for key in ("error", "scores") if key in answer} or {"nodes": answer["nodes"]}
        actual = ours(cluster)
        event("fails later" if actual is None else ", ".join(expected))

        assert actual in (None, expected), answer

    compared()(seed(SEED + shard)(given(number=st.integers(0, 2**32))(check)))()


def test_default_plugins_have_the_listed_extension_points(real: OracleProgram) -> None:
    answer = real.ask(cmd="plugins")
    assert answer["ok"], answer
    listed = points_of(MINOR)

    for point, plugins in answer["plugins"].items():
        if point != "MultiPoint" and any(point in points for points in listed.values()):
            enabled = {each["Name"] for each in plugins["Enabled"] or ()}
            assert enabled == {plugin for plugin, points in listed.items() if point in points}, point
