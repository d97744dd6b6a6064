"""Several stories at a time in one process, in worlds that do what their story's name says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play import job as job_module
from scenarios.play.console import Screen
from scenarios.play.job import Job, Options, at_a_time
from scenarios.play.run import Results
from scenarios.play.watch import play_all
from scenarios.story.document import Document
from simkubelet.model.errors import HostError, InputError

STEP = "steps:\n- restartKubelet: {}\n"


class Worlds:
    """Counts the worlds that are entered; those of stories called ``wait…`` stay until they are cancelled."""

    def __init__(self, world: Any, frame: Any) -> None:
        self._world, self._frame = world, frame
        self.inside: set[str] = set()
        self.most = 0
        self.left: list[str] = []
        self.all_wait = asyncio.Event()

    def make(self, document: Document, options: Options) -> Any:
        worlds, name = self, document.scenario.name

        class World(self._world):  # type: ignore[misc,name-defined]
            async def __aenter__(self) -> Any:
                worlds.inside.add(name)
                worlds.most = max(worlds.most, len(worlds.inside))
                return await super().__aenter__()

            async def __aexit__(self, *error: Any) -> None:
                worlds.inside.discard(name)
                worlds.left.append(name)
                await super().__aexit__(*error)

            async def perform(self, action: Any) -> None:
                for _ in range(ord(name[0]) % 5):
                    await asyncio.sleep(0)
                match name.split("-")[0]:
                    case "wait":
                        if all(one.startswith("wait") for one in worlds.inside):
                            worlds.all_wait.set()
                        await asyncio.Event().wait()
                    case "refuse":
                        raise InputError("no such folder")
                    case "break":
                        raise HostError("no space left")
                    case "bug":
                        raise ZeroDivisionError

        return World([self._frame])


@pytest.fixture
def worlds(monkeypatch: pytest.MonkeyPatch, world: Any, frames: Any) -> Worlds:
    made = Worlds(world, frames.frame())
    monkeypatch.setattr(job_module, "_backend", made.make)
    return made


@pytest.fixture
def jobs(write_story: Any, known: Any) -> Callable[..., list[Job]]:
    def make(*names: str) -> list[Job]:
        return [Job(job_module.load(write_story(STEP, name), known), Options()) for name in names]

    return make


class Notes(Screen):
    """What a screen is notified of, in order."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []
        self.order: list[str] = []

    def began(self, name: str) -> None:
        self.order.append(f"{name} began")

    def stepped(self, name: str, title: str) -> None:
        self.steps.append((name, title))

    def ended(self, verdict: Verdict) -> None:
        self.order.append(f"{verdict.scenario} {verdict.outcome}")


async def play(jobs: list[Job], count: int, notes: Notes | None = None) -> Results:
    results = Results(jobs, notes or Notes())
    await play_all(jobs, count, results)
    return results


def outcomes(results: Results) -> dict[str, Outcome]:
    return {verdict.scenario: verdict.outcome for verdict in results.verdicts}


async def test_results_are_in_the_order_of_the_jobs(worlds: Worlds, jobs: Any) -> None:
    notes = Notes()

    results = await play(jobs("d", "a", "c", "b"), 3, notes)

    assert [verdict.scenario for verdict in results.verdicts] == ["d", "a", "c", "b"]
    assert sorted(notes.steps) == [(name, "restartKubelet") for name in "abcd"]
    assert worlds.left != ["d", "a", "c", "b"]
    assert [entry.partition(" ")[0] for entry in notes.order if entry.endswith(" valid")] == worlds.left


@pytest.mark.parametrize("count", [1, 2, 4])
async def test_no_more_stories_than_asked_for_are_under_way(worlds: Worlds, jobs: Any, count: int) -> None:
    await play(jobs(*"abcdefgh"), count)

    assert worlds.most == count


async def test_story_that_fails_leaves_the_others_alone(worlds: Worlds, jobs: Any) -> None:
    results = await play(jobs("break", "refuse", "a"), 2)

    assert outcomes(results) == {"break": Outcome.UNKNOWN, "refuse": Outcome.ERROR, "a": Outcome.VALID}


@pytest.mark.parametrize("name", ["break", "refuse"])
async def test_run_that_stops_at_a_failure_ends_the_other_stories(worlds: Worlds, jobs: Any, name: str) -> None:
    told = [replace(job, options=Options(stops_at_failure=True)) for job in jobs("a", "wait", name, "later")]

    results = await play(told, 2)

    assert list(outcomes(results).values())[::2] == [Outcome.VALID, results.verdicts[2].outcome]
    assert outcomes(results)["wait"] is Outcome.ENDED
    assert outcomes(results)["later"] is Outcome.UNPLAYED
    assert worlds.inside == set()


async def test_bug_ends_the_other_stories_first(worlds: Worlds, jobs: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        await play(jobs("wait", "bug", "wait-2"), 3)

    assert (worlds.inside, sorted(worlds.left)) == (set(), ["bug", "wait", "wait-2"])


async def test_cancelled_run_leaves_every_world_and_what_was_done(worlds: Worlds, jobs: Any) -> None:
    stories = jobs("a", "wait-1", "wait-2", "later")
    results = Results(stories, Notes())
    run = asyncio.create_task(play_all(stories, 2, results))
    await worlds.all_wait.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert (worlds.inside, sorted(worlds.left)) == (set(), ["a", "wait-1", "wait-2"])
    assert list(outcomes(results).values()) == [Outcome.VALID, Outcome.ENDED, Outcome.ENDED, Outcome.UNPLAYED]
    assert results.verdicts[1].reason == "the run was ended in step 'restartKubelet'"
    assert [[entry.kind for entry in one.events] for one in results.played] == [["step-started"]] * 3 + [[]]


@pytest.mark.parametrize(("cores", "count"), [(1, 8), (2, 16), (64, 16)])
def test_default_grows_with_the_cores_up_to_what_one_loop_drives(
    monkeypatch: pytest.MonkeyPatch, cores: int, count: int
) -> None:
    monkeypatch.setattr(job_module.os, "sched_getaffinity", lambda _: set(range(cores)))

    assert at_a_time() == count
