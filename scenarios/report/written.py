"""Files that a command writes where an option says: what they replace, and how what fails names the option."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simkubelet.model.errors import HostError, InputError

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors of a disk, for which a file's name can do nothing."""
_BEGINNING: Final = 4096


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file that commands write.

    Attributes:
        name: In a sentence.
        mark: What each such file has near its beginning, and files of other kinds do not.
    """

    name: str
    mark: bytes


JUNIT: Final = Kind("JUnit XML", b"<testsuite")
TRACE: Final = Kind("a trace", b'"real_s":')
_PAGE: Final = Kind("a page of simkubelet", b'<meta name="generator" content="simkubelet')
_PAGE_NAME: Final = "index.html"


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing.

    Raises:
        OSError: It cannot be made.
    """
    # Where a file is in the folder's place, writing into it gives the clearer error.
    with contextlib.suppress(FileExistsError):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except RecursionError:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(folder)) from None


def make_place(path: Path, kind: Kind) -> None:
    """Make the folder of a file where it is missing, and make sure that writing the file replaces none of another kind.

    Raises:
        FileExistsError: There is a file of another kind.
        OSError: It cannot be written.
    """
    make_folder(path.parent)
    # Whatever is no file, such as a pipe or a device, is written to.
    if path.is_file():
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
        if beginning and kind.mark not in beginning:
            raise _foreign(path, kind)


def page_in(folder: Path) -> Path:
    """The file of a page in a folder, for writing; see `make_place`. No link is followed there.

    Raises:
        OSError: It cannot be written.
    """
    path = folder / _PAGE_NAME
    if path.is_symlink():
        raise _foreign(path, _PAGE)
    make_place(path, _PAGE)
    return path


def _foreign(path: Path, kind: Kind) -> OSError:
    reason = f"it is there already and is not {kind.name}; move it away or choose another place"
    return FileExistsError(errno.EEXIST, reason, str(path))


@contextlib.contextmanager
def written_for(option: str, path: Path) -> Iterator[None]:
    """Do what writes the file or the folder of an option.

    Args:
        option: As the user writes it.
        path: Its value, by which an error is known that names no file.

    Raises:
        InputError: It cannot be written.
        HostError: The disk is full or fails.
    """
    try:
        yield
    except OSError as error:
        kind = HostError if error.errno in FULL else InputError
        raise kind(f"{option}: '{error.filename or path}' cannot be written: {error.strerror}") from error
