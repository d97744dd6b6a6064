"""Running clusters: where each is found, by name, and what it says of itself.

A cluster has a folder in a folder of the user's, and a kubeconfig. Both are locked for as long as the cluster runs,
however that ends; so a name is taken once, and what a killed process left is cleared by the next cluster.

In the folder are a file about the cluster, and the socket where it takes commands (`control`).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from simkubelet.devices import check_socket_path
from simkubelet.host import cluster_home
from simkubelet.model.errors import HostError, InputError

from ..backends.world.folders import (
    FolderTakenError,
    ForeignFolderError,
    OwnFolder,
    claim_folder,
    is_in_use,
    left_folders,
)
from ..report.written import written_for
from .options import NAME

_MARK: Final = b"# Written by 'simkubelet up', which removes this file when it ends.\n"
_OTHERS: Final = "--kubeconfig: '{}' is there already; remove it or choose another file"
_ABOUT: Final = "about.json"
_ELSEWHERE: Final = "set XDG_RUNTIME_DIR to a folder of yours"
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Server:
    """An API server as a kubeconfig has it: its address, and the certificates in PEM by which it is trusted."""

    url: str
    authority: str = ""

    def is_of(self, other: Server) -> bool:
        """Whether two kubeconfigs name the same server, of which one may leave the certificates out."""
        ours, theirs = self.authority.split(), other.authority.split()
        return self.url == other.url and (not ours or not theirs or ours == theirs)


@dataclass(frozen=True, slots=True)
class About:
    """What a running cluster says of itself: where its objects are, and its nodes."""

    server: Server
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs: its name, where it takes commands, and what it says of itself."""

    name: str
    socket: Path
    about: About


def control_socket(folder: Path) -> Path:
    """Where a cluster takes commands."""
    return folder / "control.sock"


def kubeconfig_path(folder: Path) -> Path:
    """What clients of a cluster need."""
    return folder / "kubeconfig"


def introduce(folder: Path, about: About) -> None:
    """Write down what others find the cluster of a folder by, once it takes commands.

    Raises:
        HostError: there is no space left.
    """
    write_secret(folder / _ABOUT, json.dumps(asdict(about)))


def write_secret(path: Path, text: str) -> None:
    """Write a file in a folder of ours, which only its user can read.

    Raises:
        HostError: there is no space left.
    """
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise HostError(f"{path}: cannot be written: {error.strerror}") from None


@contextmanager
def claimed(name: str, option: str = "--name") -> Iterator[Path]:
    """The folder of a cluster, empty but for its mark, for nobody else until the end; then it is removed.

    Args:
        name: the cluster's.
        option: with which the user chooses it.

    Raises:
        InputError: a cluster of that name runs, or its folder is somebody else's or cannot hold sockets.
        HostError: the folder cannot be made or removed.
    """
    path = cluster_home() / name
    check_socket_path(control_socket(path), f"{_ELSEWHERE} with a shorter path")
    folder = _claimed(path, option)
    try:
        yield folder.path
    finally:
        folder.remove()


def _claimed(path: Path, option: str) -> OwnFolder:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_home(path.parent)
        return claim_folder(path)
    except FolderTakenError:
        raise InputError(f"a cluster '{path.name}' runs already; end it or choose another {option}") from None
    except ForeignFolderError as error:
        raise InputError(f"{path}: {error}; move it away or choose another {option}") from None
    except OSError as error:
        kind = HostError if error.errno == errno.ENOSPC else InputError
        raise kind(f"{path}: cannot be made: {error.strerror}; {_ELSEWHERE}") from None


def left_clusters() -> Iterator[OwnFolder]:
    """Give the folders that killed clusters of this user have left; see `left_folders`.

    Raises:
        InputError: the folder that they are in is not this user's alone.
    """
    if _has_home():
        yield from left_folders(cluster_home(), NAME)


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """A new kubeconfig, which is removed in the end; one that a killed cluster left is replaced.

    Raises:
        InputError: a file is there that is the user's or a running cluster's, or it cannot be written.
    """
    with written_for("--kubeconfig", path):
        file = _new_or_left(path)
    with file:
        try:
            with written_for("--kubeconfig", path):
                _write_all(file, _MARK + text.encode())
            yield
        finally:
            with suppress(FileNotFoundError):
                # The user may have moved another file there meanwhile.
                if os.path.samestat(path.lstat(), os.fstat(file.fileno())):
                    path.unlink()


def _write_all(file: FileIO, content: bytes) -> None:
    while content:
        content = content[file.write(content) :]


def _new_or_left(path: Path) -> FileIO:
    """A locked empty file, which nobody else may read."""
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file
    except FileExistsError:
        pass
    if not stat.S_ISREG(path.lstat().st_mode):
        raise InputError(_OTHERS.format(path))
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b", buffering=0)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if file.read(len(_MARK)) != _MARK:
            raise InputError(_OTHERS.format(path))
        file.seek(0)
        file.truncate()
    except BlockingIOError:
        file.close()
        raise InputError(f"--kubeconfig: '{path}' is that of a running cluster; choose another file") from None
    except BaseException:
        file.close()
        raise
    return file


def clusters() -> dict[str, Cluster]:
    """The clusters of this user that run now, by name.

    Raises:
        InputError: the folder that they are in is not this user's alone.
    """
    folders = sorted(cluster_home().iterdir()) if _has_home() else ()
    found = ((folder, _about(folder)) for folder in folders if is_in_use(folder))
    return {path.name: Cluster(path.name, control_socket(path), about) for path, about in found if about is not None}


def _has_home() -> bool:
    """Whether there is a folder of the clusters.

    Raises:
        InputError: it is not this user's alone, or cannot be looked at.
    """
    try:
        _check_home(cluster_home())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InputError(f"{cluster_home()}: cannot be looked at: {error.strerror}; {_ELSEWHERE}") from None
    return True


def _check_home(home: Path) -> None:
    """Check that the folder of the clusters is this user's, who alone can change what is in it.

    Raises:
        InputError: it is not.
        OSError: it cannot be looked at.
    """
    status = home.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise InputError(f"{home}: is a link or a file; move it away or {_ELSEWHERE}")
    if status.st_uid != os.getuid():
        raise InputError(f"{home}: belongs to another user; {_ELSEWHERE}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise InputError(f"{home}: other users may write there; run 'chmod go-w {home}' or {_ELSEWHERE}")


def _about(folder: Path) -> About | None:
    """What the cluster of a folder says of itself; None before it takes commands."""
    try:
        found = json.loads((folder / _ABOUT).read_bytes())
        return About(Server(**found["server"]), tuple(found["nodes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
