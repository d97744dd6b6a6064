"""How what a view shows gets to its place: by mounts in a namespace of our own, or by a table that a supervisor reads.

Both lie over the same storage, a tree of stand-ins. Run by a bare Python, so nothing of the package is imported here.

Kernel facts: mount_namespaces(7).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Protocol

from .isolation import call

MS_BIND, MS_REC = 4096, 16384
_MS_RDONLY, _MS_NOSUID, _MS_NOEXEC, _MS_REMOUNT, _MS_UNBINDABLE = 1, 2, 8, 32, 1 << 17
_MS_RELATIME, _MS_STRICTATIME = 1 << 21, 1 << 24
_OPTIONS = {
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "noatime": 1024,
    "nodiratime": 2048,
    "relatime": _MS_RELATIME,
    "nosymfollow": 256,
}
FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
TERMINALS, _MULTIPLEXER = "/dev/pts", "/dev/ptmx"
_CONSOLE, _VIRTUAL_CONSOLES, _FIRST_SERIAL = (5, 1), 4, 64
"""Device numbers. Source: Documentation/admin-guide/devices.txt (Linux 6.1)."""
PROC = "/proc"
"""Its entries come and go with the processes, so it is shown as a whole, and what a node has there is laid over it."""


class Bindings(Protocol):
    """What is shown where; paths are those of the view, files those that `os.open` with `O_PATH` gave."""

    def begin(self, storage: int) -> int:
        """Show the storage as the root; the descriptor of that."""
        ...

    def bind(self, found: int, there: int, path: str, *, is_nodes: bool) -> None:
        """Show a file or folder over its stand-in `there`, to be written where it is the node's."""
        ...

    def cover(self, found: int, path: str, *, is_nodes: bool = False) -> None:
        """Show it over what the view has at a path."""
        ...

    def hide(self, path: str) -> None:
        """Show an empty folder over the one that the view has at a path."""
        ...

    def place(self, path: str) -> str:
        """Where this process finds what the view shows at a path."""
        ...

    def has(self, path: str) -> bool:
        """Whether there is something at a path of the view that leads through no link."""
        ...

    def can_show(self, path: str) -> bool:
        """Whether something can be shown in /proc at a path that the host may lack."""
        ...


class Mounts:
    """Mounts in the namespace of this process; `finish` takes the right to write from all but the node's own."""

    def __init__(self, storage: str) -> None:
        self._storage = storage
        self._top = -1
        self._writable = {storage, storage + PROC}

    def begin(self, storage: int) -> int:
        mount(storage, storage, MS_BIND)
        self._top = os.open(self._storage, FOLDER)
        # What is bound from a folder above the storage would take all that is mounted here along.
        call("mount", None, fd(self._top), None, _MS_UNBINDABLE, None)
        return self._top

    def bind(self, found: int, there: int, path: str, *, is_nodes: bool) -> None:
        mount(found, there, MS_BIND if is_nodes else MS_BIND | MS_REC)
        if is_nodes:
            self._writable.add(self._storage + path)

    def cover(self, found: int, path: str, *, is_nodes: bool = False) -> None:
        there = os.open(self.place(path), os.O_PATH)
        self.bind(found, there, path, is_nodes=is_nodes)
        os.close(there)

    def hide(self, path: str) -> None:
        there = os.open(self.place(path), os.O_PATH)
        call("mount", b"none", fd(there), b"tmpfs", _MS_RDONLY, None)
        os.close(there)

    def place(self, path: str) -> str:
        return f"/proc/self/fd/{self._top}{path}"

    def has(self, path: str) -> bool:
        try:
            there = os.open(self.place(path), os.O_PATH)
        except OSError:
            return False
        # A link of the view leads through our own root from here.
        found = os.fsdecode(os.readlink(fd(there)))
        os.close(there)
        return found == self._storage + path

    def can_show(self, path: str) -> bool:
        # Nothing can be made there.
        return os.path.lexists(path)

    def protect_processes(self) -> None:
        """Take the right to write what /proc has of processes other than this one."""
        path = f"{PROC}/{os.getpid()}"
        own = os.open(self.place(path), os.O_PATH)
        self.cover(own, path, is_nodes=True)
        os.close(own)
        self._writable.remove(self._storage + PROC)

    def separate_terminals(self, consoles: Iterable[str]) -> None:
        """Show terminals of the program's own: those of the host obey and print for each that may open them."""
        for path in consoles:
            self.cover_file(path, "/dev/null")
        if not self.has(TERMINALS):
            return
        there, options = os.open(self.place(TERMINALS), os.O_PATH), b"newinstance,ptmxmode=0666,mode=0620"
        try:
            call("mount", b"devpts", fd(there), b"devpts", _MS_NOSUID | _MS_NOEXEC, options)
            self._writable.add(self._storage + TERMINALS)
            self.cover_file(_MULTIPLEXER, self.place(f"{TERMINALS}/ptmx"))
        except OSError:
            self.hide(TERMINALS)
        finally:
            os.close(there)

    def cover_file(self, path: str, source: str) -> None:
        """Show a file of the host over one that the view may have."""
        if self.has(path):
            found = os.open(source, os.O_PATH)
            self.cover(found, path)
            os.close(found)

    def finish(self) -> None:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            # Of mounts over one another the last one is reached, and may not lose what it is locked to.
            rows = {row[4]: row for row in (line.split(" ") for line in file)}
        for row in rows.values():
            place = os.fsdecode(os.fsencode(row[4]).decode("unicode_escape").encode("latin-1"))
            if place.startswith(f"{self._storage}/") and place not in self._writable:
                options = set(row[5].split(","))
                flags = sum(flag for name, flag in _OPTIONS.items() if name in options)
                if not options & {"relatime", "noatime"}:
                    flags |= _MS_STRICTATIME
                try:
                    call("mount", None, os.fsencode(place), None, _MS_REMOUNT | MS_BIND | _MS_RDONLY | flags, None)
                except OSError as error:
                    # What another mount covers, or a folder of another user, is out of reach for the program too.
                    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EINVAL}:
                        raise


