"""Portable stories of the catalogue: a real cluster and the simulator give equal traces.

What clusters have recorded of the stories is kept (`tests.support.recorded`), and the session `e2e` compares with it.
So these are played: stories that together use every key of the story language, as a key may be right on one side only,
and stories about kubelets that nobody has recorded yet. ``--every-story`` plays all.
"""

from __future__ import annotations

import pytest

from scenarios.backends.kind.backend import CAPABILITIES
from scenarios.backends.kind.cluster import KindSession
from scenarios.evaluation.verdict import Outcome
from scenarios.play.failure import failure_lines
from scenarios.play.job import BackendName, Job, Options
from scenarios.play.on_cluster import play_story
from scenarios.story import stories
from scenarios.story.document import load
from tests.support import recorded
from tests.support.stories import covering, is_about_kubelets

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # What kr8s' HTTP client leaves to the garbage collector of connections whose API server goes with its node.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

JOBS = {name: Job(load(path), Options(backend=BackendName.BOTH)) for name, path in stories.builtin().items()}
SCENARIOS = {name: job.document.scenario for name, job in JOBS.items()}
PORTABLE = {name: scenario for name, scenario in SCENARIOS.items() if scenario.needed <= CAPABILITIES}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "story" in metafunc.fixturenames:
        metafunc.parametrize("story", list(PORTABLE) if metafunc.config.getoption("--every-story") else chosen())


def chosen() -> list[str]:
    """The stories that are played where nobody asks for more, in the order of the catalogue."""
    about_kubelets = {name: story for name, story in PORTABLE.items() if is_about_kubelets(name, story)}
    lasted = {name: recorded.duration_s(name, version) for name, version in recorded.recorded()}
    covered = covering({name: about_kubelets[name] for name in sorted(about_kubelets.keys() & lasted)}, lasted)
    return [name for name in PORTABLE if name in covered or name in about_kubelets.keys() - lasted]


async def test_both_backends_have_equal_traces(story: str, session: KindSession, pytestconfig: pytest.Config) -> None:
    played = await play_story(JOBS[story], session, lambda title: None)

    verdict = played.verdict
    if verdict.outcome is Outcome.SKIPPED:
        pytest.skip(verdict.reason)
    assert verdict.outcome is Outcome.VALID, "\n".join(failure_lines(verdict)) or verdict.reason
    if pytestconfig.getoption("--record"):
        recorded.write(story, session.kubernetes, played.events)
