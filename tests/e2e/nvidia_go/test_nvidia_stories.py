"""The stories about NVIDIA's plugin, played with it and with ours: node, pods and plugin behave the same."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome, Verdict
from scenarios.play.comparison import Comparison, compare
from scenarios.play.normal_form import NormalForm, normal_form
from scenarios.play.runner import play
from scenarios.story import stories
from scenarios.story.document import Document, load
from scenarios.story.model import Scenario
from scenarios.trace.events import ExpectationFailed
from scenarios.trace.trace import Entry
from simkubelet.model.events import PluginRegistered

pytestmark = pytest.mark.nvidia_go

STORIES = {name.rpartition("/")[2]: path for name, path in stories.builtin().items() if name.startswith("nvidia/")}
AS_PROMISED = {"xid-on-a-divided-gpu", "xid-on-a-shared-gpu"}
"""What the articles promise and NVIDIA's plugin does not do."""
OF_OUR_OWN = {name for name, path in STORIES.items() if "builtin: nvidia-mps" in path.read_text()}
"""Stories that need bundled programs beside the plugin."""


def told(path: Path, folder: Path, command: tuple[str, ...] | None) -> tuple[Verdict, NormalForm, list[Entry]]:
    """What a story tells with our plugin, or with a command in its place."""
    document = load(path)
    commands = {} if command is None else {"nvidia": command}
    scenario = document.scenario
    backend = SimBackend(scenario, folder, keep=False, plugin_commands=commands)
    story = Document(path, scenario, document.source)
    verdict = asyncio.run(play(story, backend, afterwards=Comparison(scenario).simulate_on))
    return verdict, _without_folders(backend.trace[:], scenario), list(backend.trace)


def _without_folders(events: Any, scenario: Scenario) -> NormalForm:
    return {
        lane: tuple(replace(entry, text=re.sub(r"/\S+/sk-[^/]+", "", entry.text)) for entry in entries)
        for lane, entries in normal_form(tuple(events), scenario).items()
    }


def registrations(events: list[Entry]) -> list[tuple[str, str]]:
    """Resource and socket of each registration; the order of those that come together is chance in the original."""
    found = (entry.event for entry in events)
    return sorted((event.resource, event.endpoint) for event in found if isinstance(event, PluginRegistered))


@pytest.mark.parametrize("name", sorted(STORIES.keys() - AS_PROMISED - OF_OUR_OWN))
def test_both_plugins_cause_equal_traces(run: Any, nvidia_plugin: str, name: str) -> None:
    ours = told(STORIES[name], run.scratch, None)
    theirs = told(STORIES[name], run.scratch, (nvidia_plugin,))

    assert (ours[0].outcome, theirs[0].outcome) == (Outcome.VALID, Outcome.VALID), (ours[0], theirs[0])
    difference = compare(ours[1], theirs[1], ("ours", "NVIDIA's"))
    assert difference is None, "\n".join(difference.lines)
    assert registrations(ours[2]) == registrations(theirs[2])
    assert run.leftovers() == []


@pytest.mark.parametrize("name", sorted(AS_PROMISED))
def test_nvidias_plugin_does_not_keep_the_articles_promise(run: Any, nvidia_plugin: str, name: str) -> None:
    verdict, _, events = told(STORIES[name], run.scratch, (nvidia_plugin,))

    assert verdict.outcome is Outcome.INVALID, verdict
    (failed,) = [entry.event for entry in events if isinstance(entry.event, ExpectationFailed)]
    assert "allocatable[nvidia.com/gpu]" in " ".join(failed.mismatches)
