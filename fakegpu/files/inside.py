"""Files below a machine's folder, where plugins may put links, pipes and folders in the place of ours at any moment.

Each change walks from the machine's folder by descriptors and follows no link. A file is written under a new name and
takes the place of the old one, so that whatever was there is neither opened nor waited for.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Final

from ..errors import InputError

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST_TEXT: Final = 1 << 16
_LARGEST_COPY: Final = 64 << 20
_MOST_LEVELS: Final = 1 << 16
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, part: str | PurePath, *, makes: bool = False) -> Iterator[int]:
    """Lend a descriptor of a folder below ``root``.

    Args:
        root: the machine's folder.
        part: path of the folder from there.
        makes: whether missing folders on the way are made.

    Raises:
        InputError: something on the way is no folder, such as a link.
        OSError: it is missing, or the host does not let us.
    """
    place, folder = root, _open(root, root)
    try:
        for name in PurePath(part).parts:
            place /= name
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            below = _open(name, place, folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open(name: str | Path, place: Path, parent: int | None = None) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            raise InputError(f"{place}: is a link, a file or a pipe in place of a folder; remove it") from None
        raise


def make_folder_inside(root: Path, part: str | PurePath) -> None:
    """Make a folder, and those on the way to it, where they are missing; raises as ``opened_folder``."""
    with opened_folder(root, part, makes=True):
        pass


def write_inside(root: Path, part: str | PurePath, content: str | bytes) -> None:
    """Write a file that everybody may read, in one step where it was there; raises as ``opened_folder``."""
    write_all_inside(root, PurePath(part).parent, {PurePath(part).name: content})


def write_all_inside(root: Path, part: str | PurePath, files: Mapping[str, str | bytes]) -> None:
    """The same for files of a folder, content by name; the folder is made where it is missing."""
    with opened_folder(root, part, makes=True) as folder:
        for name, content in files.items():
            whole = content.encode("ascii") if isinstance(content, str) else content
            try:
                _write_new(folder, name, whole)
            except FileExistsError:
                draft = f".{name}.{secrets.token_hex(4)}"
                _write_new(folder, draft, whole)
                try:
                    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    os.unlink(draft, dir_fd=folder)
                    raise


def _write_new(folder: int, name: str, content: bytes) -> None:
    file = os.open(name, _NEW_FILE, 0o644, dir_fd=folder)
    try:
        os.fchmod(file, 0o644)
        if os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(file)


def read_inside(root: Path, part: str | PurePath, encoding: str = "ascii") -> str | None:
    """The text of a file, without what is not so encoded; None where there is none; raises as ``opened_folder``."""
    with suppress(FileNotFoundError), opened_folder(root, PurePath(part).parent) as folder:
        if stat.S_ISREG(os.stat(PurePath(part).name, dir_fd=folder, follow_symlinks=False).st_mode):
            file = os.open(PurePath(part).name, _OLD_FILE, dir_fd=folder)
            with os.fdopen(file, "rb") as stream:
                return stream.read(_LONGEST_TEXT).decode(encoding, errors="ignore")
    return None


def copy_inside(root: Path, part: str | PurePath, target: Path) -> None:
    """Copy a file with its permissions to a new one elsewhere.

    Raises:
        InputError: it is a link, or another thing in the place of a file, or too large; or as ``opened_folder``.
        OSError: it is missing, the target is there, or the host does not let us.
    """
    with opened_folder(root, PurePath(part).parent) as folder:
        try:
            file = os.open(PurePath(part).name, _OLD_FILE, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise InputError(f"{root / part}: is a link in the place of a file; remove it") from None
            raise
        with os.fdopen(file, "rb") as source:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_COPY:
                raise InputError(f"{root / part}: is no file of ours; remove it")
            with target.open("xb") as copy:
                copy.write(source.read(_LARGEST_COPY))
            target.chmod(stat.S_IMODE(status.st_mode) & 0o755)


def touch_inside(root: Path, part: str | PurePath) -> None:
    """Make an empty file where there is none; raises as ``opened_folder``."""
    with opened_folder(root, PurePath(part).parent, makes=True) as folder:
        try:
            os.close(os.open(PurePath(part).name, _NEW_FILE, 0o644, dir_fd=folder))
        except FileExistsError:
            if not stat.S_ISREG(os.stat(PurePath(part).name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise InputError(
                    f"{root / part}: is a link or another thing in the place of a file; remove it"
                ) from None


def link_inside(root: Path, part: str | PurePath, target: str) -> None:
    """Make a link, in a folder without one of this name, which is made; raises as ``opened_folder``."""
    with opened_folder(root, PurePath(part).parent, makes=True) as folder:
        os.symlink(target, PurePath(part).name, dir_fd=folder)


def remove_inside(root: Path, part: str | PurePath) -> None:
    """Remove a file, or a folder with all that is in it, where it is there; raises as ``opened_folder``."""
    with suppress(FileNotFoundError), opened_folder(root, PurePath(part).parent) as folder:
        remove_at(PurePath(part).name, folder)


def remove_at(name: str, folder: int) -> None:
    """Remove what has a name in an open folder, of a folder all that is in it.

    Folders in folders are moved up first: `shutil.rmtree` goes down by recursion before Python 3.13, with a descriptor
    for each level.
    """
    if not _is_folder(name, folder):
        os.unlink(name, dir_fd=folder)
        return
    top = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for _ in range(_MOST_LEVELS):
            names = os.listdir(top)  # noqa: PTH208  # by its descriptor
            if not names:
                break
            for below in names:
                _raise_folders(below, top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=folder)


def _raise_folders(name: str, top: int) -> None:
    """Remove what is in a folder but for the folders in there, which come to lie beside it."""
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    inner = os.open(name, _FOLDER, dir_fd=top)
    try:
        for below in os.listdir(inner):  # noqa: PTH208  # by its descriptor
            if _is_folder(below, inner):
                os.rename(below, f".{secrets.token_hex(8)}", src_dir_fd=inner, dst_dir_fd=top)
            else:
                os.unlink(below, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
