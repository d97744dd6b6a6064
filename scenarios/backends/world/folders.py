"""Folders of ours: each is marked and locked by its maker, and nothing without the mark is ever cleared or removed.

A folder is ours where it has the file `MARK` with our text, and in use as long as its lock is held; the kernel releases
a lock however its process ends. The mark is written once the lock is held and removed last, so that a process killed at
any moment leaves a marked folder or an empty one. Entries are reached through descriptors: no link is followed, be it
the folder, an entry, or put there meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import re
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final

from simkubelet.model.errors import HostError, InputError
from simkubelet.node_tree import MOST_LEFT_LEVELS, remove_folder

MARK: Final = ".simkubelet"
"""The file in a folder that says that it is ours."""
PREFIX: Final = "sk-"
"""Short, as sockets are made below these folders."""
CAMPAIGN_PREFIX: Final = "sk-camp-"
"""Of the folder of a campaign."""
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # a folder of its own is made there
ROOM_BYTES: Final = 1 << 30
"""What has to be free in memory for folders to be made there."""

_DESCRIPTORS: Final = Path("/proc/self/fd")
_TEXT: Final = b"# Made by simkubelet, which removes this folder with all that is in it.\n"
_SYSTEMS: Final = Path("/tmp")  # noqa: S108  # only compared
_TEMPORARY: Final = ("TMPDIR", "TEMP", "TMP")
_NAME: Final = re.compile(r"sk-(camp-)?[a-z0-9_]{8}")
_KEPT: Final = 10
_EMPTY_FOR_S: Final = 3600.0
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderTakenError(Exception):
    """Another process uses the folder."""


class ForeignFolderError(Exception):
    """What is there is not ours; the message says what it is."""


class OwnFolder:
    """A folder of ours, locked until it is removed or this process ends.

    Attributes:
        path: Where it is.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._is_open = True

    def clear(self) -> None:
        """Remove all that is in it.

        Raises:
            HostError: It cannot be removed.
        """
        with self._as_host_error():
            _clear(self._descriptor, [PurePath(MARK)])

    def remove(self, but: Collection[Path] = ()) -> None:
        """Remove it with all that is in it, except for some files and the folders that lead to them.

        With such files it stays locked until this process ends, so that no other one removes them before.

        Raises:
            HostError: It cannot be removed.
        """
        with self._as_host_error():
            _clear(self._descriptor, [PurePath(MARK), *(file.relative_to(self.path) for file in but)])
            if but:
                return
            with suppress(FileNotFoundError):
                os.unlink(MARK, dir_fd=self._descriptor)
            self.path.rmdir()
        self.release()

    def release(self) -> None:
        """Unlock it; it stays where it is. May be called twice."""
        if self._is_open:
            self._is_open = False
            # Forked processes have the descriptor, too.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)

    @contextmanager
    def _as_host_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = self.path / (error.filename if isinstance(error.filename, str) else "")
            raise HostError(f"{place}: cannot be removed: {error.strerror}; remove it by hand") from None


def new_folder(base: Path | None, prefix: str = PREFIX) -> OwnFolder:
    """Make a new folder.

    Args:
        base: Where; it is made where it does not exist. `default_place` where it is None; there all but the newest of
            those that earlier processes have left are removed.
        prefix: Of its name.

    Raises:
        InputError: No folder can be made there.
        HostError: There is no space left, or no /proc.
    """
    _check_proc()
    place = Path(os.path.realpath(base or default_place()))
    if base is None:
        _remove_old(place)
    try:
        place.mkdir(parents=True, exist_ok=True)
        while True:
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            # A process that removes what others have left may find it empty before it is locked.
            with suppress(FileNotFoundError, FolderTakenError), _gone_after_failure(path):
                return _marked(path, _locked(path))
    except OSError as error:
        kind = HostError if error.errno == errno.ENOSPC else InputError
        raise kind(f"{place}: no folder can be made here: {error.strerror}; choose another with --dir") from None
    except RecursionError:
        raise InputError(f"{place}: no folder can be made here: too many names; choose another with --dir") from None


def default_place() -> Path:
    """Where folders are made by default: in memory if there is room and programs may run there, else on the disk.

    A node is some 300 files, and to make and remove them on a disk takes a third of a story's processor time. A place
    for temporary files that the user has chosen is taken as it is.

    Raises:
        OSError: There is no place for temporary files.
    """
    place = Path(tempfile.gettempdir())
    is_chosen = place != _SYSTEMS or any(os.environ.get(name) for name in _TEMPORARY)
    return SHARED_MEMORY if not is_chosen and _has_room(SHARED_MEMORY) else place


def _has_room(memory: Path) -> bool:
    """Whether new folders may be made in a place, programs run from there, and enough of it be free."""
    try:
        found = os.statvfs(memory)
    except OSError:
        return False
    is_usable = not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY) and os.access(memory, os.W_OK | os.X_OK)
    return is_usable and found.f_bavail * found.f_frsize >= ROOM_BYTES


def _check_proc() -> None:
    """Check that there is /proc, by which processes and open files are found.

    Raises:
        HostError: There is not.
    """
    if not _DESCRIPTORS.is_dir():
        raise HostError("/proc is not mounted here; mount it with 'mount -t proc proc /proc'")


