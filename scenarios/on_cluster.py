"""Plays the stories of a run on a kind cluster, one after the other; with ``both`` on the simulator too, compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from simkubelet.errors import InputError

from .backends.kind.session import KindSession, kind_session
from .document import Document
from .equivalence import compare, explained, last_action, normal_form
from .job import BackendName, Job, Options, Played, play_in, play_job
from .parallel import RunProgress
from .verdict import Outcome


async def play_on_cluster(
    jobs: Sequence[Job], options: Options, processes: int, progress: RunProgress
) -> tuple[Played, ...]:
    """Play stories; the results are in the order of the jobs. All are played on the cluster's own version.

    Raises:
        InputError: What the user gave cannot be used.
        HostError: There is no cluster and none can be made; nothing is left.
    """
    if processes > 1:
        raise InputError("-n: a cluster takes one story at a time; leave -n out, or use --backend sim")
    if options.plugin_commands:
        raise InputError("--plugin: a cluster's plugins are those that come along; leave --plugin out")
    jobs = _once(jobs)
    async with kind_session(options.cluster, options.node_image, options.keep) as session:
        if options.kubernetes is not None and not session.kubernetes.startswith(options.kubernetes):
            raise InputError(
                f"--kubelet-version: cluster '{options.cluster}' runs {session.kubernetes}; leave the option out, "
                f"or choose a node image with --image"
            )
        return tuple([await _play(job, session, _told_for(job, progress)) for job in jobs])


def _once(jobs: Sequence[Job]) -> list[Job]:
    """Each story once, as the cluster has one version."""
    return list({job.story: replace(job, kubernetes=None) for job in jobs}.values())


def _told_for(job: Job, progress: RunProgress) -> Callable[[str], None]:
    return lambda title: progress(job.name, title)


async def _play(job: Job, session: KindSession, told: Callable[[str], None]) -> Played:
    job = replace(job, kubernetes=session.kubernetes)
    document = job.document()
    real = await play_in(session.world(document.scenario), document, job, told)
    real = replace(real, verdict=replace(real.verdict, scenario=job.story.stem))
    if job.options.backend is not BackendName.BOTH or real.verdict.outcome is not Outcome.VALID:
        return real
    simulated = await play_job(job, told)
    if simulated.verdict.outcome is not Outcome.VALID:
        reason = f"on the simulator: {simulated.verdict.reason}"
        return replace(simulated, verdict=replace(simulated.verdict, scenario=job.story.stem, reason=reason))
    return _compared(simulated, real, document)


def _compared(simulated: Played, real: Played, document: Document) -> Played:
    scenario = document.scenario
    forms = normal_form(simulated.events, scenario), normal_form(real.events, scenario)
    divergence = compare(*forms, ("sim", "kind"), last_action(scenario))
    if divergence is None:
        return real
    verdict = replace(
        real.verdict,
        outcome=Outcome.INVALID,
        reason=explained(divergence, scenario),
        difference=divergence.lines,
    )
    return replace(real, verdict=verdict)
