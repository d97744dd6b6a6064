"""Pods, DaemonSets, nodes, namespaces, data, leases, roles and priorities, written to the real API server and to ours.

What admission plugins do is left out on both sides, as are warnings, which are our own.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.support.compared_objects import compare
from tests.support.oracle import ROUNDS, OracleProgram
from tests.support.random_data import OF_DATA, WHOLE_DATA
from tests.support.random_nodes import OF_NODES, WHOLE_NAMESPACES, WHOLE_NODES
from tests.support.random_pods import OF_PODS, WHOLE_DAEMON_SETS, WHOLE_PODS

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("topic", WHOLE_PODS)
@pytest.mark.parametrize("shard", range(ROUNDS))
def test_pods_are_kept_and_refused_as_by_the_real_strategy(api_server: OracleProgram, shard: int, topic: str) -> None:
    compare(api_server, "Pod", st.just(WHOLE_PODS[topic]), OF_PODS, shard)


@pytest.mark.parametrize("shard", range(ROUNDS))
def test_daemon_sets_are_kept_and_refused_as_by_the_real_strategy(api_server: OracleProgram, shard: int) -> None:
    compare(api_server, "DaemonSet", st.sampled_from(WHOLE_DAEMON_SETS), OF_PODS, shard)


@pytest.mark.parametrize("shard", range(ROUNDS))
def test_nodes_are_kept_and_refused_as_by_the_real_strategy(api_server: OracleProgram, shard: int) -> None:
    compare(api_server, "Node", st.sampled_from(WHOLE_NODES), OF_NODES, shard)


@pytest.mark.parametrize("shard", range(ROUNDS))
def test_namespaces_are_kept_and_refused_as_by_the_real_strategy(api_server: OracleProgram, shard: int) -> None:
    subresources = ("", "status", "finalize")
    compare(api_server, "Namespace", st.sampled_from(WHOLE_NAMESPACES), OF_NODES, shard, subresources)


@pytest.mark.parametrize("kind", WHOLE_DATA)
@pytest.mark.parametrize("shard", range(ROUNDS))
def test_data_is_kept_and_refused_as_by_the_real_strategy(api_server: OracleProgram, shard: int, kind: str) -> None:
    compare(api_server, kind, st.sampled_from(WHOLE_DATA[kind]), OF_DATA, shard)
