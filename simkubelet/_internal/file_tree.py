"""Files below a folder that no path leads out of, whatever links are in it and whatever becomes of them meanwhile.

A path is walked name by name. The kernel follows no link: what a link says is read as a path of the tree, in which
``..`` at the root stays at the root, as openat2(2) does with ``RESOLVE_IN_ROOT`` and ``RESOLVE_NO_MAGICLINKS``. One
call for a whole path does not do here, as parts of a node's tree lie beside the folder that is its root; a test
compares the two. Each name is opened by openat2 with ``RESOLVE_NO_XDEV`` where the kernel has it, so that what is
mounted below the folder is left alone as well. Whatever is done with the last name of a path is done in the folder
whose descriptor the walk has come to, and does not follow a link, so a folder that is replaced by a link meanwhile
leads nowhere else.

The walk and what is done at its end are one module, as nothing else may hold descriptors of a walk.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

__all__ = [
    "MOST_LEFT_LEVELS",
    "PATH_MAX",
    "FileTree",
    "Place",
    "check_path",
    "folder_without_links",
    "found_without_links",
    "is_within",
    "open_regular",
    "open_without_links",
    "remove_folder",
]

_MOST_LINKS: Final = 40
"""Source: path_resolution(7)."""
PATH_MAX: Final = 4096
"""Bytes of a path, with the NUL at its end. Source: path_resolution(7)."""
_MOST_LEVELS: Final = 1 << 16
"""Of folders in folders; who makes more of them while they are removed is not waited for."""
MOST_LEFT_LEVELS: Final = 1 << 24
"""The same where those have ended who could: more than a file system has room for."""
_NONE: Final = -1
_OPENAT2: Final = 437
_HOW: Final = struct.Struct("QQQ")
_NO_XDEV: Final = 0x01
"""Source: linux/openat2.h, ``struct open_how``, ``RESOLVE_NO_XDEV``."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOUND: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Place:
    """A name in an open folder, of something that is there or not.

    Attributes:
        folder: The descriptor of the folder.
        name: The name in it.
        path: The same in the tree, without links.
    """

    folder: int
    name: str
    path: PurePosixPath


@dataclass(frozen=True, slots=True)
class _Level:
    """A folder that the walk has come through; `_NONE` where it is there only for what is mounted below it."""

    place: Place
    folder: int


def open_without_links(path: Path, mode: str = "r", buffering: int = -1, *, make: bool = False) -> IO[Any]:
    """Open a regular file, without waiting, at a path that no folder of is a link; text is UTF-8.

    Args:
        path: Resolved, when all that made it was trusted.
        mode: As of `open`.
        buffering: The same.
        make: Whether folders above it are made where they are missing.
    """
    with ExitStack() as opened:
        walk = _Walk(FileTree(Path("/")), opened, follows=False)
        place = walk.to(str(path.absolute()), follow=False, make=make)
        return open_regular(place.name, place.folder, mode, buffering)


@contextmanager
def found_without_links(path: Path) -> Iterator[int]:
    """A descriptor of what is at a path, none of whose names is a link, that tells it from all else and no more."""
    with ExitStack() as opened:
        place = _Walk(FileTree(Path("/")), opened, follows=False).to(str(path.absolute()), follow=False, make=False)
        found = os.open(place.name, _FOUND, dir_fd=place.folder)
        opened.callback(os.close, found)
        if stat.S_ISLNK(os.fstat(found).st_mode):
            raise _error(errno.ELOOP, str(path))
        yield found


@contextmanager
def folder_without_links(path: Path) -> Iterator[int]:
    """A descriptor of the folder at a path, none of whose names is a link; what is in it is named from there."""
    with found_without_links(path) as found:
        folder = os.open(".", _FOLDER, dir_fd=found)
        try:
            yield folder
        finally:
            os.close(folder)


def check_path(path: str) -> None:
    """Refuse what no call of the kernel takes for a path: a walk would hold a descriptor for each of a million names.

    Raises:
        OSError: it is too long, or there is a NUL or half a character in it.
    """
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        raise _error(errno.EINVAL, path) from None
    if b"\0" in encoded:
        raise _error(errno.EINVAL, path)
    if len(encoded) >= PATH_MAX:
        raise _error(errno.ENAMETOOLONG, path)


