"""Processes by a mark in their environment, which whatever they start inherits, and the sockets that they have.

A program can start others without its environment; `family` knows these by what else they inherit.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

MARK: Final = "SIMKUBELET_PLUGIN"
"""The variable that holds the mark."""


_FORKED_BY_KERNEL: Final = 0x00200000
"""PF_KTHREAD among the flags of /proc/PID/stat, see proc(5)."""

_ENDS: Final = 0x00000004
"""PF_EXITING, the same."""

_EXEC_LIMIT_S: Final = 1.0
"""How long a process may take to put its new environment in place, on a machine that lets others run meanwhile.

Nothing else happens in the event loop meanwhile, and a plugin gives a kubelet five seconds to accept its connection.
"""

_ENTRY: Final = f"\0{MARK}=".encode()

LOOK_AGAIN_S: Final = 0.001

_NS_GET_PARENT: Final = 0xB702
"""Source: ioctl_ns(2)."""

Key: TypeAlias = tuple[str, str | int]
"""What a process inherits: its mark, its session, or its user namespace."""

_CHUNK_BYTES: Final = 1 << 14
_MOST_CHUNKS: Final = (6 << 20) // _CHUNK_BYTES
"""Source: Linux v6.1, fs/exec.c, ``_STK_LIM / 4 * 3``: the most that an exec takes."""

_WITHOUT_HANDLES: Final = {errno.ENOSYS, errno.EPERM}
"""With which pidfd_open(2) fails where the kernel, or what filters its calls, does not have it."""


def signal_marked(mark: str, *numbers: signal.Signals) -> int:
    """Signal every process with a mark, those included that left the session of the first; how many there were.

    Args:
        mark: Theirs.
        numbers: The signals, which each process gets in this order.
    """
    return signal_all(partial(_has_mark, mark), _marked(mark), *numbers)


async def terminate_marked(mark: str, but: int) -> None:
    """Ask every process with a mark to end, but one; what is paused goes on for that."""
    pids = [pid for pid in (await found()).get(("mark", mark), ()) if pid != but]
    signal_all(partial(_has_mark, mark), pids, signal.SIGTERM, signal.SIGCONT)


def signal_first(mark: str, number: signal.Signals) -> int:
    """Signal the process with a mark whose parent has none, if it has a handler; how many have the mark."""
    pids = _marked(mark)
    for pid in pids:
        with contextlib.suppress(OSError), _held(pid, partial(_has_mark, mark)) as send:
            if parent_of(pid) not in pids and catches(pid, number):
                send(number)
    return len(pids)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal; one that has ended has none."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def owns_socket(mark: str, name: str) -> bool:
    """Whether a process with a mark listens on a Unix socket whose path ends with this name."""
    # The kernel gives the table in pieces: one reading in thousands misses a socket, as others come and go meanwhile.
    return any(_holds(pid, _socket_inodes(pid, name) | _socket_inodes(pid, name)) for pid in _marked(mark))


class Use(NamedTuple):
    """What processes use of the machine, added up."""

    open_files: int
    threads: int
    memory_bytes: int
    cpu_s: float
    waited_s: float
    """What their threads waited for a core."""


NO_USE: Final = Use(0, 0, 0, 0.0, 0.0)


def use_of_marked(mark: str) -> Use:
    """What the processes with a mark use; those that have ended meanwhile use nothing."""
    uses = [_use(pid) for pid in _marked(mark)]
    return Use(*(sum(column) for column in zip(*uses, strict=True))) if uses else NO_USE


def _use(pid: int) -> Use:
    """Source: proc(5): /proc/PID/fd, fields 14, 15 and 20 of /proc/PID/stat, field 2 of /proc/PID/statm in pages.

    A kernel without schedstat counts nobody's waits.
    """
    folder = Path(f"/proc/{pid}")
    try:
        files = sum(1 for _ in (folder / "fd").iterdir())
        fields = (folder / "stat").read_text(errors="replace").rpartition(") ")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
    except OSError:
        return NO_USE
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    waited_s = sum(map(waited_for_core, folder.glob("task/*")))
    return Use(files, int(fields[17]), pages * os.sysconf("SC_PAGE_SIZE"), cpu_s, waited_s)


def waited_for_core(task: Path) -> float:
    """Seconds that a thread could have run and did not, by its folder in /proc; 0 where the kernel does not say.

    Source: Linux, Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat.
    """
    try:
        return int((task / "schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _socket_inodes(pid: int, name: str) -> frozenset[str]:
    """Inodes of the Unix sockets in a process's network that are bound to a path with this end, wherever that leads."""
    try:
        rows = Path(f"/proc/{pid}/net/unix").read_text(errors="replace").splitlines()[1:]
    except OSError:
        return frozenset()
    columns: list[Sequence[str]] = [row.split(maxsplit=7) for row in rows]
    return frozenset(row[6] for row in columns if len(row) == 8 and f"/{row[7]}".endswith(f"/{name}"))


