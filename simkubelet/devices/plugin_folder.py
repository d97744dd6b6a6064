"""The kubelet's device plugin folder on disk: checks, cleaning at start, reading and writing of the checkpoint."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from .._internal.file_tree import FileTree
from .._internal.replaced_file import FileNotReplacedError, replace_file
from ..apis.deviceplugin import KUBELET_SOCKET_NAME
from ..apis.documents import LARGEST_CHECKPOINT, read_file
from ..model.errors import HostError, InputError
from ..model.version import Difference, Version
from .checkpoint import CHECKPOINT_NAME, Checkpoint, CorruptCheckpointError, decode

__all__ = ["CheckpointNotWrittenError", "PluginFolder", "check_socket_path"]

_REMOVES_ONLY_SOCKETS: Final = Difference(
    "at its start the device manager removes only sockets; before, every file but the checkpoint",
    {"1.26": False, "1.33": True},
    "devicemanager/manager.go, ``CleanupPluginDirectory`` (kubernetes v1.32.13, v1.33.13)",
)
_READS_OLD_CHECKPOINT: Final = Difference(
    "a checkpoint of 1.19 or older is read",
    {"1.26": True, "1.31": False},
    "devicemanager/manager.go, ``readCheckpoint`` (kubernetes v1.30.14, v1.31.14)",
)

_DRAFT: Final = re.compile(r"\.\d+")
_READ_AT_ONCE: Final = 1 << 20
_MAX_SOCKET_PATH_BYTES: Final = 107
"""What fits into sockaddr_un.sun_path with its closing zero byte."""

_log = logging.getLogger(__name__)


class CheckpointNotWrittenError(Exception):
    """The checkpoint could not be written: a pod in admission is refused, but a list of devices still counts."""


def check_socket_path(socket: Path, instead: str = "choose a folder with a shorter path") -> None:
    """Refuse a path that no Unix socket can have.

    Args:
        socket: The path.
        instead: What the user can do about it.

    Raises:
        InputError: it is longer than 107 bytes.
    """
    length = len(os.fsencode(socket))
    if length > _MAX_SOCKET_PATH_BYTES:
        raise InputError(
            f"{socket}: a socket path holds {_MAX_SOCKET_PATH_BYTES} bytes and this one has {length}; {instead}"
        )


class PluginFolder:
    """One ``device-plugins`` folder; it outlives the kubelet instances that use it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._place = directory.resolve()
        self._tree, self._path = FileTree(directory.parent), f"/{directory.name}"
        self.is_full = False
        """There is no room for a checkpoint; what is there stays."""

    def prepare(self) -> None:
        """Make the folder.

        Raises:
            InputError: its path is too long for a socket, or it cannot be written.
        """
        check_socket_path(self.directory / KUBELET_SOCKET_NAME)
        try:
            if not os.path.lexists(self.directory.parent):
                self.directory.parent.mkdir(parents=True)
            self._tree.make_folder(self._path, 0o750, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.directory}: cannot be made: {error.strerror}; choose another folder") from None
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise InputError(f"{self.directory}: cannot be written; choose another folder or change its permissions")

    def refuse_foreign(self, version: Version) -> None:
        """Make sure, before a first kubelet starts in a folder that a user names, that `clean` removes sockets only.

        Raises:
            InputError: it would remove files.
        """
        if _REMOVES_ONLY_SOCKETS.at(version):
            return
        for entry in sorted(self.directory.iterdir()):
            # A kubelet that was killed while it replaced its checkpoint leaves its draft.
            is_ours = entry.name == CHECKPOINT_NAME or _DRAFT.fullmatch(entry.name)
            if not is_ours and (entry.is_symlink() or entry.is_file()):
                raise InputError(
                    f"{entry}: a kubelet {version.kubelet_version} removes this file when it starts; "
                    "choose a folder for plugins alone"
                )

    def is_of_a_new_node(self) -> bool:
        """Whether no kubelet has left anything here: no file without a leading dot.

        Source: devicemanager/manager.go, ``ShouldResetExtendedResourceCapacity`` (kubernetes v1.34.4).
        """
        return all(name.startswith(".") for name in self._tree.names(self._path))

    def clean(self, version: Version) -> None:
        """Remove what plugins of the last kubelet left: their sockets, and before 1.33 every file but the checkpoint.

        A link counts as what it leads to from 1.33 on, and as a file before; what it leads to stays. Folders stay.

        Raises:
            HostError: something cannot be removed, or the folder has been replaced by a link to another one; the
                kubelet does not start then.

        Source: devicemanager/manager.go, ``CleanupPluginDirectory`` (kubernetes v1.32.13, v1.33.13).
        """
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Names are looked up in this folder, whatever its path leads to by now.
            if Path(os.readlink(f"/proc/self/fd/{folder}")) != self._place:  # noqa: PTH115  # no path by itself
                raise HostError(f"{self.directory}: leads to another folder now; remove the link")
            for name in os.listdir(folder):  # noqa: PTH208  # by its descriptor
                if name != CHECKPOINT_NAME:
                    self._remove_left(name, folder, version)
        finally:
            os.close(folder)

    def _remove_left(self, name: str, folder: int, version: Version) -> None:
        path = self.directory / name
        only_sockets = _REMOVES_ONLY_SOCKETS.at(version)
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=only_sockets).st_mode
        except OSError as error:
            _log.error("Failed to stat file %s: %s", path, error)
            return
        if not (stat.S_ISSOCK(mode) if only_sockets else not stat.S_ISDIR(mode)):
            return
        try:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise HostError(
                f"{path}: cannot be removed: {error.strerror}; remove it, or change the folder's permissions"
            ) from None

    async def load(self, version: Version) -> Checkpoint | None:
        """The last instance's checkpoint; None when there is none or it cannot be used, which is logged only.

        A long one is read beside the event loop.
        """
        try:
            text = self._text_of_checkpoint()
            read = partial(decode, text, reads_old_format=_READS_OLD_CHECKPOINT.at(version))
            return read() if len(text) <= _READ_AT_ONCE else await asyncio.to_thread(read)
        except FileNotFoundError:
            return None
        except (CorruptCheckpointError, OSError) as error:
            _log.error(
                "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: %s",
                error,
            )
            return None

    def _text_of_checkpoint(self) -> str:
        """Read the file without waiting for anybody."""
        with self._tree.open(f"{self._path}/{CHECKPOINT_NAME}", "rb") as file:
            # A read of so many bytes takes the memory for all of them first.
            return read_file(file.fileno(), LARGEST_CHECKPOINT, within_s=0).decode(errors="replace")

    def save(self, text: bytes) -> None:
        """Write the checkpoint.

        Raises:
            CheckpointNotWrittenError: the disk does not take it, or it is too large; the message is the kubelet's.
        """
        try:
            if self.is_full:
                raise FileNotReplacedError(f"write {self.directory}/.0: {os.strerror(errno.ENOSPC).lower()}")
            if len(text) > LARGEST_CHECKPOINT:
                # It would not be read again, and the next kubelet would hand out what pods have.
                raise FileNotReplacedError(f"write {self.directory}/.0: {os.strerror(errno.EFBIG).lower()}")
            try:
                self._replace_checkpoint(text)
            except FileNotFoundError:
                self._tree.make_folder(self._path, 0o755)
                self._replace_checkpoint(text)
        except (FileNotReplacedError, OSError) as error:
            words = f"open {self.directory}: {_words(error)}" if isinstance(error, OSError) else str(error)
            message = f'failed to write checkpoint file "{CHECKPOINT_NAME}": {words}'
            raise CheckpointNotWrittenError(message) from error

    def _replace_checkpoint(self, text: bytes) -> None:
        with self._tree.folder(self._path) as here:
            replace_file(self.directory, CHECKPOINT_NAME, text, here)


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
