"""A tap between two folders, see `tests.support.tapped`."""

from __future__ import annotations

from tests.support.tapped import between, folder

__all__ = ["between", "folder"]