def signal_all(is_meant: Callable[[int], bool], pids: Collection[int], *numbers: signal.Signals) -> int:
    """Signal those of some processes that are meant; how many there were."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError), _held(pid, is_meant) as send:
            for number in numbers:
                send(number)
    return len(pids)


@contextlib.contextmanager
def _held(pid: int, is_meant: Callable[[int], bool]) -> Iterator[Callable[[signal.Signals], None]]:
    """A way to signal a process that reaches no other one which gets its id meanwhile.

    Raises:
        ProcessLookupError: it has ended, or the id is by now that of a process which is not meant.
    """
    try:
        process = os.pidfd_open(pid)
    except OSError as error:
        if error.errno not in _WITHOUT_HANDLES:
            raise
        yield lambda number: os.kill(pid, number)
        return
    try:
        if not is_meant(pid):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        yield lambda number: signal.pidfd_send_signal(process, number)
    finally:
        os.close(process)


def _marked(mark: str) -> list[int]:
    """Ids of the processes that inherited a mark."""
    return _all().get(("mark", mark), [])


async def found() -> Mapping[Key, list[int]]:
    """What there is to inherit -> the ids of the processes that did, by a look that begins after the call.

    All that ask in the same iteration of the event loop share one look: otherwise the end of a thousand plugins would
    be two thousand looks at a thousand processes.
    """
    loop = asyncio.get_running_loop()
    if (look := _looks.get(loop)) is None:
        look = _looks[loop] = loop.create_future()
        loop.call_soon(_look, loop)
    # One that is cancelled leaves the look to the others.
    return await asyncio.shield(look)


_looks: Final = WeakKeyDictionary[asyncio.AbstractEventLoop, "asyncio.Future[Mapping[Key, list[int]]]"]()
"""Event loop -> its next look."""


def _look(loop: asyncio.AbstractEventLoop) -> None:
    look = _looks.pop(loop)
    try:
        look.set_result(_all())
    except OSError as error:
        look.set_exception(error)


def _all() -> Mapping[Key, list[int]]:
    """What there is to inherit -> the ids of the processes that did."""
    by_key = defaultdict[Key, list[int]](list)
    limit = time.monotonic() + _EXEC_LIMIT_S
    for name in os.listdir("/proc"):  # noqa: PTH208  # a path for each process costs as much
        if name.isdigit():
            for key in keys_of(int(name), limit):
                by_key[key].append(int(name))
    return by_key


def keys_of(pid: int, limit: float | None = None) -> Iterator[Key]:
    """What a process has inherited, as far as this one may know; `limit` as for a mark."""
    with contextlib.suppress(OSError):
        yield "session", os.getsid(pid)
    with contextlib.suppress(OSError):
        yield from (("user", namespace) for namespace in user_namespaces(pid))
    with contextlib.suppress(OSError):
        if (mark := _mark_of(pid, limit)) is not None:
            yield "mark", mark


def user_namespaces(pid: int) -> Sequence[int]:
    """The user namespace directly below ours that a process is in or below; empty where it is in ours or elsewhere."""
    link, own = f"/proc/{pid}/ns/user", _own_user_namespace()
    if os.readlink(link) == own:  # noqa: PTH115  # a path for each process costs as much
        return ()
    inner, above = 0, os.open(link, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while f"user:[{os.fstat(above).st_ino}]" != own:
            inner, below = os.fstat(above).st_ino, above
            above = fcntl.ioctl(below, _NS_GET_PARENT)
            os.close(below)
    finally:
        os.close(above)
    return (inner,)


@cache
def _own_user_namespace() -> str:
    return os.readlink("/proc/self/ns/user")  # noqa: PTH115  # as it is compared


def _has_mark(mark: str, pid: int) -> bool:
    return _mark_of(pid) == mark


def is_marked(pid: int) -> bool:
    """Whether a plugin has started a process, of this command or of another one."""
    return _mark_of(pid) is not None


def _mark_of(pid: int, limit: float | None = None) -> str | None:
    """The mark that a process inherited; `limit` is until when all of a look wait for those in an exec."""
    _, is_marked, rest = (b"\0" + _environment(pid, limit)).partition(_ENTRY)
    return os.fsdecode(rest.partition(b"\0")[0]) if is_marked else None


def parent_of(pid: int) -> int:
    """The id of a process's parent, also of one that has ended, field 4 of /proc/PID/stat."""
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[1])


def _environment(pid: int, limit: float | None = None) -> bytes:
    """The environment of a process, the new one where it is in the middle of an exec.

    A process may have unmapped its own, or say that it is anywhere in its memory: nobody waits for that, or reads more
    than an environment can have.

    Source: Linux v6.1, fs/proc/base.c, ``environ_read``: nothing is read until the environment is in place, and nothing
    any more once the memory that was opened has been replaced.
    """
    place: tuple[int, int] | None = None
    limit = time.monotonic() + _EXEC_LIMIT_S if limit is None else limit
    while not (environment := _read(f"/proc/{pid}/environ")) and time.monotonic() < limit:
        last, place = place, _environment_place(pid)
        # An exec puts it at another place, and says where it ends when it is there.
        if place is None or (place == last and place[0] <= place[1] != 0):
            break
        time.sleep(LOOK_AGAIN_S)
    return environment


def _environment_place(pid: int) -> tuple[int, int] | None:
    """Where the environment begins and ends in memory; None for a kernel thread and for a process that has ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    state, flags, begin, end = fields[0], int(fields[6]), int(fields[47]), int(fields[48])
    return None if state in b"ZX" or flags & (_FORKED_BY_KERNEL | _ENDS) else (begin, end)


def _read(path: str) -> bytes:
    """The whole of a file of /proc, as far as the kernel lets one be; a file object costs more than what it reads."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while len(parts) < _MOST_CHUNKS and (part := os.read(descriptor, _CHUNK_BYTES)):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _holds(pid: int, inodes: frozenset[str]) -> bool:
    wanted = {f"socket:[{inode}]" for inode in inodes}
    with contextlib.suppress(OSError):
        return any(str(entry.readlink()) in wanted for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False
