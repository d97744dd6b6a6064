"""Plays the stories of a run on a kind cluster, one after the other; with ``both`` on the simulator too, compared."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from simkubelet.model.errors import InputError

from ..backends.kind.backend import CAPABILITIES
from ..backends.kind.cluster import KindSession, kind_session
from ..backends.kind.program import programs_of
from ..evaluation.verdict import Outcome
from ..story.model import Scenario
from .comparison import Comparison, Divergence, explained
from .job import BackendName, Job, Options, Played, play_in, play_job
from .runner import Progress
from .watch import FirstFailure, Watch, watched


async def play_on_cluster(jobs: Sequence[Job], options: Options, watch: Watch) -> None:
    """Play stories, all on the cluster's own version.

    Raises:
        InputError: What the user gave cannot be used.
        HostError: There is no cluster and none can be made; nothing is left.
    """
    for job in jobs:
        programs_of(job.story.scenario.plugins, options.plugin_commands)
    async with kind_session(options.cluster, options.node_image, options.keep, nodes_needed(jobs)) as session:
        if options.kubernetes is not None and not session.kubernetes.startswith(options.kubernetes):
            raise InputError(
                f"--kubelet-version: cluster '{options.cluster}' runs {session.kubernetes}; leave the option out, "
                f"or choose a node image with --image"
            )
        with contextlib.suppress(FirstFailure):
            for job in jobs:
                await watched(job, watch, partial(play_story, job, session))


def nodes_needed(jobs: Sequence[Job]) -> int:
    """How many a cluster needs for all stories that it can play at all."""
    stories = [job.document.scenario for job in jobs]
    return max((len(story.nodes) for story in stories if story.needed <= CAPABILITIES), default=1)


async def play_story(job: Job, session: KindSession, progress: Progress) -> Played:
    """Play one story on the cluster's version; where the job says so, on the simulator too, and compare."""
    job = replace(job, kubernetes=session.kubernetes)
    scenario = job.document.scenario
    world = session.world(scenario, job.options.plugin_commands)
    if job.options.backend is not BackendName.BOTH:
        return _named(job, await play_in(world, job, progress, name=BackendName.KIND))
    comparison = Comparison(scenario)
    simulated = await play_job(job, progress, comparison.simulate_on)
    real = await play_in(world, job, progress, comparison.wait_for_the_same, BackendName.KIND)
    return _named(job, of_both(simulated, real, comparison.divergence, scenario))


def of_both(simulated: Played, real: Played, divergence: Divergence | None, scenario: Scenario) -> Played:
    """The answer to a story that was played on both backends: of the first that failed, else what differs."""
    if real.verdict.outcome is Outcome.VALID:
        if simulated.verdict.outcome is not Outcome.VALID:
            reason = f"on the simulator: {simulated.verdict.reason}"
            return replace(simulated, verdict=replace(simulated.verdict, reason=reason), other=real)
        if divergence is not None:
            reason = explained(divergence, scenario)
            verdict = replace(real.verdict, outcome=Outcome.INVALID, reason=reason, difference=divergence.lines)
            return replace(real, verdict=verdict, other=simulated)
    return replace(real, other=simulated)


def _named(job: Job, played: Played) -> Played:
    """A cluster has one version, so the story's name says enough."""
    return replace(played, verdict=replace(played.verdict, scenario=job.story.scenario.name))
