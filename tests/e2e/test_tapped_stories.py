"""A tap changes nothing on its own: stories with a tap for each plugin record what they record without."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.sim.backend import SimBackend
from scenarios.evaluation.verdict import Outcome
from scenarios.play.comparison import Comparison, compare
from scenarios.play.normal_form import NormalForm, normal_form
from scenarios.play.runner import play
from scenarios.story import stories
from scenarios.story.document import Document, load
from scenarios.story.model import Scenario

TAP_STORIES = sorted(name for name in stories.builtin() if name.startswith("tap/"))
NVIDIA_STORIES = [name for name in TAP_STORIES if "builtin: nvidia" in stories.builtin()[name].read_text()]
UNTAPPED = sorted(
    name
    for name, path in stories.builtin().items()
    if name.startswith(("plugins/", "bugs/r", "nodes/")) or ("/" not in name and name not in TAP_STORIES)
    # A tap does not find a recreated folder, and no story may require it.
    if "removeFolder" not in path.read_text()
)


def tapped(scenario: Scenario) -> Scenario:
    plugins = tuple(plugin.model_copy(update={"tap": True}) for plugin in scenario.plugins)
    return scenario.model_copy(update={"plugins": plugins})


def told_by(scenario: Scenario, path: Path, source: Any, folder: Path) -> NormalForm:
    """What a story records, without the calls of plugins other than stubs, which a tap adds."""
    backend = SimBackend(scenario, folder, keep=False, plugin_commands={})
    verdict = asyncio.run(play(Document(path, scenario, source), backend, afterwards=Comparison(scenario).simulate_on))
    assert verdict.outcome is Outcome.VALID, verdict
    stubs = {plugin.name for plugin in scenario.plugins if plugin.is_stub}
    form = normal_form(tuple(backend.trace), scenario)
    return {
        lane: tuple(replace(entry, text=re.sub(r"/\S+/sk-[^/]+", "", entry.text)) for entry in told)
        for lane, told in form.items()
        if not lane.startswith(("calls of ", "answers to ")) or lane.split()[2] in stubs
    }


@pytest.mark.parametrize("name", UNTAPPED)
def test_tapped_story_has_the_same_trace(run: Any, name: str) -> None:
    path = stories.builtin()[name]
    document = load(path)
    scenario = document.scenario.on_kubernetes((document.scenario.versions or ("1.34",))[-1])

    plain, through = (told_by(one, path, document.source, run.scratch) for one in (scenario, tapped(scenario)))

    difference = compare(plain, through, ("plain", "tapped"))
    assert difference is None, "\n".join(difference.lines)
    assert run.leftovers() == []


@pytest.mark.nvidia_go
@pytest.mark.parametrize("name", NVIDIA_STORIES)
def test_nvidias_own_plugin_is_tapped_like_ours(run: Any, nvidia_plugin: str, name: str) -> None:
    done = run(f"simkubelet run {name} --plugin 'nvidia={nvidia_plugin}'")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert run.leftovers() == []


def test_tap_of_a_command_needs_no_change(run: Any) -> None:
    (run.scratch / "mine.yaml").write_text(
        f"""\
name: mine
description: A program of the user's, with the node's paths built in, through a tap.
plugins:
  - name: mine
    command: [{sys.executable}, -m, simkubelet, plugin, stub, --resource, x.y/gpu, --socket, mine.sock, --device, a]
    tap: true
steps:
  - expect: {{plugin: mine, registrations: 1, refusal: "", calls: {{Register: 1, ListAndWatch: 1}}}}
  - expect: {{node: node-1, allocatable: {{x.y/gpu: 1}}}}
  - endStream: {{plugin: mine}}
  - expect: {{node: node-1, allocatable: {{x.y/gpu: 0}}}}
"""
    )
    done = run("simkubelet run mine.yaml")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert run.leftovers() == []
