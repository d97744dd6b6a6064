"""What bounds a program that we run, a container or a plugin: its memory, its processes, the size of its files.

The kernel takes it before us when memory runs out (``oom_score_adj``), on any machine. Where the machine lets us make
cgroups (`cgroups`), all programs of a process of ours together have four fifths of its memory, as pods have what is
allocatable, and each what it was given of that. Elsewhere a process of a container has a soft limit on its private
writable memory instead (``RLIMIT_DATA``), of the same four fifths: address space is not memory, so the limit of a
container says nothing about it, and programs that reserve much more than they use start. What is built with
AddressSanitizer does not, so plugins have no such limit; others raise it with ``ulimit -d unlimited``.

A file can have four fifths of the space that is left on the disk when the program starts (``RLIMIT_FSIZE``, soft, too).

Source: cm/node_container_manager_linux.go, ``enforceNodeAllocatableCgroups`` (kubernetes v1.34.4); getrlimit(2);
proc(5), ``oom_score_adj``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shlex
import shutil
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from . import open_files
from .cgroups import Group, Groups, memory_of_machine, processes_of_machine
from .isolation import MAX_PROCESSES

__all__ = ["BoundProgram", "Bounds", "memory_for_programs", "version_of_cgroups"]

_FIRST_TO_GO: Final = 1000
_LEAST_FILE: Final = 2**30
_BLOCK: Final = 512
_KIBI: Final = 1024
_LOOK_AGAIN_S: Final = 0.001
_LONGEST_END_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one program may have.

    Attributes:
        folder: Where it writes.
        memory_bytes: Of all its processes together; None for what there is for all programs.
        processes: How many at a time, threads included; None for any number.
        oom_score_adj: Which program the kernel ends first, the one with 1000; never less than that of this process.
        is_data_limited: Whether its processes have a limit where there can be no cgroup.
    """

    folder: Path
    memory_bytes: int | None = None
    processes: int | None = MAX_PROCESSES
    oom_score_adj: int = _FIRST_TO_GO
    is_data_limited: bool = False


class BoundProgram:
    """One program within its bounds; who has started it calls `ended`, who has failed to, `end`."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._groups = _groups(os.getpid())
        self._group: Group | None = self._groups.make(bounds.memory_bytes, bounds.processes)
        self._is_over = False

    def argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The argv that runs it so, under the same process id."""
        script = "; ".join(self._commands(self._bounds))
        return ("/bin/sh", "-c", f'{{ {script}; }} 2>/dev/null; exec "$@"', "sh", *argv)

    def has_lost_memory(self) -> bool:
        """Whether the kernel has ended a process of it for want of memory, as far as can be known."""
        return self._group is not None and self._group.has_lost()

    def kill(self) -> None:
        """Kill what can be found at once, and let it make no process any more; the rest is to be killed, too."""
        if self._group is not None:
            self._group.kill()

    def terminate(self, but: int) -> bool:
        """Ask its processes but one to end, and let what is paused go on for that; False where there is no cgroup."""
        if self._group is not None:
            self._group.signal(signal.SIGTERM, signal.SIGCONT, but=but)
        return self._group is not None

    def processes(self) -> set[int]:
        """Ids of its processes, whatever they have made of themselves; empty where there can be no cgroup."""
        return self._group.processes() - {0} if self._group else set()

    async def ended(self) -> None:
        """Wait until none of its processes is left, as the kernel may have ended several, and take back what it had."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_END_S):
                while self._group is not None and self._group.processes():  # noqa: ASYNC110  # nobody reports it
                    await asyncio.sleep(_LOOK_AGAIN_S)
        self.end()

    def end(self) -> None:
        """Take back what it had; may be called again."""
        if self._group is not None and not self._is_over:
            self._is_over = True
            self._groups.end(self._group)

    def _commands(self, bounds: Bounds) -> Iterator[str]:
        for file in self._group.files() if self._group else ():
            yield f"echo 0 >{shlex.quote(file)}"
        score = max(int(Path("/proc/self/oom_score_adj").read_text(encoding="ascii")), bounds.oom_score_adj)
        yield f"echo {score} >/proc/self/oom_score_adj"
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] != open_files.FIRST_LIMIT:
            yield f"ulimit -S -n {open_files.FIRST_LIMIT}"
        file_bytes = max(_LEAST_FILE, _most_of(shutil.disk_usage(bounds.folder).free))
        yield from _soft_limit("f", resource.RLIMIT_FSIZE, file_bytes, _BLOCK)
        if bounds.is_data_limited and self._group is None:
            yield from _soft_limit("d", resource.RLIMIT_DATA, memory_for_programs(), _KIBI)


def memory_for_programs() -> int:
    """Bytes of memory that all programs of this process may have together."""
    return _most_of(memory_of_machine())


def version_of_cgroups() -> int:
    """Of those that bound programs here, as one is made; 0 where there can be none."""
    groups = _groups(os.getpid())
    trial = groups.make(None, None)
    if trial is None:
        return 0
    groups.end(trial)
    return groups.version


@cache
def _groups(_pid: int) -> Groups:
    """Those of this process: what a forked one inherits is its parent's."""
    return Groups(memory_for_programs(), _most_of(processes_of_machine()))


def _soft_limit(letter: str, number: int, most: int, unit: int) -> Iterator[str]:
    """The command of a shell that lowers a limit of its own; nothing where it is lower already."""
    now = resource.getrlimit(number)[0]
    if now == resource.RLIM_INFINITY or now > most:
        yield f"ulimit -S -{letter} {most // unit}"


def _most_of(amount: int) -> int:
    return amount * 4 // 5
