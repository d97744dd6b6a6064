"""The answer to a story that was played on the simulator and on a cluster, and the recordings of both."""

from __future__ import annotations

import pytest

from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.comparison import Divergence
from scenarios.play.job import BackendName, Played
from scenarios.play.on_cluster import of_both
from scenarios.story.model import Scenario
from scenarios.trace.events import StepStarted
from scenarios.trace.trace import Entry

SCENARIO = Scenario.model_validate(
    {
        "name": "one-node",
        "description": "One node.",
        "nodes": [{"name": "node-1"}],
        "plugins": [{"name": "gpu", "builtin": "gopher"}],
        "steps": [{"expect": {"node": "node-1", "kubelet": "running"}}],
    }
)
DIVERGENCE = Divergence("pod a", 0, ("pod a", "  --- sim", "  +++ kind", "  +container-exited"))
PASSED = Verdict("one-node", Outcome.VALID, 1.0)
FAILED = Verdict("one-node", Outcome.INVALID, 1.0, "it failed")


def played(verdict: Verdict, backend: BackendName) -> Played:
    return Played(verdict, (Entry(0, 0.0, StepStarted(1, backend.value)),), backend)


@pytest.mark.parametrize(
    ("simulated", "real", "divergence", "reason"),
    [
        pytest.param(PASSED, PASSED, None, "", id="equal"),
        pytest.param(PASSED, PASSED, DIVERGENCE, "the traces differ first in 'pod a', at step '", id="different"),
        pytest.param(FAILED, PASSED, None, "on the simulator: it failed", id="simulator fails"),
        pytest.param(PASSED, FAILED, None, "it failed", id="cluster fails"),
        pytest.param(FAILED, FAILED, None, "it failed", id="both fail"),
    ],
)
def test_both_recordings_are_kept_whatever_the_answer(
    simulated: Verdict, real: Verdict, divergence: Divergence | None, reason: str
) -> None:
    answer = of_both(played(simulated, BackendName.SIM), played(real, BackendName.KIND), divergence, SCENARIO)

    assert answer.verdict.reason.startswith(reason)
    assert (answer.verdict.outcome is Outcome.VALID) == (reason == "")
    assert answer.verdict.difference == (() if divergence is None else divergence.lines)
    recordings = answer.recordings()
    assert list(recordings) == ["sim", "kind"]
    assert {name: entries[0].event for name, entries in recordings.items()} == {
        name: StepStarted(1, name) for name in ("sim", "kind")
    }
