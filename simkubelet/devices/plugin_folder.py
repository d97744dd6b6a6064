"""The kubelet's device plugin folder on disk: checks, cleaning at start, reading and writing of the checkpoint."""

from __future__ import annotations

import errno
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from random import getrandbits
from typing import Final

from ..apis.deviceplugin import KUBELET_SOCKET_NAME
from ..model.errors import HostError, InputError
from ..model.version import Difference, Version
from .checkpoint import CHECKPOINT_NAME, Checkpoint, CorruptCheckpointError, decode

__all__ = ["CheckpointNotWrittenError", "PluginFolder", "check_socket_path", "replace_file"]

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

_MAX_SOCKET_PATH_BYTES: Final = 107
"""What fits into sockaddr_un.sun_path with its closing zero byte."""

_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC

_log = logging.getLogger(__name__)


class CheckpointNotWrittenError(Exception):
    """The checkpoint could not be written: a pod in admission is refused, but a list of devices still counts."""


def check_socket_path(socket: Path) -> None:
    """Refuse a path that no Unix socket can have.

    Raises:
        InputError: it is longer than 107 bytes.
    """
    length = len(os.fsencode(socket))
    if length > _MAX_SOCKET_PATH_BYTES:
        raise InputError(
            f"{socket}: a socket path holds {_MAX_SOCKET_PATH_BYTES} bytes and this one has {length}; "
            "choose a folder with a shorter path"
        )


class PluginFolder:
    """One ``device-plugins`` folder; it outlives the kubelet instances that use it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.is_full = False
        """There is no room for a checkpoint; what is there stays."""

    def prepare(self) -> None:
        """Make the folder.

        Raises:
            InputError: its path is too long for a socket, or it cannot be written.
        """
        check_socket_path(self.directory / KUBELET_SOCKET_NAME)
        try:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.directory}: cannot be made: {error.strerror}; choose another folder") from None
        if not os.access(self.directory, os.W_OK | os.X_OK):
            raise InputError(f"{self.directory}: cannot be written; choose another folder or change its permissions")

    def is_of_a_new_node(self) -> bool:
        """Whether no kubelet has left anything here: no file without a leading dot.

        Source: devicemanager/manager.go, ``ShouldResetExtendedResourceCapacity`` (kubernetes v1.34.4).
        """
        return not any(not entry.name.startswith(".") for entry in self.directory.iterdir())

    def clean(self, version: Version) -> None:
        """Remove what plugins of the last kubelet left: their sockets, and before 1.33 every file but the checkpoint.

        A link counts as what it leads to from 1.33 on, and as a file before; what it leads to stays. Folders stay.

        Raises:
            HostError: something cannot be removed; the kubelet does not start then.

        Source: devicemanager/manager.go, ``CleanupPluginDirectory`` (kubernetes v1.32.13, v1.33.13).
        """
        for entry in self.directory.iterdir():
            if entry.name == CHECKPOINT_NAME:
                continue
            try:
                mode = entry.stat(follow_symlinks=_REMOVES_ONLY_SOCKETS.at(version)).st_mode
            except OSError as error:
                _log.error("Failed to stat file %s: %s", entry, error)
                continue
            if stat.S_ISSOCK(mode) if _REMOVES_ONLY_SOCKETS.at(version) else not stat.S_ISDIR(mode):
                _remove(entry)

    def load(self, version: Version) -> Checkpoint | None:
        """The last instance's checkpoint; None when there is none or it cannot be used, which is logged only."""
        try:
            text = (self.directory / CHECKPOINT_NAME).read_text(encoding="utf-8", errors="replace")
            return decode(text, reads_old_format=_READS_OLD_CHECKPOINT.at(version))
        except FileNotFoundError:
            return None
        except (CorruptCheckpointError, OSError) as error:
            _log.error(
                "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: %s",
                error,
            )
            return None

    def save(self, text: bytes) -> None:
        """Write the checkpoint.

        Raises:
            CheckpointNotWrittenError: the disk does not take it; the message is the kubelet's.
        """
        try:
            if self.is_full:
                raise _FileNotReplacedError(f"write {self.directory}/.0: {os.strerror(errno.ENOSPC).lower()}")
            replace_file(self.directory, CHECKPOINT_NAME, text)
        except _FileNotReplacedError as error:
            message = f'failed to write checkpoint file "{CHECKPOINT_NAME}": {error}'
            raise CheckpointNotWrittenError(message) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise HostError(
            f"{path}: cannot be removed: {error.strerror}; remove it, or change the folder's permissions"
        ) from None


class _FileNotReplacedError(Exception):
    """The old file is still there; the message is Go's."""


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """Replace a file so that a crash at any moment leaves the old one or the new one.

    The content goes to a new file beside it, reaches the disk, and takes the old one's name. As in the kubelet, the
    folder itself is not synced: after a power cut the old file may be back. A crash before the renaming leaves the new
    file under its own name, ``.`` and a number; nobody removes it. The folder is made where it is missing.

    Source: util/store/filestore.go, ``writeFile`` (kubernetes v1.34.4); os/file_unix.go, ``rename`` (Go 1.26).

    Raises:
        FileNotReplacedError: the disk does not take it.
    """
    # Plain texts: a container waits for this, and with paths it takes half as long again.
    path, scratch = f"{folder}/{name}", f"{folder}/.{getrandbits(32)}"
    step = "open"
    try:
        descriptor = _create(folder, scratch)
        try:
            step = "write"
            _write_all(descriptor, content)
            step = "sync"
            os.fsync(descriptor)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        step = "close"
        os.close(descriptor)
        step = "rename"
        os.rename(scratch, path)  # noqa: PTH104
    except OSError as error:
        # Go looks itself whether a folder is in the way, and has a word of its own for that.
        reason = "file exists" if error.errno == errno.EISDIR else (error.strerror or str(error)).lower()
        target = f"{scratch} {path}" if step == "rename" else scratch
        with suppress(OSError):
            Path(scratch).unlink(missing_ok=True)
        raise _FileNotReplacedError(f"{step} {target}: {reason}") from error


def _create(folder: Path, scratch: str) -> int:
    try:
        return os.open(scratch, _NEW_FILE, 0o600)
    except FileNotFoundError:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return os.open(scratch, _NEW_FILE, 0o600)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
