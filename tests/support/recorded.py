"""Traces of built-in stories as kind clusters recorded them: a file for each story, below its Kubernetes version.

The session `e2e_kind` with ``-- --record`` writes them, each after it was equal to the simulator's. Where there is no
cluster they stand for one: `simkubelet run --compare` compares with them, and `simkubelet replay` shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from scenarios.trace.events import ExpectationFailed, ExpectationMet, PluginStarted, StepStarted
from scenarios.trace.trace import Entry, Event, write_lines
from simkubelet.model.events import DevicesListed, KubeletStarted

ROOT: Final = Path(__file__).parents[1] / "recorded"


def path_of(story: str, kubernetes: str) -> Path:
    """The file of a story, such as ``kubelet/restart``, on a version, such as ``1.34.4``."""
    return ROOT / kubernetes / f"{story}.jsonl"


def write(story: str, kubernetes: str, entries: Sequence[Entry]) -> None:
    """Keep what a cluster recorded, in place of what there is."""
    path = path_of(story, kubernetes)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        write_lines(entries, stream, story.rpartition("/")[2])


def duration_s(story: str, kubernetes: str) -> float:
    """Real time from the beginning of a story to its last entry."""
    with path_of(story, kubernetes).open(encoding="utf-8") as lines:
        *_, last = lines
    return float(json.loads(last)["real_s"])


def recorded() -> Iterator[tuple[str, str]]:
    """Each story that was recorded, with the version."""
    for version in sorted(ROOT.iterdir()):
        for path in sorted(version.rglob("*.jsonl")):
            yield str(path.relative_to(version).with_suffix("")), version.name


def entries(*events: Event) -> list[Entry]:
    """A trace of these events, ten seconds of node time and half a real one apart."""
    return [Entry(seq, seq * 10.0, event, seq * 0.5) for seq, event in enumerate(events)]


PASSES = entries(
    StepStarted(1, "the beginning"),
    KubeletStarted("node-1", "v1.34.4"),
    PluginStarted("mine", "node-1", 1),
    DevicesListed("node-1", "example.com/gpu", ("gpu-0",), ()),
    ExpectationMet(1),
)
FAILS = entries(StepStarted(1, "the beginning"), ExpectationFailed(1, ("capacity: expected 2; actual 0",)))


@pytest.fixture
def two_stories(tmp_path: Path) -> Path:
    """A written trace of a story that passes and of one that fails."""
    path = tmp_path / "t.jsonl"
    with path.open("w") as stream:
        write_lines(PASSES, stream, "passes")
        write_lines(FAILS, stream, "fails")
    return path
