"""Traces of built-in stories as kind clusters recorded them: a file for each story, below its Kubernetes version.

The session `e2e_kind` with ``-- --record`` writes them, each after it was equal to the simulator's. Where there is no
cluster they stand for one: `simkubelet run --compare` compares with them, and `simkubelet replay` shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scenarios.trace.trace import Entry, read_lines, write_lines

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


def read(story: str, kubernetes: str) -> list[Entry]:
    """What a cluster recorded.

    Raises:
        FileNotFoundError: Nobody has recorded the story on this version.
    """
    with path_of(story, kubernetes).open(encoding="utf-8") as lines:
        return [entry for _, entry in read_lines(lines)]


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
