"""A bug's story fails without its bug: on a kubelet of the other side of the fix, with a plugin that has no bug."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome
from scenarios.play.runner import play
from scenarios.story import stories
from scenarios.story.document import Document, load
from scenarios.story.model import Scenario, Step
from scenarios.trace.events import ExpectationFailed

BUGS = {name.rpartition("/")[2]: path for name, path in stories.builtin().items() if name.startswith("bugs/")}
FAILS_WITHIN_S = 2.0


def steps_on(scenario: Scenario, version: str) -> tuple[Step, ...]:
    """What is played on a version, the steps of this version only with a shorter wait, as they are to fail."""
    played = scenario.on_kubernetes(version)
    return tuple(
        step
        if step.kubernetes is None or step.expect is None
        else step.model_copy(update={"expect": step.expect.model_copy(update={"within": FAILS_WITHIN_S})})
        for step in scenario.steps
        if played.has_step(step)
    )


def contradictions() -> Iterator[Any]:
    """Story, version to play, version to tell: one pair for each two kinds of kubelets that the story knows."""
    for name, path in BUGS.items():
        scenario = load(path).scenario
        seen = set()
        for here in scenario.versions or ():
            for there in scenario.versions or ():
                kinds = (steps_on(scenario, here), steps_on(scenario, there))
                if kinds[0] != kinds[1] and str(kinds) not in seen:
                    seen.add(str(kinds))
                    yield pytest.param(path, here, there, id=f"{name.partition('-')[0]} of {there} on {here}")


@pytest.mark.parametrize(("path", "here", "there"), list(contradictions()))
def test_story_of_one_version_fails_on_another(run: Any, path: Path, here: str, there: str) -> None:
    document = load(path)
    of_there = steps_on(document.scenario, there)
    unconditional = tuple(step.model_copy(update={"kubernetes": None}) for step in of_there)
    scenario = document.scenario.on_kubernetes(here).model_copy(update={"steps": unconditional})
    backend = SimBackend(scenario, run.scratch, keep=False, plugin_commands={})

    verdict = asyncio.run(play(Document(path, scenario, document.source), backend))

    assert verdict.outcome is Outcome.INVALID, verdict
    assert verdict.failure is not None
    (stopped_at,) = [event.step for event in backend.trace.of(ExpectationFailed)]
    assert of_there[stopped_at - 1].kubernetes is not None, verdict


def test_story_expects_another_thing_of_a_kubelet_with_the_fix() -> None:
    with_a_fix = {
        path.stem: {str(steps_on(scenario, version)) for version in versions}
        for path in BUGS.values()
        for scenario in [load(path).scenario]
        for bug, versions in [(scenario.bug, scenario.versions or ())]
        if bug is not None and len({bug.is_in_kubernetes(version) for version in versions}) > 1
    }

    assert len(with_a_fix) > 10
    assert [name for name, kinds in with_a_fix.items() if len(kinds) == 1] == []


def cured(scenario: Scenario) -> Scenario:
    """A story whose plugin with the bug has the settings of the one without it, where stubs differ in settings."""
    serving = {plugin.name: plugin.serves for plugin in scenario.plugins}
    before, after = serving.get("before"), serving.get("after")
    if before is None or after is None:
        return scenario
    kept = {"resource": before.resource, "socket": before.socket, "devices": before.devices}
    serves = after.model_copy(update=kept)
    plugins = tuple(
        plugin.model_copy(update={"serves": serves}) if plugin.name == "before" else plugin
        for plugin in scenario.plugins
    )
    return scenario.model_copy(update={"plugins": plugins})


async def test_story_fails_with_a_plugin_that_has_no_bug(run: Any) -> None:
    """Played all at once: each waits until its expectation of the bug is given up."""
    documents = [document for document in map(load, BUGS.values()) if cured(document.scenario) != document.scenario]
    assert len(documents) >= 10

    failures = await asyncio.gather(*(failure_without_the_bug(document, run.scratch) for document in documents))

    assert [failure for failure in failures if "invalid: " not in failure or "before" not in failure] == []


async def failure_without_the_bug(document: Document, scratch: Path) -> str:
    steps = tuple(
        step
        if step.expect is None
        else step.model_copy(update={"expect": step.expect.model_copy(update={"within": FAILS_WITHIN_S})})
        for step in document.scenario.steps
    )
    scenario = cured(document.scenario).model_copy(update={"steps": steps})
    backend = SimBackend(scenario, scratch, keep=False, plugin_commands={})

    verdict = await play(Document(document.path, scenario, document.source), backend)

    failed = [steps[event.step - 1].expect for event in backend.trace.of(ExpectationFailed)]
    return f"{verdict.scenario} {verdict.outcome}: {failed}"


@pytest.mark.nvidia_go
def test_nvidias_own_plugin_has_its_bugs(run: Any, nvidia_plugin: str) -> None:
    of_nvidia = [
        "bugs/p10-which-xids-count",
        "bugs/p11-health-monitor-cannot-start",
        "bugs/p15-plugin-loses-access-to-its-gpus",
        "bugs/p28-rollout-restarts-the-kubelet-too",
        "bugs/p29-slices-are-summed-for-the-pod",
        "nvidia/p12-one-lost-gpu-poisons-the-node",
        "nvidia/p13-nvml-fails-at-allocation",
        "nvidia/p16-partition-changes-unseen",
        "nvidia/p9-unhealthy-is-for-ever",
    ]
    swaps = " ".join(f"--plugin '{name}={nvidia_plugin}'" for name in ("nvidia", "before", "after"))

    done = run(f"simkubelet run {' '.join(of_nvidia)} {swaps}")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "10 passed" in done.stdout
