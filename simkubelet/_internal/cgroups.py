"""The cgroups of the programs that a process of ours runs: where they are, what they bound, and their end.

A process that runs programs has one cgroup, whose bound is for all of them together, and in it one for each program.
They are as near to this process's own as the kernel allows, so that what bounds it bounds them: in its own with cgroup
v1; with v2, where a cgroup with processes has no bounded ones in it, in the nearest one above that may. As root that is
nearly always possible, as a user where systemd has delegated one.

The process holds a lock on its cgroup. What is not locked is left from a killed process; see `remove_leftovers`. As
nothing but its programs was ever in it, what runs there has outlived it, and is killed.

Source: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst, "No Internal Process Constraint", "Delegation
Containment" (Linux 6.1); proc(5), cgroups(7).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from typing import Final

__all__ = [
    "Group",
    "Groups",
    "Hierarchy",
    "hierarchies",
    "memory_of_machine",
    "processes_of_machine",
    "remove_leftovers",
]

_PREFIX: Final = "simkubelet-"
_NAME: Final = re.compile(_PREFIX + r"[0-9]+-[0-9a-f]{8}")
"""Of the cgroup of a process of ours; a unit of systemd, say, may begin so as well."""
_CONTROLLERS: Final = ("memory", "pids")
_LIMITS: Final = {1: "memory.limit_in_bytes", 2: "memory.max"}
_KILLS: Final = {1: "memory.oom_control", 2: "memory.events"}
_LONGEST_KILL_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted hierarchy; `own` is the cgroup of this process in it."""

    version: int
    top: Path
    own: Path
    controllers: frozenset[str]

    def above(self) -> Iterator[Path]:
        """The own cgroup and those above it."""
        for folder in (self.own, *self.own.parents):
            if folder.is_relative_to(self.top):
                yield folder

    def memory_bounds(self) -> Iterator[int]:
        """Those of the own cgroup and of those above it, in bytes."""
        for folder in self.above():
            yield from (int(word) for word in _words(folder / _LIMITS[self.version]) if word.isdecimal())

    def parent(self) -> Path | None:
        """Where cgroups can be made."""
        if self.version == 1:
            return self.own if _is_ours(self.own) else None
        for folder in self.above():
            if _is_ours(folder) and "memory" in _words(folder / "cgroup.subtree_control"):
                return folder
        # Nobody has asked for bounds yet on this machine, where that is all of it.
        if _is_ours(self.top) and self._pass_on(self.top):
            return self.top
        return None

    def prepare(self, folder: Path) -> None:
        """Let cgroups below one have bounds."""
        if self.version == 1:
            # What later kernels always do.
            _write(folder / "memory.use_hierarchy", 1)
        else:
            self._pass_on(folder)

    def _pass_on(self, folder: Path) -> bool:
        return _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(self.controllers)))


def _is_ours(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


@cache
def _hierarchies() -> tuple[Hierarchy, ...]:
    return hierarchies(_lines(Path("/proc/self/cgroup")), _lines(Path("/proc/self/mountinfo")))


def hierarchies(memberships: Iterable[str], mounts: Iterable[str]) -> tuple[Hierarchy, ...]:
    """Those that bound memory and processes; the one for memory first, none where there is none.

    Args:
        memberships: The lines of ``/proc/self/cgroup``.
        mounts: Those of ``/proc/self/mountinfo``.
    """
    own: dict[str, str] = {}
    for line in memberships:
        _, names, path = line.split(":", 2)
        own.update(dict.fromkeys(names.split(","), path))
    found: dict[str, Hierarchy] = {}
    for line in mounts:
        words, _, rest = line.partition(" - ")
        root, place = words.split(" ")[3:5]
        kind, _, options = rest.split(" ", 2)
        top = Path(place.encode().decode("unicode_escape"))
        if kind == "cgroup2":
            version, path = 2, own.get("", "/")
            has = frozenset(_words(top / "cgroup.controllers"))
        elif kind == "cgroup":
            version, has = 1, frozenset(options.split(","))
            path = own.get(next((name for name in _CONTROLLERS if name in has), ""), "/")
        else:
            continue
        inside = os.path.relpath(path, root)
        # A path outside of what is mounted is that of another cgroup namespace.
        inside = "" if path.startswith("/..") or inside.startswith("..") else inside
        hierarchy = Hierarchy(version, top, top / inside, has & {*_CONTROLLERS})
        for name in hierarchy.controllers:
            found.setdefault(name, hierarchy)
    return tuple(dict.fromkeys(found[name] for name in _CONTROLLERS if name in found)) if "memory" in found else ()


def memory_of_machine() -> int:
    """Bytes of memory that this process and its children may have: all, or what bounds its own cgroup."""
    bounds = [bound for hierarchy in _hierarchies()[:1] for bound in hierarchy.memory_bounds()]
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *bounds])


