"""Files of which a crash leaves the old one or the new one, as the kubelet writes its checkpoints."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from random import getrandbits
from typing import Final

__all__ = ["FileNotReplacedError", "replace_file"]

_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class FileNotReplacedError(Exception):
    """The old file is still there; the message is Go's."""


def replace_file(folder: Path, name: str, content: bytes, here: int | None = None) -> None:
    """Replace a file so that a crash at any moment leaves the old one or the new one.

    The content goes to a new file beside it, reaches the disk, and takes the old one's name. As in the kubelet, the
    folder itself is not synced: after a power cut the old file may be back. A crash before the renaming leaves the new
    file under its own name, ``.`` and a number; nobody removes it. The folder is made where it is missing.

    Args:
        folder: as errors name it.
        name: of the file in it.
        content: of the file.
        here: the descriptor of the folder, where its path may lead elsewhere by now.

    Source: util/store/filestore.go, ``writeFile`` (kubernetes v1.34.4); os/file_unix.go, ``rename`` (Go 1.26).

    Raises:
        FileNotReplacedError: the disk does not take it.
    """
    # Plain texts: a container waits for this, and with paths it takes half as long again.
    new = f".{getrandbits(32)}"
    path, scratch = f"{folder}/{name}", f"{folder}/{new}"
    step = "open"
    try:
        descriptor = _create(folder, new if here is not None else scratch, here)
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
        names = (scratch, path) if here is None else (new, name)
        os.rename(*names, src_dir_fd=here, dst_dir_fd=here)
    except OSError as error:
        # Go looks itself whether a folder is in the way, and has a word of its own for that.
        reason = "file exists" if error.errno == errno.EISDIR else (error.strerror or str(error)).lower()
        target = f"{scratch} {path}" if step == "rename" else scratch
        with suppress(OSError):
            os.unlink(scratch if here is None else new, dir_fd=here)
        raise FileNotReplacedError(f"{step} {target}: {reason}") from error


def _create(folder: Path, scratch: str, here: int | None) -> int:
    try:
        return os.open(scratch, _NEW_FILE, 0o600, dir_fd=here)
    except FileNotFoundError:
        if here is not None:
            raise
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        return os.open(scratch, _NEW_FILE, 0o600)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
