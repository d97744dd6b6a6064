"""The taps of `tests.unit.scenarios.tap`."""

from __future__ import annotations

from tests.unit.scenarios.tap.conftest import between, folder

__all__ = ["between", "folder"]
