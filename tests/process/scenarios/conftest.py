"""The stories of `tests.unit.scenarios`."""

from __future__ import annotations

from tests.unit.scenarios.conftest import known, read_story, write_story

__all__ = ["known", "read_story", "write_story"]
