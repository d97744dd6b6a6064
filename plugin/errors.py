"""What ends a plugin, and with which exit status.

::

    PluginExitError
    ├── UsageError      what the caller gave cannot be used             exit 2
    ├── FatalError      the plugin cannot do its work                   exit 1, or the original's
    └── HostError       the machine could not do what was needed        exit 3

Each message is one line. A `UsageError` and a `HostError` say how to fix it; a `FatalError` of a plugin that imitates
an original has the original's text.
"""

from __future__ import annotations

__all__ = ["FatalError", "HostError", "PluginExitError", "UsageError"]


class PluginExitError(Exception):
    """Base of the errors that end a plugin with one line on stderr."""

    exit_status: int = 1


class UsageError(PluginExitError):
    """What the caller gave cannot be used: a path, an option, a variable."""

    exit_status = 2


class FatalError(PluginExitError):
    """The plugin cannot do its work; its supervisor decides what happens next.

    Args:
        message: One line.
        exit_status: The original's, where that is not 1.
    """

    def __init__(self, message: str, exit_status: int = 1) -> None:
        super().__init__(message)
        self.exit_status = exit_status


class HostError(PluginExitError):
    """The machine could not do what was needed: a folder, a socket."""

    exit_status = 3
