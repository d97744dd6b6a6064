"""Parallel runs with real processes: this file's `STORY_PROCESS` plays the process of a story."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from scenarios import parallel, worker
from scenarios.job import Job, Options, Played
from scenarios.trace import Event
from scenarios.verdict import Outcome, Verdict
from scenarios.wire import Finished, Refused, StepTold, answer_line, job_line, read_answer, read_job
from simkubelet.errors import InputError

STORY_PROCESS = """
import json, pathlib, sys
job = json.loads(sys.stdin.buffer.readline())
story = pathlib.Path(job["story"])
def tell(**answer): print(json.dumps(answer), flush=True)
tell(type="step", title="a step of " + story.stem)
match story.stem.split("-")[0]:
    case "wait":
        (story.parent / (story.stem + ".begun")).touch()
        sys.stdin.buffer.read()
        (story.parent / (story.stem + ".ended")).touch()
    case "refuse":
        tell(type="refused", message="no such folder")
    case "die":
        sys.exit(7)
    case _:
        verdict = {"scenario": story.stem, "outcome": "valid", "duration_s": 0.5}
        tell(type="finished", played={"verdict": verdict, "events": []})
"""


@pytest.fixture(autouse=True)
def _story_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_worker_argv", lambda: (sys.executable, "-I", "-S", "-c", STORY_PROCESS))


def jobs(folder: Path, *names: str) -> list[Job]:
    return [Job(folder / f"{name}.yaml", Options()) for name in names]


def stems(folder: Path, ending: str) -> set[str]:
    return {path.stem for path in folder.glob(f"*.{ending}")}


def silent(story: str, title: str) -> None:
    return None


STORY = """
name: nothing
description: Nothing happens.
plugins: [{name: gpu, builtin: stub, serves: {resource: example.com/gpu, devices: [gpu-0]}}]
steps: [{expect: {node: node-1, allocatable: {example.com/gpu: 1}}}]
"""
PLAYS: Final = """
import asyncio, pathlib, resource, sys
from scenarios.job import Job, Options, play_job
played = asyncio.run(play_job(Job(pathlib.Path(sys.argv[1]), Options()), lambda title: None))
print(played.verdict.outcome, *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.slow
def test_story_is_played_with_all_open_files_that_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "nothing.yaml").write_text(STORY)
    argv = ["prlimit", "--nofile=60:200", sys.executable, "-c", PLAYS, str(tmp_path / "nothing.yaml")]

    done = subprocess.run(argv, capture_output=True, text=True, check=True)

    assert done.stdout == "valid 200 200\n"


async def test_results_are_in_the_order_of_the_jobs(tmp_path: Path) -> None:
    told: set[tuple[str, str]] = set()

    played = await parallel.play_all(jobs(tmp_path, "c", "a", "b"), 2, lambda *step: told.add(step))

    assert [one.verdict.scenario for one in played] == ["c", "a", "b"]
    assert told == {(name, f"a step of {name}") for name in "abc"}


async def test_process_that_dies_leaves_the_verdict_unknown(tmp_path: Path) -> None:
    (died, lived) = await parallel.play_all(jobs(tmp_path, "die", "a"), 2, silent)

    assert died.verdict.outcome is Outcome.UNKNOWN
    assert died.verdict.reason == "the story's process ended with status 7 before it had an answer"
    assert lived.verdict.outcome is Outcome.VALID


async def test_refused_input_ends_the_other_stories_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        await parallel.play_all(jobs(tmp_path, "wait", "refuse"), 2, silent)

    assert stems(tmp_path, "ended") == stems(tmp_path, "begun")


async def test_cancelled_run_ends_every_process_in_order(tmp_path: Path) -> None:
    begun = asyncio.Event()
    told: list[str] = []

    def count(story: str, title: str) -> None:
        told.append(story)
        if len(told) == 2:
            begun.set()

    run = asyncio.create_task(parallel.play_all(jobs(tmp_path, "wait-1", "wait-2", "later"), 2, count))
    await asyncio.wait_for(begun.wait(), 10)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert stems(tmp_path, "ended") == stems(tmp_path, "begun")
    assert "later" not in told


async def test_process_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stubborn = 'import time\nprint(\'{"type": "step", "title": "x"}\', flush=True)\ntime.sleep(60)'
    monkeypatch.setattr(parallel, "_worker_argv", lambda: (sys.executable, "-I", "-S", "-c", stubborn))
    monkeypatch.setattr(parallel, "GRACE_S", 0.01)
    begun = asyncio.Event()

    run = asyncio.create_task(parallel.play_all(jobs(tmp_path, "a", "b"), 2, lambda *step: begun.set()))
    await asyncio.wait_for(begun.wait(), 10)
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 10)


def test_jobs_and_answers_are_read_as_they_were_written() -> None:
    job = Job(
        Path("/x/story.yaml"), Options(kubernetes="1.28", plugin_commands={"a": ("b", "c d")}, directory=Path("/d"))
    )
    event = Event(0, 0.5, "node-status", {"capacity": {"r": 1}})
    answers = [StepTold("ä step"), Refused("no"), Finished(Played(Verdict("s", Outcome.SKIPPED, 0.0, "r"), (event,)))]

    assert read_job(job_line(job)) == job
    assert [read_answer(answer_line(answer)) for answer in answers] == answers


@pytest.mark.slow
@pytest.mark.parametrize("is_ended_early", [True, False], ids=["orders end", "answers"])
async def test_real_worker_refuses_what_it_cannot_read_and_ends_with_its_orders(
    tmp_path: Path, is_ended_early: bool
) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", worker.__name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(worker.__file__).parent.parent,
    )
    assert process.stdin is not None

    out, _ = await process.communicate(b"" if is_ended_early else job_line(*jobs(tmp_path, "none")))

    assert process.returncode == 0
    answers = [read_answer(line) for line in out.splitlines()]
    if is_ended_early:
        assert answers == []
    else:
        (refused,) = answers
        assert isinstance(refused, Refused)
        assert refused.message.endswith("none.yaml: cannot be read: No such file or directory")