def is_within(path: Path, folder: Path) -> bool:
    """Whether what is at a path of this host now is in a folder, or is it, after all links.

    Raises:
        OSError: there is nothing.
    """
    found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        # As texts: a path of a thousand names takes a millisecond to be made.
        return f"{os.readlink(f'/proc/self/fd/{found}')}/".startswith(f"{str(folder).rstrip('/')}/")  # noqa: PTH115
    finally:
        os.close(found)


class FileTree:
    """The files below a folder, by absolute paths of the tree; errors are `OSError`, as of the same calls of `os`.

    Args:
        base: The folder that nothing leads out of; its own path may have links.
        root: The part of it that is ``/`` of the tree.
        mounts: Path in the tree -> the part of `base` that is seen there.
    """

    def __init__(self, base: Path, root: str = ".", mounts: Mapping[str, str] | None = None) -> None:
        self.base = base
        self.root = root
        self.mounts = {PurePosixPath(path): part for path, part in (mounts or {}).items()}

    def meaning_of(self, target: str) -> str | PurePosixPath:
        """What a link says as a path of the tree, or the part of the base that no path of the tree leads to.

        An absolute link into the base by its path on this host is one of ours: it leads to what lies beside the root.
        """
        pure = PurePosixPath(target)
        bases = {self.base.absolute(), self.base.resolve()} if pure.is_absolute() and ".." not in pure.parts else ()
        for base in bases:
            if pure.is_relative_to(base):
                part = pure.relative_to(base)
                for path, seen in {**self.mounts, PurePosixPath("/"): self.root}.items():
                    if part.is_relative_to(seen):
                        return str(path / part.relative_to(seen))
                return part
        return target

    @contextmanager
    def place(self, path: str, *, follow: bool = False, make: bool = False) -> Iterator[Place]:
        """Find the folder of a path, and keep it open.

        Args:
            path: Absolute in the tree.
            follow: Whether a link at the path itself is followed too.
            make: Whether folders above the path are made where they are missing; not those that a link names.
        """
        check_path(path)
        with ExitStack() as opened:
            yield _Walk(self, opened).to(path, follow, make)

    def open(self, path: str, mode: str = "r", *, make: bool = False) -> IO[Any]:
        """Open a regular file, without waiting; text is UTF-8. A new one (``x``) takes no link's place."""
        with self.place(path, follow="x" not in mode, make=make) as place:
            return open_regular(place.name, place.folder, mode)

    def stat(self, path: str, *, follow: bool = True) -> os.stat_result:
        """Return the status of what is at a path."""
        with self.place(path, follow=follow) as place:
            return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)

    def has(self, path: str, *, follow: bool = True) -> bool:
        """Whether there is something at a path, or something that cannot be seen."""
        try:
            self.stat(path, follow=follow)
        except OSError as error:
            return error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
        return True

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at a path, or a link to one."""
        with suppress(OSError):
            return stat.S_ISDIR(self.stat(path).st_mode)
        return False

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder."""
        with self.folder(path) as folder:
            return sorted(os.listdir(folder))  # noqa: PTH208  # by its descriptor

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Open a folder to be read."""
        with self.place(path, follow=True) as place:
            descriptor = _open_here(place.name, _FOLDER, place.folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def real_path(self, path: str) -> Path:
        """Return the path on this host of what is at a path, without links, for a program that is given it."""
        with self.place(path, follow=True) as place:
            found = os.open(place.name, _FOUND, dir_fd=place.folder)
            try:
                return Path(os.readlink(f"/proc/self/fd/{found}"))  # noqa: PTH115  # no path by itself
            finally:
                os.close(found)

    def make_folder(self, path: str, mode: int = 0o777, *, exist_ok: bool = False) -> None:
        """Make a folder, and those above it where they are missing."""
        with self.place(path, make=True) as place:
            try:
                os.mkdir(place.name, mode, dir_fd=place.folder)
            except FileExistsError:
                if not (exist_ok and self.is_folder(path)):
                    raise

    def link(self, path: str, other: FileTree, its_path: str) -> None:
        """Make another name for a file, which may be of another tree; of a link for the link itself."""
        with other.place(its_path) as old, self.place(path, make=True) as new:
            os.link(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder, follow_symlinks=False)

    def rename(self, path: str, other: FileTree, to: str) -> None:
        """Move a file or a folder, to a folder that exists and may be of another tree."""
        with self.place(path) as old, other.place(to) as new:
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)

    def date(self, path: str, date_s: float) -> None:
        """Set the time at which a file was changed last."""
        with self.place(path, follow=True) as place:
            os.utime(place.name, (date_s, date_s), dir_fd=place.folder, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """Remove a file; of a link the link itself."""
        with self.place(path) as place:
            os.unlink(place.name, dir_fd=place.folder)

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; a link to one is none."""
        with self.place(path) as place:
            remove_folder(place.name, place.folder)

    def clear(self, path: str) -> None:
        """Remove all that is in a folder."""
        with self.folder(path) as folder:
            _empty(folder)


