"""Which changes of pods are worth another try of one that waits for other company: what minors differ in.

The answers are those of ``isSchedulableAfterPodChange`` in plugins/interpodaffinity and plugins/podtopologyspread
(kubernetes v1.35.8, v1.36.5, v1.37.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from simkubelet.cluster.scheduler.cluster_state import PodInfo
from simkubelet.cluster.scheduler.hints import Kind, PodEvent, is_worth_a_try
from simkubelet.cluster.scheduler.refusals import Plugin
from simkubelet.model.pod import PodUID, pod_from_manifest
from simkubelet.model.version import version

MINORS = ("1.35", "1.36", "1.37")


def info(
    name: str,
    labels: Mapping[str, str],
    *,
    far_from: tuple[Mapping[str, str], ...] = (),
    nominated: str = "",
    **spec: Any,
) -> PodInfo:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": one}} for one in far_from]
    manifest = {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {
            "containers": [{"name": "c"}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            **spec,
        },
        "status": {"nominatedNodeName": nominated} if nominated else {},
    }
    return PodInfo(replace(pod_from_manifest(manifest), uid=PodUID(f"uid-of-{name}")))


def answers(plugin: Plugin, pod: PodInfo, event: PodEvent) -> list[bool]:
    return [is_worth_a_try(plugin, pod, event, version(minor)) for minor in MINORS]


def gone(pod: PodInfo) -> PodEvent:
    return PodEvent(Kind.POD_DELETED, pod, None)


SHY = info("shy", {"app": "web"}, far_from=({"app": "db"},))
VERY_SHY = info("shy", {"app": "web"}, far_from=({"app": "db"}, {"tier": "back"}))
SPREAD = info(
    "even",
    {"app": "web"},
    topologySpreadConstraints=[
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ],
)


@pytest.mark.parametrize(
    ("pod", "event", "expected"),
    [
        pytest.param(SHY, gone(info("db", {"app": "db"}, nodeName="n")), [True, True, True], id="it was shunned"),
        pytest.param(SHY, gone(info("db", {"app": "db"}, nominated="n")), [False, True, True], id="it was nominated"),
        pytest.param(SHY, gone(info("db", {"app": "db"})), [False, False, False], id="it had no place"),
        pytest.param(
            SHY,
            gone(info("other", {}, far_from=({"app": "web"},), nodeName="n")),
            [False, True, True],
            id="it shunned the pod",
        ),
        pytest.param(
            SHY,
            gone(info("other", {}, far_from=({"app": "x"},), nodeName="n")),
            [False, False, False],
            id="it shunned others",
        ),
        pytest.param(
            VERY_SHY,
            gone(info("db", {"app": "db"}, nodeName="n")),
            [False, False, True],
            id="one of two terms meant it",
        ),
        pytest.param(
            VERY_SHY,
            PodEvent(
                Kind.POD_LABELS,
                info("db", {"app": "db", "tier": "back"}, nodeName="n"),
                info("db", {"app": "db"}, nodeName="n"),
            ),
            [True, True, False],
            id="one of two terms means it still",
        ),
        pytest.param(
            SHY,
            PodEvent(Kind.POD_LABELS, SHY, info("shy", {"app": "x"}, far_from=({"app": "db"},))),
            [False, True, True],
            id="its own labels changed",
        ),
    ],
)
def test_company_that_changes(pod: PodInfo, event: PodEvent, expected: list[bool]) -> None:
    assert answers(Plugin.INTER_POD_AFFINITY, pod, event) == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param({"nodeName": "n"}, [True, True, True], id="placed"),
        pytest.param({"nominated": "n"}, [False, True, True], id="nominated"),
        pytest.param({}, [False, False, False], id="waiting"),
    ],
)
def test_pod_that_goes_from_a_spread(other: Mapping[str, Any], expected: list[bool]) -> None:
    event = gone(info("other", {"app": "web"}, **other))

    assert answers(Plugin.POD_TOPOLOGY_SPREAD, SPREAD, event) == expected
