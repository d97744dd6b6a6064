"""How many files a process may have open at a time (``ulimit -n``), and what is said where these or others run out.

The usual soft limit, 1024, is too low for a simulated cluster, so a command that needs many takes all that the hard
limit allows. Its children begin with the soft limit that the user gave: programs that use ``select()`` can name no
file beyond 1023, and some close every file that they may have.

Source: Go does the same, os/rlimit.go and syscall/exec_linux.go (go 1.24), ``origRlimitNofile``.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from typing import Final

__all__ = ["FIRST_LIMIT", "raise_limit", "too_many"]

_NO_THREAD: Final = "can't start new thread"
"""Source: CPython 3.11 to 3.14, Modules/_threadmodule.c."""
FIRST_LIMIT: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
"""The soft limit that this process began with, which the programs that it runs have; see `bounds`."""


def raise_limit() -> None:
    """Raise this process' soft limit to its hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def too_many(error: BaseException) -> str | None:
    """What to tell the user where an error came from too many open files, processes or bytes; None where not."""
    causes = list(_causes(error, set()))
    if any(isinstance(cause, MemoryError) for cause in causes):
        return "no memory is left; end other programs, or allow more with 'ulimit -v' and 'ulimit -d'"
    if any(isinstance(cause, RuntimeError) and str(cause) == _NO_THREAD for cause in causes):
        return "no process or thread can be started; end other programs, or allow more with 'ulimit -u'"
    numbers = {cause.errno for cause in causes if isinstance(cause, OSError)}
    if errno.EMFILE in numbers:
        from ..apis.inotify import NO_INSTANCE  # it imports asyncio

        if any(isinstance(cause, OSError) and cause.filename == NO_INSTANCE for cause in causes) and _can_open():
            return (
                "this user has all the inotify instances that one may have; end other programs, or allow more with "
                "'sysctl fs.inotify.max_user_instances=1024'"
            )
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too many open files: this process may have {limit}; allow more with 'ulimit -n', or start fewer nodes"
    return "too many open files on this machine; end other programs" if errno.ENFILE in numbers else None


def _can_open() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


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
