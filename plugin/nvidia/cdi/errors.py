"""Why there is no CDI specification."""

from __future__ import annotations

__all__ = ["CdiError"]


class CdiError(Exception):
    """A specification cannot be made or written; the message is the original's."""
