"""Feeds in: a story that is cancelled once, at each of the moments at which its event loop is given something to do.

Observed: that it is cancelled; what Python says of objects that nobody ended, tasks and files that are left.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.runner import play
from scenarios.story.document import Document, load
from tests.support.patience import LIMIT_S

STORY = """
name: restarts
description: A kubelet starts, restarts twice and stops
nodes: [{name: node-1}]
steps:
  - restartKubelet: {times: 2}
"""

STORY_WITH_A_POD = """
name: runs
description: A container runs until the end
nodes: [{name: node-1}]
steps:
  - apply:
      apiVersion: v1
      kind: Pod
      metadata: {name: trainer}
      spec: {containers: [{name: main, image: none}]}
  - expect: {pod: trainer, phase: Running, within: 10s}
"""


class InterruptingLoop(asyncio.SelectorEventLoop):
    """Cancels its first task when it is given its so many-th thing to do."""

    def __init__(self, moment: int) -> None:
        super().__init__()
        self._moments = itertools.count(1)
        self._moment = moment
        self.played: asyncio.Task[Verdict] | None = None
        self.has_interrupted = False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        if self.played is not None and next(self._moments) == self._moment:
            super().call_soon(self._interrupt, self.played)
        return super().call_soon(callback, *args, context=context)

    def _interrupt(self, task: asyncio.Task[Verdict]) -> None:
        self.has_interrupted = task.cancel()


def played(document: Document, directory: Path, moment: int, *, ends: bool = False) -> Verdict | None:
    """Play a story until its end or that moment, of those after its last step where it `ends`."""
    told: list[str] = []

    async def main() -> Verdict | None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        backend = SimBackend(document.scenario, directory=directory, keep=False, plugin_commands={})

        async def began_to_end(_: object) -> None:
            loop.played = story

        story = asyncio.ensure_future(play(document, backend, afterwards=began_to_end))
        if not ends:
            loop.played = story
        await asyncio.wait([story], timeout=LIMIT_S)
        assert story.done(), f"moment {moment}"
        # Who is ended plays no further story.
        assert story.cancelled() is loop.has_interrupted, f"moment {moment}"
        return None if story.cancelled() else story.result()

    with asyncio.Runner(loop_factory=lambda: InterruptingLoop(moment)) as runner:
        verdict = runner.run(main())
    assert told == []
    return verdict


@pytest.fixture
def quick_collector() -> Iterator[None]:
    """What there is before the test is not looked at each time that the garbage is collected."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("quick_collector")
def test_story_that_is_interrupted_at_any_moment_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = tmp_path / "restarts.yaml"
    story.write_text(STORY)
    document = load(story)
    left: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: left.append((told.object, told.exc_value)))

    # Not below the test's own folder, whose path is too long for sockets.
    with tempfile.TemporaryDirectory(prefix="sk") as directory:
        for moment in itertools.count(1):
            verdict = played(document, Path(directory), moment)
            gc.collect()
            assert left == [], f"moment {moment}"
            assert list(Path(directory).iterdir()) == [], f"moment {moment}"
            if verdict is not None:
                break

    assert verdict.outcome is Outcome.VALID
    assert moment > 50


def test_story_that_is_interrupted_while_its_containers_are_ended_ends(tmp_path: Path) -> None:
    story = tmp_path / "runs.yaml"
    story.write_text(STORY_WITH_A_POD)
    document = load(story)

    with tempfile.TemporaryDirectory(prefix="sk") as directory:
        for moment in itertools.count(1):
            if (verdict := played(document, Path(directory), moment, ends=True)) is not None:
                break
            assert list(Path(directory).iterdir()) == [], f"moment {moment}"

    assert verdict.outcome is Outcome.VALID
    assert moment > 20