class Table:
    """Real paths, for a supervisor that translates those of the program; `finish` writes it down.

    Source of the form: ``native/view/table.c``, ``load_bindings``.
    """

    def __init__(self, storage: str) -> None:
        self._empty = f"{storage}-empty"
        self._shown: dict[str, tuple[str, bool]] = {}

    def begin(self, storage: int) -> int:
        self.bind(storage, storage, "", is_nodes=True)
        return storage

    def bind(self, found: int, there: int, path: str, *, is_nodes: bool) -> None:
        self.show(path, os.fsdecode(os.readlink(fd(found))), is_writable=is_nodes or path == PROC)

    def cover(self, found: int, path: str, *, is_nodes: bool = False) -> None:
        for below in [one for one in self._shown if one.startswith(f"{path}/")]:
            del self._shown[below]
        self.bind(found, -1, path, is_nodes=is_nodes)

    def hide(self, path: str) -> None:
        os.makedirs(self._empty, exist_ok=True)
        self.show(path, self._empty)

    def show(self, path: str, real: str, *, is_writable: bool = False) -> None:
        """Let a path of the view, empty for its root, be a real one."""
        self._shown[path] = real, is_writable

    def above(self, path: str) -> str:
        """The innermost path that shows something, of this one and those above it."""
        while path not in self._shown:
            path = path.rpartition("/")[0]
        return path

    def place(self, path: str) -> str:
        above = self.above(path)
        return self._shown[above][0] + path[len(above) :]

    def has(self, path: str) -> bool:
        return os.path.lexists(self.place(path))

    def can_show(self, path: str) -> bool:
        return True

    def finish(self) -> int:
        """The descriptor of a file that has all of it."""
        rows = (f"{'w' if is_own else 'r'}\0{path}\0{real}\0" for path, (real, is_own) in self._shown.items())
        file = os.memfd_create("view", 0)
        os.write(file, os.fsencode("".join(rows)))
        return file


def consoles() -> Iterator[str]:
    """The host's terminals in /dev itself that this process may write to."""
    for entry in os.scandir("/dev"):
        found = entry.stat(follow_symlinks=False)
        number = os.major(found.st_rdev), os.minor(found.st_rdev)
        is_terminal = number == _CONSOLE or (number[0] == _VIRTUAL_CONSOLES and number[1] < _FIRST_SERIAL)
        if stat.S_ISCHR(found.st_mode) and is_terminal and os.access(entry.path, os.W_OK):
            yield entry.path


def mount(source: int, there: int, flags: int) -> None:
    """Mount one open file or folder over another."""
    call("mount", fd(source), fd(there), None, flags, None)


def fd(number: int) -> bytes:
    """The path of an open file."""
    return b"/proc/self/fd/%d" % number