def processes_of_machine() -> int:
    """How many processes and threads the machine can have.

    Source: Documentation/admin-guide/sysctl/kernel.rst, "pid_max", "threads-max" (Linux 6.1).
    """
    return min(int(Path("/proc/sys/kernel", name).read_text(encoding="ascii")) for name in ("pid_max", "threads-max"))


@dataclass(slots=True)
class Group:
    """The cgroup of one program, in each hierarchy.

    Attributes:
        folders: Hierarchy -> the cgroup there.
    """

    folders: Mapping[Hierarchy, Path]
    _is_killed: bool | None = field(default=None, init=False)

    def files(self) -> list[str]:
        """What a process writes 0 into to be in it."""
        return [str(folder / "cgroup.procs") for folder in self.folders.values()]

    def has_lost(self) -> bool:
        """Whether the kernel has killed a process in it because memory ran out, there or above."""
        if self._is_killed is not None:
            return self._is_killed
        hierarchy, folder = next(iter(self.folders.items()))
        words = _words(folder / _KILLS[hierarchy.version])
        return any(name == "oom_kill" and number != "0" for name, number in pairwise(words))

    def processes(self) -> set[int]:
        """Ids of the processes in it and in what they made below it, one that is just ending included."""
        return {process for folder in self.folders.values() for process in _processes(folder)}

    def signal(self, *numbers: signal.Signals, but: int = 0) -> None:
        """Send signals, in this order, to all that is in it but one process."""
        for process in self.processes() - {0, but}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                for number in numbers:
                    os.kill(process, number)

    def kill(self) -> None:
        """Kill all that is in it, and let no process be made there any more, where that can be bounded.

        At once: what forks all the time leaves little time to others, who would have to look at each process.
        """
        for folder in self.folders.values():
            _write(folder / "pids.max", 0)
        # Since Linux 5.14, for version 2.
        if not any(_write(folder / "cgroup.kill", 1) for folder in self.folders.values()):
            self.signal(signal.SIGKILL)

    def remove(self) -> bool:
        """Remove it where no process is in it any more; may be called again."""
        self._is_killed = self.has_lost()
        return _all_removed(self.folders.values())


class Groups:
    """The cgroups of the programs of this process.

    Args:
        memory_bytes: The bound for all of them together.
        processes: That for their processes and threads.
    """

    def __init__(self, memory_bytes: int, processes: int) -> None:
        self._memory_bytes, self._processes = memory_bytes, processes
        self._parents = {hierarchy: parent for hierarchy in _hierarchies() if (parent := hierarchy.parent())}
        self._name = ""
        self._locks: list[int] = []
        self._numbers = count(1)
        self._ended: list[Group] = []
        self._running = 0
        self._has_tidied = False

    @property
    def version(self) -> int:
        """Of cgroups; 0 where this process can make none."""
        first = next(iter(self._parents), None)
        return first.version if first and "memory" in first.controllers else 0

    def make(self, memory_bytes: int | None, processes: int | None) -> Group | None:
        """A new cgroup, bounded so; None where the machine does not let us."""
        if not self.version:
            return None
        self._tidy()
        try:
            folders = self._make(f"{next(self._numbers)}")
        except OSError:
            self._forget()
            return None
        for hierarchy, folder in folders.items():
            if memory_bytes is not None and "memory" in hierarchy.controllers:
                _bound_memory(hierarchy.version, folder, memory_bytes)
            if hierarchy.version == 2:  # of cgroups
                # As a kubelet has it.
                _write(folder / "memory.oom.group", 1)
            if processes is not None and "pids" in hierarchy.controllers:
                _write(folder / "pids.max", processes)
        self._running += 1
        return Group(folders)

    def end(self, group: Group) -> None:
        """Remove the cgroup of a program that has ended, and with the last one that of this process."""
        self._running -= 1
        self._ended.append(group)
        self._tidy()

    def _tidy(self) -> None:
        self._ended = [each for each in self._ended if not each.remove()]
        if not self._running and not self._ended:
            self._forget()

    def _make(self, name: str) -> dict[Hierarchy, Path]:
        if not self._name:
            if not self._has_tidied:
                self._has_tidied = True
                remove_leftovers()
            self._name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
            for hierarchy, parent in self._parents.items():
                self._locks.append(_locked(parent / self._name))
                hierarchy.prepare(parent / self._name)
                if "memory" in hierarchy.controllers:
                    _bound_memory(hierarchy.version, parent / self._name, self._memory_bytes)
                if "pids" in hierarchy.controllers:
                    _write(parent / self._name / "pids.max", self._processes)
        folders = {hierarchy: parent / self._name / name for hierarchy, parent in self._parents.items()}
        for folder in folders.values():
            folder.mkdir()
        return folders

    def _forget(self) -> None:
        for parent in self._parents.values():
            _removed(parent / self._name) if self._name else None
        for lock in self._locks:
            os.close(lock)
        self._name, self._locks = "", []


