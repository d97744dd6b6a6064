"""Plays the stories of a run on a cluster, one after the other; with ``both`` on the simulator too, compared.

The cluster is one of kind, or that of a kubeconfig, which simulated nodes join.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from simkubelet.model.errors import HostError, InputError

from ..backends.backend import Backend
from ..evaluation.verdict import Outcome
from ..story.model import Scenario
from .comparison import Comparison, Divergence, explained
from .job import BackendName, Job, Options, Played, play_in, play_job
from .runner import Progress
from .watch import FirstFailure, Watch, watched

_OF_KIND: Final = ("kr8s", "httpx")
"""What only an installation with the extra `kind` has."""


class Session(Protocol):
    """A cluster that is there."""

    @property
    def kubernetes(self) -> str:
        """Its version, such as ``1.34.4``."""
        ...

    def world(self, scenario: Scenario, replacements: Mapping[str, Sequence[str]], /) -> Backend:
        """The world of one story, not yet entered."""
        ...


async def play_on_cluster(jobs: Sequence[Job], options: Options, watch: Watch) -> None:
    """Play stories, all on the cluster's own version.

    Raises:
        InputError: What the user gave cannot be used.
        HostError: There is no cluster and none can be made; nothing is left.
    """
    async with _cluster(jobs, options) as session:
        if options.kubernetes is not None and not session.kubernetes.startswith(options.kubernetes):
            cluster, or_else = f"cluster '{options.cluster}'", ", or choose a node image with --image"
            if options.kubeconfig is not None:
                cluster, or_else = f"the cluster of {options.kubeconfig}", ""
            raise InputError(f"--kubelet-version: {cluster} runs {session.kubernetes}; leave the option out{or_else}")
        with contextlib.suppress(FirstFailure):
            for job in jobs:
                await watched(job, watch, partial(play_story, job, session))


def _cluster(jobs: Sequence[Job], options: Options) -> AbstractAsyncContextManager[Session]:
    if options.kubeconfig is None:
        return _kind(jobs, options)
    from ..backends.join.backend import join_session

    return join_session(options.kubeconfig, options.directory, options.keep)


@contextlib.asynccontextmanager
async def _kind(jobs: Sequence[Job], options: Options) -> AsyncIterator[Session]:
    """Find or make a cluster of kind.

    Raises:
        InputError: A program cannot run on its nodes, or another run uses the cluster.
        HostError: There is no cluster and none can be made; nothing is left.
    """
    try:
        from ..backends.kind.cluster import kind_session
        from ..backends.kind.program import programs_of
    except ModuleNotFoundError as error:
        if error.name not in _OF_KIND:
            raise
        raise HostError(
            f"--backend {options.backend}: the Python package {error.name} is missing; "
            "install it with: pip install kr8s"
        ) from None
    for job in jobs:
        programs_of(job.story.scenario.plugins, options.plugin_commands)
    async with kind_session(options.cluster, options.node_image, options.keep, nodes_needed(jobs)) as session:
        yield session


def nodes_needed(jobs: Sequence[Job]) -> int:
    """How many a cluster needs for all stories that it can play at all."""
    from ..backends.kind.backend import CAPABILITIES

    stories = [job.document.scenario for job in jobs]
    return max((len(story.nodes) for story in stories if story.needed <= CAPABILITIES), default=1)


async def play_story(job: Job, session: Session, progress: Progress) -> Played:
    """Play one story on the cluster's version; where the job says so, on the simulator too, and compare."""
    job = replace(job, kubernetes=session.kubernetes)
    scenario = job.document.scenario
    world = session.world(scenario, job.options.plugin_commands)
    name = BackendName.KIND if job.options.kubeconfig is None else BackendName.JOIN
    if job.options.backend is not BackendName.BOTH:
        return _named(job, await play_in(world, job, progress, name=name))
    comparison = Comparison(scenario, name)
    simulated = await play_job(job, progress, comparison.simulate_on)
    real = await play_in(world, job, progress, comparison.wait_for_the_same, name)
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
