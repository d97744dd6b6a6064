"""The known bugs that built-in stories reproduce."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .bug import Bug
from .stories import builtin, contents, first_sentence


@dataclass(frozen=True, slots=True)
class KnownBug:
    """A bug and the built-in story that shows it.

    Attributes:
        story: The name, with the topic.
        title: The first sentence of the story's description.
        text: The whole description, on one line.
    """

    bug: Bug
    story: str
    path: Path
    title: str
    text: str

    def mentions(self, text: str) -> bool:
        """Whether a text is somewhere in what is known of it, in capitals or small letters."""
        bug = self.bug
        known = (bug.id, self.story, self.text, bug.component, bug.affected, *bug.links, *bug.fixed)
        return any(text.casefold() in part.casefold() for part in known)


def known_bugs() -> list[KnownBug]:
    """The bugs that built-in stories reproduce, by their id."""
    return sorted(_found(), key=lambda known: (_in_order(known.bug.id), known.story))


def _found() -> Iterator[KnownBug]:
    for name, path in builtin().items():
        # Reading YAML takes time, and most stories are about no bug.
        if b"\nbug:" in path.read_bytes():
            story = contents(path)
            description = story["description"]
            bug = Bug.model_validate(story["bug"])
            yield KnownBug(bug, name, path, first_sentence(description), " ".join(description.split()))


def _in_order(bug_id: str) -> tuple[str, int]:
    letters, number = re.findall(r"\D+|\d+", bug_id)
    return letters, int(number)
