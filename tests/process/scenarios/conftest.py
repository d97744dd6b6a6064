"""The stories of `tests.support.stories`."""

from __future__ import annotations

from tests.support.stories import home, known, machine, node, read_story, trace, write_story

__all__ = ["home", "known", "machine", "node", "read_story", "trace", "write_story"]
