"""Portable stories of the catalogue: a real cluster and the simulator give equal traces.

The kubelet is what differs between the two; a plugin is the same program on both. So all stories about kubelets are
played, and of those about one plugin or a bug of one only what `simkubelet run` chooses; ``--every-story`` plays all.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scenarios.backends.kind.backend import CAPABILITIES
from scenarios.backends.kind.cluster import KindSession
from scenarios.evaluation.verdict import Outcome
from scenarios.play.failure import failure_lines
from scenarios.play.job import BackendName, Job, Options
from scenarios.play.on_cluster import play_story
from scenarios.story import stories
from scenarios.story.document import load
from tests.support.stories import is_about_kubelets

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # What kr8s' HTTP client leaves to the garbage collector of connections whose API server goes with its node.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

JOBS = {name: Job(load(path), Options(backend=BackendName.BOTH)) for name, path in stories.builtin().items()}
PORTABLE = [name for name, job in JOBS.items() if job.document.scenario.needed <= CAPABILITIES]
CHOSEN = [name for name in PORTABLE if is_about_kubelets(name, JOBS[name].document.scenario) or name in stories.CHOSEN]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "story" in metafunc.fixturenames:
        metafunc.parametrize("story", PORTABLE if metafunc.config.getoption("--every-story") else CHOSEN)


async def test_both_backends_have_equal_traces(
    story: str, session: KindSession, record: Callable[[str, str, bool], None]
) -> None:
    played = await play_story(JOBS[story], session, lambda title: None)

    verdict = played.verdict
    if verdict.outcome is Outcome.SKIPPED:
        pytest.skip(verdict.reason)
    record(verdict.scenario, session.kubernetes, verdict.outcome is Outcome.VALID)
    assert verdict.outcome is Outcome.VALID, "\n".join(failure_lines(verdict)) or verdict.reason
