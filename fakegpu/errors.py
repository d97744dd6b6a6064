"""What can go wrong with a fake machine, by who can fix it.

::

    FakeGpuError            base: str(error) is one line that says what, where and how to fix it
    ├── DifferenceError     a comparison found what it looks for; exit status 1
    ├── InputError          the caller asked for something that does not exist or does not fit; exit status 2
    └── HostError           the host refused: no permission, no library, no space; exit status 3
"""

from __future__ import annotations


class FakeGpuError(Exception):
    """Base of everything this package raises on purpose.

    Attributes:
        exit_status: status with which a command ends that meets this error.
    """

    exit_status = 1


class DifferenceError(FakeGpuError):
    """Two machines that were compared answer differently."""


class InputError(FakeGpuError):
    """A name, number or file given by the caller is wrong."""

    exit_status = 2


class HostError(FakeGpuError):
    """The host did not do what it usually does."""

    exit_status = 3
