"""Fields that have no effect: each is in one table, and said by a Warning, by an Event and on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simkubelet.cluster.strategies.daemonsets import DaemonSetStrategy
from simkubelet.cluster.strategies.pod.not_simulated import NOT_SIMULATED, not_simulated
from simkubelet.cluster.strategies.pods import PodStrategy
from simkubelet.cluster.strategies.table import server_rules

from ..conftest import Cluster, manifest

PAGE = Path(__file__).resolve().parents[5] / "docs" / "cluster.md"
GATES = {"readinessGates": [{"conditionType": "example.com/ready"}]}
SAID = "not simulated: spec.readinessGates: not awaited; the pod is ready when its containers are"


def spec_with(field: str) -> dict[str, Any]:
    """A spec with one field of the table set."""
    name, _, rest = field.partition(".")
    inner: Any = spec_with(rest) if rest else {"set": True}
    return {name.removesuffix("[*]"): [inner] if name.endswith("[*]") else inner}


@pytest.mark.parametrize("field", NOT_SIMULATED)
def test_field_of_the_table_is_said_with_its_place(field: str) -> None:
    (said,) = not_simulated(spec_with(field), "spec.template.spec")
    assert said == f"not simulated: spec.template.spec.{field.replace('[*]', '[0]')}: {NOT_SIMULATED[field]}"


def test_init_containers_are_containers() -> None:
    spec = {"initContainers": [{"name": "a"}, {"name": "b", "startupProbe": {"exec": {}}}]}
    assert not_simulated(spec) == [
        "not simulated: spec.initContainers[1].startupProbe: not run; a container is ready while it runs"
    ]


@pytest.mark.parametrize("spec", [{}, {"overhead": {}, "volumes": None, "containers": [{"lifecycle": {}}]}])
def test_field_that_is_empty_is_not_said(spec: dict[str, Any]) -> None:
    assert not_simulated(spec) == []


def test_pod_gets_an_event_for_each_field(cluster: Cluster) -> None:
    pod = cluster.store.create_pod(manifest("p", **GATES, activeDeadlineSeconds=5))

    said = [(event.type, event.reason, event.message) for event in cluster.store.events_of(pod.uid)]

    deadline = "not simulated: spec.activeDeadlineSeconds: the pod is not ended"
    assert said == [("Warning", "NotSimulated", deadline), ("Warning", "NotSimulated", SAID)]


def test_pod_warns_when_it_is_created(cluster: Cluster) -> None:
    strategy, pod = PodStrategy(cluster.objects, server_rules()), manifest("p", **GATES)

    assert strategy.warnings(pod, None) == [SAID]
    assert strategy.warnings(pod, pod) == []


def test_daemon_set_warns_when_its_template_changes() -> None:
    strategy = DaemonSetStrategy(server_rules())
    old = {"spec": {"template": {"spec": {"containers": []}}}}
    new = {"spec": {"template": {"spec": {"containers": [], **GATES}}}}
    said = SAID.replace("spec.", "spec.template.spec.")

    assert strategy.warnings(new, None) == strategy.warnings(new, old) == [said]
    assert strategy.warnings(new, new) == []


def test_page_has_the_whole_table() -> None:
    section = PAGE.read_text().partition("## Fields without effect\n")[2].partition("\n## ")[0]
    assert dict(re.findall(r"^\| `(.+?)` \| (.+?) \|$", section, re.MULTILINE)) == NOT_SIMULATED
