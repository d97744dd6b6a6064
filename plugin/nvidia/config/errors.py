"""What makes a configuration file unusable."""

from __future__ import annotations

__all__ = ["ConfigError"]


class ConfigError(Exception):
    """The file cannot be read or has a wrong value; the message is the original's."""