class _Walk:
    """One way through a tree; `opened` takes the descriptors."""

    def __init__(self, tree: FileTree, opened: ExitStack, *, follows: bool = True) -> None:
        self._tree = tree
        self._most_links = _MOST_LINKS if follows else 0
        self._above_mounts = {above for path in tree.mounts for above in path.parents}
        self._opened = opened
        self._base_folder = os.open(tree.base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, self._base_folder)
        place = self._part(tree.root, PurePosixPath("/"))
        self._levels = [_Level(place, self._open(place.name, place.folder, _FOUND | os.O_DIRECTORY))]

    def to(self, path: str, follow: bool, make: bool) -> Place:
        """Walk a path; see `FileTree.place`."""
        pending = [(name, make) for name in reversed(_names(path))]
        links, wants_folder = 0, _wants_folder(path)
        while pending:
            name, may_make = pending.pop()
            is_last = not pending
            if name == "..":
                if len(self._levels) > 1:
                    self._levels.pop()
                continue
            place = self._below(name)
            if place.folder == _NONE and is_last:
                raise _error(errno.ENOENT, path)
            found = self._found(place, may_make and not is_last)
            if found is not None and stat.S_ISLNK(os.fstat(found).st_mode) and (follow or wants_folder or not is_last):
                links += 1
                if links > self._most_links:
                    raise _error(errno.ELOOP, path)
                target = self._tree.meaning_of(os.readlink("", dir_fd=found))  # by its descriptor
                if isinstance(target, str):
                    if target.startswith("/"):
                        del self._levels[1:]
                    wants_folder |= is_last and _wants_folder(target)
                    pending += [(name, False) for name in reversed(_names(target))]
                    continue
                place = self._part(str(target), place.path)
                found = self._found(place, False)
            if is_last and (found is None or not wants_folder):
                return place
            self._enter(place, found)
        return self._levels[-1].place

    def _below(self, name: str) -> Place:
        level = self._levels[-1]
        path = level.place.path / name
        if (part := self._tree.mounts.get(path)) is not None:
            return self._part(part, path)
        return Place(level.folder, name, path)

    def _part(self, part: str, path: PurePosixPath) -> Place:
        """The place of a part of the base, whose names are no links."""
        *above, name = _names(part) or ["."]
        folder = self._base_folder
        for one in above:
            folder = self._open(one, folder, _FOUND | os.O_DIRECTORY)
        return Place(folder, name, path)

    def _found(self, place: Place, make: bool) -> int | None:
        """What is there, opened; made where it is missing and shall be."""
        if place.folder == _NONE:
            return None
        with suppress(FileNotFoundError):
            return self._open(place.name, place.folder, _FOUND)
        if not make:
            return None
        with suppress(FileExistsError):
            os.mkdir(place.name, dir_fd=place.folder)
        return self._open(place.name, place.folder, _FOUND)

    def _enter(self, place: Place, found: int | None) -> None:
        if found is None and place.path not in self._above_mounts:
            raise _error(errno.ENOENT, str(place.path))
        if found is not None and not stat.S_ISDIR(os.fstat(found).st_mode):
            raise _error(errno.ENOTDIR, str(place.path))
        if len(self._levels) >= PATH_MAX // 2:
            # No path is so deep that has no links.
            raise _error(errno.ENAMETOOLONG, str(place.path))
        self._levels.append(_Level(place, _NONE if found is None else found))

    def _open(self, name: str, folder: int, flags: int) -> int:
        crosses_mounts = self._most_links == 0
        descriptor = os.open(name, flags, dir_fd=folder) if crosses_mounts else _open_here(name, flags, folder)
        self._opened.callback(os.close, descriptor)
        return descriptor


