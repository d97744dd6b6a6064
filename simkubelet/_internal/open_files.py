"""How many files a process may have open at a time (``ulimit -n``).

The usual soft limit, 1024, is too low for a simulated cluster, so a command that needs many takes all that the hard
limit allows. Its children begin with the soft limit that the user gave: programs that use ``select()`` can name no
file beyond 1023, and some close every file that they may have.

Source: Go does the same, os/rlimit.go and syscall/exec_linux.go (go 1.24), ``origRlimitNofile``.
"""

from __future__ import annotations

import errno
import resource
import shutil
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["raise_limit", "too_many", "with_first_limit"]

_FIRST: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def raise_limit() -> None:
    """Raise this process' soft limit to its hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def with_first_limit(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv that runs a program with the soft limit that this process began with; its process id stays the same.

    Where there is no ``prlimit`` (util-linux) it is `argv` itself.
    """
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == _FIRST or shutil.which("prlimit") is None:
        return tuple(argv)
    return ("prlimit", f"--nofile={_FIRST}:", "--", *argv)


def too_many(error: BaseException) -> str | None:
    """What to tell the user where an error came from too many open files; None where it did not."""
    numbers = {cause.errno for cause in _causes(error, set()) if isinstance(cause, OSError)}
    if errno.EMFILE in numbers:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files: this process may have {limit}; allow more with 'ulimit -n', or start fewer nodes"
    return "too many open files on this machine; end other programs" if errno.ENFILE in numbers else None


def _causes(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """An error and all that led to it, those that are not shown too."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    yield from _causes(error.__cause__, seen)
    yield from _causes(error.__context__, seen)
    for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield from _causes(inner, seen)
