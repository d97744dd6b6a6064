"""Files that a command writes where an option says: what they replace, and how what fails names the option."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simkubelet.model.errors import HostError, InputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors of a disk, for which a file's name can do nothing."""
_BEGINNING: Final = 4096
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.05


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
    if path.is_file():
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
        if beginning and kind.mark not in beginning:
            raise _foreign(path, kind)
    elif path.exists() and not path.is_dir():
        raise _foreign(path, kind)
    elif path.is_symlink() and not path.exists():
        raise FileExistsError(errno.EEXIST, "it is a link to nothing; remove it or choose another place", str(path))


def is_read_once(path: Path) -> bool:
    """Whether a path is something else than a file, such as a pipe: what is written later comes behind."""
    return path.exists() and not path.is_file()


def open_output(path: Path, kind: Kind) -> io.BufferedWriter:
    """Open a file for writing, in place of one of its kind; or what is no file, such as a pipe or a device.

    Who reads from a pipe or terminal is waited for 10 seconds, at each part.

    Raises:
        OSError: It cannot be written, as is what writes into it; `strerror` says it.
    """
    if is_read_once(path):
        return io.BufferedWriter(_Unread(path, "w", opener=_opened))
    make_place(path, kind)
    # Of a new file no link is followed that somebody puts there meanwhile.
    return path.open("wb" if path.exists() else "xb")


class _Unread(io.FileIO):
    """What may have no reader."""

    _is_over = False

    def write(self, content: ReadableBuffer, /) -> int:
        writable = select.poll()
        writable.register(self, select.POLLOUT)
        while not self._is_over and writable.poll(_PATIENCE_S * 1000):
            if (count := super().write(content)) is not None:
                return count
        # Also for what is still buffered when it is closed.
        self._is_over = True
        raise _nobody_reads(str(self.name))


def _opened(path: str, flags: int) -> int:
    """Open what may be a pipe; nothing reports that somebody has opened it for reading."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO or not Path(path).is_fifo():
                raise
        if time.monotonic() >= end:
            raise _nobody_reads(path)
        time.sleep(_LOOK_S)


def _nobody_reads(path: str) -> OSError:
    return TimeoutError(errno.ETIMEDOUT, f"nobody has read from it for {_PATIENCE_S:g} s", path)


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
