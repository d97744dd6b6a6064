"""The log of a process, which it writes through a pipe, and its rotation.

The log is a file to which what comes is appended as it is. Every ten seconds a file of 10 MiB is rotated, as by a
kubelet: it is renamed after the local time, the ones before it are compressed, and the oldest of more than five files
are removed. So the current file may become longer; one of 64 MiB is rotated at once, which is the bound that a kubelet
does not have. A writer waits only while a file is rotated that has become so long.

What a process has written before its end is in the log after `PipedLog.close`, and is lost where the simulator is
killed while it is in the pipe.

Source: pkg/kubelet/logs/container_log_manager.go, ``rotateLog``; pkg/kubelet/apis/config/v1beta1/defaults.go,
``ContainerLogMaxSize`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import asyncio
import fnmatch
import glob
import gzip
import logging
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, BinaryIO, Final, Self

from .file_tree import folder_without_links, open_regular, open_without_links

__all__ = ["PipedLog", "rotated_files"]

_LOG: Final = logging.getLogger(__name__)
_MAX_BYTES: Final = 10 << 20
_MAX_FILES: Final = 5
_LOOK_S: Final = 10.0
_MOST_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 1 << 16
_MOST_PIECES: Final = 16
"""So many hold what the longest pipe of an unprivileged user does."""
_COMPRESSED: Final = ".gz"
_TEMPORARY: Final = ".tmp"


class PipedLog:
    """A log and the pipe that leads to it, from `open` to `close`.

    Attributes:
        path: of the current file.
        begin: where that which came through this pipe begins in the current file.
        is_rotated: whether some of it was rotated into another file.
        pipe: what processes write to; the owner closes it when they have it.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.is_rotated = False
        self._file = file
        self.begin = self._size = file.tell()
        read_end, write_end = os.pipe()
        self.pipe: BinaryIO = os.fdopen(write_end, "wb", buffering=0)
        self._read_end: int | None = read_end
        os.set_blocking(read_end, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(read_end, self._take)
        self._opened_at = self._loop.time()
        self._look: asyncio.TimerHandle | None = None
        self._rotation: asyncio.Task[None] | None = None
        self._is_full = False

    @classmethod
    def open(cls, path: Path) -> PipedLog:
        """Append to a file, which is made where there is none.

        Raises:
            OSError: it cannot be written, a link is in its way, or there are too many open files.
        """
        file = open_without_links(path, "ab", 0)
        try:
            return cls(path, file)
        except OSError:
            file.close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Write what is in the pipe and end it, also while a process has its other end; may be called twice."""
        self._end()
        if self._rotation is not None:
            await asyncio.wait([self._rotation])

    def _end(self) -> None:
        self.pipe.close()
        if self._read_end is None:
            return
        self._loop.remove_reader(self._read_end)
        with suppress(BlockingIOError):
            for _ in range(_MOST_PIECES):
                if not (piece := os.read(self._read_end, _PIECE_BYTES)):
                    break
                self._write(piece)
        os.close(self._read_end)
        self._read_end = None
        if self._look is not None:
            self._look.cancel()
        self._file.close()

    def _take(self) -> None:
        assert self._read_end is not None  # noqa: S101  # a reader of the event loop
        with suppress(BlockingIOError):
            piece = os.read(self._read_end, _PIECE_BYTES)
            if not piece:
                self._end()
                return
            self._write(piece)
            if self._size >= _MOST_BYTES:
                # Until the file is rotated the writers wait.
                self._loop.remove_reader(self._read_end)
                self._rotate()
            elif self._size >= _MAX_BYTES and self._look is None:
                wait_s = _LOOK_S - (self._loop.time() - self._opened_at) % _LOOK_S
                self._look = self._loop.call_later(wait_s, self._rotate)

    def _write(self, data: bytes) -> None:
        """Append to the file; what a full disk does not take is lost."""
        left = memoryview(data)
        try:
            while left:
                count = self._file.write(left) or 0
                self._size += count
                left = left[count:]
            self._is_full = False
        except OSError as error:
            if not self._is_full:
                _LOG.warning("%s: what is written is lost: %s", self.path, error.strerror)
            self._is_full = True

    def _rotate(self) -> None:
        if self._rotation is None or self._rotation.done():
            self._rotation = self._loop.create_task(self._rotated())

    async def _rotated(self) -> None:
        try:
            await asyncio.to_thread(_make_room, self.path)
            if self._read_end is not None:
                _set_aside(self.path)
                before, self._file = self._file, open_without_links(self.path, "ab", 0)
                before.close()
                self.is_rotated = True
        except OSError as error:
            _LOG.warning("%s: cannot be rotated: %s", self.path, error.strerror)
        if self._read_end is None:
            return
        self.begin = self._size = 0
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._loop.add_reader(self._read_end, self._take)


def rotated_files(log: Path) -> list[Path]:
    """The files that were rotated from a log, the oldest first; none where its folder is gone."""
    with suppress(OSError), folder_without_links(log.parent) as folder:
        return [log.with_name(name) for name in _rotated(log.name, folder)]
    return []


def _rotated(log: str, folder: int) -> list[str]:
    return sorted(fnmatch.filter(os.listdir(folder), f"{glob.escape(log)}.[0-9]*-[0-9]*"))


def _set_aside(log: Path) -> None:
    """Rename a log, so that its next lines begin another file.

    Raises:
        OSError: it is not there, or its folder cannot be changed.
    """
    with folder_without_links(log.parent) as folder:
        name = f"{log.name}.{datetime.now():%Y%m%d-%H%M%S}"
        os.rename(log.name, name, src_dir_fd=folder, dst_dir_fd=folder)


def _make_room(log: Path) -> None:
    """Compress what was rotated from a log, and remove the oldest, before its current file is rotated.

    Raises:
        OSError: the disk is full, or the folder cannot be changed.
    """
    with folder_without_links(log.parent) as folder:
        files = list(_in_use(_rotated(log.name, folder), folder))
        count = max(len(files) - (_MAX_FILES - 2), 0)
        for file in files[:count]:
            os.unlink(file, dir_fd=folder)
        for file in files[count:]:
            if not file.endswith(_COMPRESSED):
                _compress(file, folder)


def _in_use(files: list[str], folder: int) -> Iterator[str]:
    """The files without those that a rotation has left unfinished, and what is none, which are removed."""
    for file in files:
        is_file = stat.S_ISREG(os.stat(file, dir_fd=folder, follow_symlinks=False).st_mode)
        if not is_file or file.endswith(_TEMPORARY) or f"{file}{_COMPRESSED}" in files:
            os.unlink(file, dir_fd=folder)
        else:
            yield file


def _compress(file: str, folder: int) -> None:
    temporary = f"{file}{_TEMPORARY}"
    try:
        with (
            open_regular(file, folder, "rb") as source,
            open_regular(temporary, folder, "xb") as target,
            gzip.open(target, "wb", compresslevel=6) as compressed,
        ):
            shutil.copyfileobj(source, compressed, _PIECE_BYTES)
        os.rename(temporary, f"{file}{_COMPRESSED}", src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
    os.unlink(file, dir_fd=folder)