def open_regular(name: str, folder: int, mode: str, buffering: int = -1) -> IO[Any]:
    """Open a regular file in an open folder, without waiting; text is UTF-8."""

    def opener(name: str, flags: int) -> int:
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666, dir_fd=folder)
        except BlockingIOError as error:
            # Source: fcntl(2), "Leases".
            raise BlockingIOError(error.errno, "is kept by a lease of another process", name) from None
        found = os.fstat(descriptor).st_mode
        if stat.S_ISREG(found):
            return descriptor
        os.close(descriptor)
        raise _error(errno.EISDIR if stat.S_ISDIR(found) else errno.EINVAL, name)

    return open(name, mode, buffering, encoding=None if "b" in mode else "utf-8", opener=opener)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in {"", "."}]


def _wants_folder(path: str) -> bool:
    """Whether a path cannot be one of a file, by its end."""
    return path.rpartition("/")[2] in {"", "."}


def remove_folder(name: str, folder: int, most_levels: int = _MOST_LEVELS) -> None:
    """Remove a folder in an open one with all that is in it, but for what is mounted there."""
    _take(name, folder)
    top = _open_here(name, _FOLDER, folder)
    try:
        _empty(top, most_levels)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=folder)


def _empty(top: int, most_levels: int = _MOST_LEVELS) -> None:
    """Remove all that is in a folder, but for what is mounted there.

    Folders in folders are moved up first: `shutil.rmtree` goes down by recursion before Python 3.13, with a descriptor
    for each level, and into what is mounted. They get names that nobody can have made before.
    """
    prefix, moved = f".{os.urandom(8).hex()}", count()
    for _ in range(most_levels):
        names = os.listdir(top)  # by its descriptor
        if not names:
            return
        for name in names:
            if not _is_folder(name, top):
                os.unlink(name, dir_fd=top)
                continue
            _take(name, top)
            inner = _open_here(name, _FOLDER, top)
            try:
                for below in os.listdir(inner):  # noqa: PTH208  # by its descriptor
                    if not _is_folder(below, inner):
                        os.unlink(below, dir_fd=inner)
                    elif not _is_removed(below, inner):
                        _take(below, inner)
                        os.rename(below, f"{prefix}-{next(moved)}", src_dir_fd=inner, dst_dir_fd=top)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=top)
    raise _error(errno.ENOTEMPTY, "")


def _take(name: str, folder: int) -> None:
    """Let us enter and change a folder that is ours and about to be removed: a program may have forbidden it."""
    found = _open_here(name, _FOUND | os.O_DIRECTORY, folder)
    try:
        if os.fstat(found).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(PermissionError):
                os.chmod(f"/proc/self/fd/{found}", stat.S_IRWXU)  # noqa: PTH101  # no path by itself
    finally:
        os.close(found)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _is_removed(name: str, folder: int) -> bool:
    """Remove a folder if it is empty: one that nobody may write could not be moved."""
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _open_here(name: str, flags: int, folder: int) -> int:
    """Open a name in a folder; not what is mounted there, where the kernel can tell."""
    how = _HOW.pack(flags, 0, _NO_XDEV)
    found: int = _libc.syscall(_OPENAT2, folder, os.fsencode(name), how, len(how))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number not in {errno.ENOSYS, errno.EPERM}:
        raise _error(number, name)
    return os.open(name, flags, dir_fd=folder)


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