def _bound_memory(version: int, folder: Path, memory_bytes: int) -> None:
    """Bound the memory of a cgroup, without swap beside it."""
    _write(folder / _LIMITS[version], memory_bytes)
    if version == 1:
        _write(folder / "memory.memsw.limit_in_bytes", memory_bytes)
    else:
        _write(folder / "memory.swap.max", 0)


def remove_leftovers(*, is_trial: bool = False) -> list[Path]:
    """Remove the cgroups of processes of ours that were killed, with what runs there; which there were.

    Args:
        is_trial: Only find them.
    """
    found = []
    for hierarchy in _hierarchies():
        for folder in list(_named(hierarchy.top)):
            with contextlib.suppress(OSError):
                lock = _lock(folder)
                try:
                    inner = [entry for entry in folder.iterdir() if entry.is_dir()]
                    if is_trial or (sum(not _ended(each) for each in inner) == 0 and _removed(folder)):
                        found.append(folder)
                finally:
                    os.close(lock)
    return found


def _ended(folder: Path) -> bool:
    """Kill what is in a cgroup, and remove it; False where a process stays."""
    latest = time.monotonic() + _LONGEST_KILL_S
    while not (removed := _removed(folder)) and time.monotonic() < latest:
        # One that forks is killed again.
        for process in _processes(folder):
            _kill(process)
        time.sleep(_LOOK_AGAIN_S)
    return removed


def _processes(folder: Path) -> Iterator[int]:
    """Ids of the processes in a cgroup and in those below; 0 is one that this process cannot see."""
    for inner, _, _ in os.walk(folder):
        yield from (int(word) for word in _words(Path(inner, "cgroup.procs")))


def _kill(process: int) -> None:
    """Kill a process of this cgroup namespace: the locks of another one are not seen here."""
    with contextlib.suppress(OSError):
        if process and _namespace(process) == _namespace("self"):
            os.kill(process, signal.SIGKILL)


def _namespace(process: int | str) -> Path:
    return Path(f"/proc/{process}/ns/cgroup").readlink()


def _named(top: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(top):
        yield from (Path(folder, name) for name in names if _NAME.fullmatch(name))
        names[:] = [name for name in names if not _NAME.fullmatch(name)]


def _locked(folder: Path) -> int:
    """Make a cgroup that others leave alone as long as the descriptor is open."""
    folder.mkdir()
    lock = _lock(folder)
    if not folder.is_dir():
        os.close(lock)
        raise FileNotFoundError(folder)
    return lock


def _lock(folder: Path) -> int:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _all_removed(folders: Iterable[Path]) -> bool:
    """Remove cgroups; False where one was left, as there is a process in it."""
    return sum(not _removed(folder) for folder in folders) == 0


def _removed(folder: Path) -> bool:
    """Remove a cgroup and what programs made below it; False where a process is in it."""
    for inner, _, _ in os.walk(folder, topdown=False):
        try:
            Path(inner).rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def _write(file: Path, value: object) -> bool:
    """Write a file of the kernel; False where it has none, or refuses the value."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, str(value).encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _words(file: Path) -> list[str]:
    return [word for line in _lines(file) for word in line.split()]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
