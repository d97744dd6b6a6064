"""What ends a plugin, and with which exit status.

::

    PluginExitError
    ├── UsageError      what the caller gave cannot be used             exit 2
    ├── FatalError      the plugin cannot do its work                   exit 1
    └── HostError       the machine could not do what was needed        exit 3

Each message is one line. A `UsageError` and a `HostError` say how to mend it; a `FatalError` of a plugin that imitates
an original has the original's text.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["FatalError", "HostError", "PluginExitError", "UsageError"]


class PluginExitError(Exception):
    """Base of the errors that end a plugin with one line on stderr."""

    exit_status: ClassVar[int] = 1


class UsageError(PluginExitError):
    """What the caller gave cannot be used: a path, an option, a variable."""

    exit_status = 2


class FatalError(PluginExitError):
    """The plugin cannot do its work; its supervisor decides what happens next."""

    exit_status = 1


class HostError(PluginExitError):
    """The machine could not do what was needed: a folder, a socket."""

    exit_status = 3