@contextmanager
def _gone_after_failure(made: Path) -> Iterator[None]:
    """Remove a folder that was made if it cannot be used, where it is empty."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            made.rmdir()
        raise


def claim_folder(path: Path) -> OwnFolder:
    """Make a folder of a certain name, or take and clear one that a killed process of ours has left.

    Raises:
        FolderTakenError: Another process uses it.
        ForeignFolderError: There is a link or a file, or a folder with content of somebody else.
        HostError: What was left cannot be removed, or there is no /proc.
        OSError: It cannot be made.
    """
    _check_proc()
    while True:
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        try:
            descriptor = _locked(path)
        except FileNotFoundError:
            # Who ended just now has removed it.
            continue
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise ForeignFolderError("is a link or a file") from None
            raise
        try:
            if not _is_ours(descriptor):
                raise ForeignFolderError("has files that are not of simkubelet")
            folder = _marked(path, descriptor)
            folder.clear()
        except BaseException:
            os.close(descriptor)
            raise
        return folder


@contextmanager
def own_folder(base: Path | None) -> Iterator[Path]:
    """A new folder that goes in the end with all that is in it; see `new_folder`.

    Raises:
        HostError: It cannot be removed.
    """
    folder = new_folder(base)
    try:
        yield folder.path
    finally:
        folder.remove()


def left_folders(place: Path, name: re.Pattern[str] = _NAME) -> Iterator[OwnFolder]:
    """Give the folders of ours in a place that no process uses; each is locked until the next one is asked for.

    Args:
        place: Where to look; nothing is found where it cannot be read.
        name: Of the folders.
    """
    try:
        entries = sorted(os.listdir(place))  # noqa: PTH208  # the names
    except OSError:
        return
    for entry in entries:
        if not name.fullmatch(entry):
            continue
        path = place / entry
        try:
            descriptor = _locked(path)
        except (OSError, FolderTakenError):
            # Another user's, a link, in use, or gone.
            continue
        folder = OwnFolder(path, descriptor)
        status = os.fstat(descriptor)
        # Who has made an empty one may be about to mark it, or be another program that names its folders so.
        is_left = _is_marked(descriptor) or status.st_mtime < time.time() - _EMPTY_FOR_S
        if status.st_uid == os.geteuid() and is_left and _is_ours(descriptor):
            yield folder
        folder.release()


def is_in_use(path: Path) -> bool:
    """Whether a process uses a folder."""
    try:
        os.close(_locked(path))
    except FolderTakenError:
        return True
    except OSError:
        pass
    return False


def remove_left(place: Path, prefix: str) -> None:
    """Remove the folders of ours with a prefix that killed processes have left in a place."""
    for folder in left_folders(place, re.compile(re.escape(prefix) + "[a-z0-9_]{8}")):
        with suppress(HostError):
            folder.remove()


@functools.cache
def _remove_old(place: Path) -> None:
    """Remove what earlier processes have left in a place, once in each process: all but the newest."""
    dated = sorted(((_changed(folder.path), folder.path.name) for folder in left_folders(place)), reverse=True)
    for _, name in dated[_KEPT:]:
        for folder in left_folders(place, re.compile(re.escape(name))):
            with suppress(HostError):
                folder.remove()


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _locked(path: Path) -> int:
    """Lock a folder.

    Raises:
        FolderTakenError: Another process has.
        FileNotFoundError: It is gone.
        OSError: It is no folder, or cannot be opened.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BlockingIOError:
        os.close(descriptor)
        raise FolderTakenError from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_ours(folder: int) -> bool:
    """Whether a folder has the mark, or nothing but the beginning of one."""
    text = _mark_of(folder)
    is_begun = text is not None and _TEXT.startswith(text)
    return text == _TEXT or (is_begun and set(os.listdir(folder)) <= {MARK})


def _is_marked(folder: int) -> bool:
    return _mark_of(folder) == _TEXT


def _mark_of(folder: int) -> bytes | None:
    """What is in the mark of a folder; None where that cannot be read."""
    try:
        mark = os.open(MARK, os.O_RDONLY | _FILE, dir_fd=folder)
        with os.fdopen(mark, "rb") as file:
            return file.read(len(_TEXT) + 1)
    except FileNotFoundError:
        return b""
    except OSError:
        return None


def _marked(path: Path, folder: int) -> OwnFolder:
    mark = os.open(MARK, os.O_WRONLY | os.O_CREAT | _FILE, 0o600, dir_fd=folder)
    try:
        os.write(mark, _TEXT)
    except OSError:
        os.unlink(MARK, dir_fd=folder)
        raise
    finally:
        os.close(mark)
    return OwnFolder(path, folder)


def _clear(folder: int, but: Collection[PurePath]) -> None:
    """Remove what is in a folder, except for some files, named from there, and the folders that lead to them."""
    with os.scandir(folder) as found:
        entries = list(found)
    for entry in entries:
        spared = [file.relative_to(entry.name) for file in but if file.is_relative_to(entry.name)]
        if PurePath() in spared:
            continue
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=folder)
        elif not spared:
            remove_folder(entry.name, folder, MOST_LEFT_LEVELS)
        else:
            below = os.open(entry.name, _FOLDER, dir_fd=folder)
            try:
                _clear(below, spared)
            finally:
                os.close(below)
