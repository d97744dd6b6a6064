"""Objects of resource.k8s.io, written to the real API server's code and to ours: what is kept, and what is refused.

Expressions of selectors are valid ones: ours does not compile them when an object is written.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.oracle import EXAMPLES, ROUNDS, SEED
from tests.support.random_devices import WHOLE, Change, changed, changes
from tests.support.registry_sides import GATES, comparable, ours

pytestmark = pytest.mark.oracle

Answer = dict[str, Any]

SHARDS = ROUNDS
wholes = st.sampled_from([(kind, whole) for kind, wholes in WHOLE.items() for whole in wholes])
gates = st.sampled_from([{}, {}, dict.fromkeys(GATES, True), dict.fromkeys(GATES, False)])


class RealRegistry:
    """The real strategies as a process; answers come one after the other."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: Mapping[str, Any]) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command, ensure_ascii=False) + "\n")
        self._process.stdin.flush()
        answer: Answer = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def real() -> Iterator[RealRegistry]:
    path = os.environ.get("SIMKUBELET_ORACLE_REGISTRY")
    if path is None:
        pytest.skip("no oracle: SIMKUBELET_ORACLE_REGISTRY is not set, as the nox session `oracle` does")
    registry = RealRegistry(path)
    yield registry
    registry.close()


def same(real: RealRegistry, command: Mapping[str, Any]) -> Answer:
    """Send a command to both, and expect one answer."""
    answer = real.ask(command)
    if "panic" in answer:
        # A capacity's step of zero: the real server divides by it, and ours takes it.
        return {}
    expected, actual = comparable(answer), comparable(ours(command))
    assert actual == expected
    return expected


def check(
    real: RealRegistry,
    whole: tuple[str, Answer],
    at_create: list[Change],
    at_update: list[Change],
    status: bool,
    gates: Answer,
) -> None:
    kind, first = whole[0], changed(whole[1], at_create)
    created = same(real, {"cmd": "create", "kind": kind, "object": first, "gates": gates})
    if "object" not in created:
        return
    # The status is another part of the object, which a claim has without having been created with it.
    metadata = {**created["object"]["metadata"], "resourceVersion": "1"}
    old = {**created["object"], "metadata": metadata, **({"status": first["status"]} if "status" in first else {})}
    update = {"cmd": "update", "kind": kind, "old": old, "object": changed(old, at_update), "gates": gates}
    same(real, {**update, "status": status and kind == "ResourceClaim"})


@pytest.mark.parametrize("shard", range(5 * SHARDS))
def test_same_as_the_real_strategies(real: RealRegistry, shard: int) -> None:
    run = given(whole=wholes, at_create=changes, at_update=changes, status=st.booleans(), gates=gates)(
        lambda **drawn: check(real, **drawn)
    )
    settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )(seed(SEED + shard)(run))()
