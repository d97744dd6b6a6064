"""Errors of the simulated node and of the command line.

::

    SimkubeletError
    ├── InputError          what the caller gave cannot be used           exit 2
    ├── PluginError         a plugin broke the kubelet's contract         exit 1
    ├── HostError           the machine could not do what was needed      exit 3
    └── UnreadError         nobody reads standard output any more         exit 141

Each message is one line: what, where, how to fix; the last has none. Two errors are none of these, and their messages
are the kubelet's: an `AllocationError` ends the admission of a pod, a `KubeletPanicError` a simulated kubelet process,
as some sequences do to real kubelets.
"""

from __future__ import annotations

__all__ = [
    "AllocationError",
    "HostError",
    "InputError",
    "KubeletPanicError",
    "PluginError",
    "SimkubeletError",
    "UnreadError",
]


class SimkubeletError(Exception):
    """Base of all errors that a command turns into one line and an exit status."""

    exit_status = 1


class InputError(SimkubeletError):
    """What the caller gave cannot be used: a file, a path, an option."""

    exit_status = 2


class PluginError(SimkubeletError):
    """A plugin broke its contract with the kubelet; the verdict is a failure."""

    exit_status = 1


class HostError(SimkubeletError):
    """The machine could not do what was needed; nothing can be said about the plugin."""

    exit_status = 3


class UnreadError(SimkubeletError):
    """Nobody reads standard output any more; the command ends quietly, with the status of one that SIGPIPE ends."""

    exit_status = 141
    lines = ()


class AllocationError(Exception):
    """Devices cannot be given; the message is the kubelet's and reaches the pod's status."""


class KubeletPanicError(Exception):
    """The kubelet of this minor would end here; the message is the first line of its panic."""
