"""Running clusters: where each is found, by name, and how another process has it do something.

A cluster has a folder in a folder of the user's, and a kubeconfig. Both are locked for as long as the cluster runs,
however that ends; so a name is taken once, and what a killed process left is cleared by the next cluster.

In the folder is a control socket: a line of JSON asks for something, a line answers when it is done. A request is a
step of a story, ``{"restartKubelet": {"node": "node-1"}}``; an answer ``{"done": TEXT}``, or ``{"error": TEXT,
"status": EXIT STATUS}``.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from simkubelet.devices import check_socket_path
from simkubelet.model.errors import HostError, InputError, PluginError, SimkubeletError

_MARK: Final = b"# Written by 'simkubelet up', which removes this file when it ends.\n"
_OTHERS: Final = "--kubeconfig: '{}' is there already; remove it or choose another file"


def control_socket(folder: Path) -> Path:
    """Where a cluster takes commands."""
    return folder / "control.sock"


def kubeconfig_path(folder: Path) -> Path:
    """What clients of a cluster need."""
    return folder / "kubeconfig"


@contextmanager
def claimed(name: str, option: str = "--name") -> Iterator[Path]:
    """The empty folder of a cluster, for nobody else until the end; then it is removed.

    Args:
        name: the cluster's.
        option: with which the user chooses it.

    Raises:
        InputError: a cluster of that name runs, or its folder cannot hold sockets.
        HostError: the folder cannot be made or removed.
    """
    folder = _home() / name
    check_socket_path(control_socket(folder))
    lock = _locked(folder, option)
    try:
        _clear(folder)
        yield folder
    finally:
        try:
            _remove(folder)
        finally:
            os.close(lock)


@contextmanager
def written(path: Path, text: str) -> Iterator[None]:
    """A new kubeconfig, which is removed in the end; one that a killed cluster left is replaced.

    Raises:
        InputError: a file is there that is the user's or a running cluster's, or it cannot be written.
    """
    try:
        file = _new_or_left(path)
        file.write(_MARK + text.encode())
        file.flush()
    except OSError as error:
        raise InputError(f"--kubeconfig: '{path}' cannot be written: {error.strerror}") from None
    with file:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _new_or_left(path: Path) -> BinaryIO:
    """A locked empty file, which nobody else may read."""
    try:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX)
    except FileExistsError:
        if not path.is_file():
            raise InputError(_OTHERS.format(path)) from None
        file = path.open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(f"--kubeconfig: '{path}' is that of a running cluster; choose another file") from None
        if file.read(len(_MARK)) != _MARK:
            file.close()
            raise InputError(_OTHERS.format(path)) from None
        file.seek(0)
        file.truncate()
    return file


def clusters() -> dict[str, Path]:
    """The clusters of this user that run now: name -> control socket."""
    try:
        folders = sorted(_home().iterdir())
    except FileNotFoundError:
        return {}
    return {folder.name: control_socket(folder) for folder in folders if _answers(control_socket(folder))}


def _home() -> Path:
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given, "simkubelet") if given else Path("/tmp", f"simkubelet-{os.getuid()}")  # noqa: S108


def _locked(folder: Path, option: str) -> int:
    while True:
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.parent.stat().st_uid != os.getuid():
                raise InputError(f"{folder.parent}: belongs to another user; set XDG_RUNTIME_DIR to a folder of yours")
            folder.mkdir(mode=0o700, exist_ok=True)
            lock = _opened(folder)
        except OSError as error:
            kind = HostError if error.errno == errno.ENOSPC else InputError
            reason = f"{error.strerror}; set XDG_RUNTIME_DIR to a folder of yours"
            raise kind(f"{folder}: cannot be made: {reason}") from None
        if lock is None:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise InputError(f"a cluster '{folder.name}' runs already; end it or choose another {option}") from None
        if folder.exists() and os.path.samestat(os.fstat(lock), folder.stat()):
            return lock
        os.close(lock)


def _opened(folder: Path) -> int | None:
    """A folder's descriptor; None where who ended just now has removed it."""
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            _remove(entry)
        else:
            entry.unlink()


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise HostError(f"{error.filename}: cannot be removed: {error.strerror}; remove it by hand") from None


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


Perform = Callable[[object], Awaitable[str]]
"""Does a step of a story and reports it in a line; raises `SimkubeletError`."""


@asynccontextmanager
async def serving(path: Path, perform: Perform) -> AsyncIterator[None]:
    """Take requests on a socket until the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await _answer(line, perform)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            # The client does not wait for the answer, or speaks another protocol.
            return
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()


async def _answer(line: bytes, perform: Perform) -> dict[str, str | int]:
    try:
        return {"done": await perform(json.loads(line))}
    except ValueError as error:
        return {"error": f"no request: {error}", "status": InputError.exit_status}
    except SimkubeletError as error:
        return {"error": str(error), "status": error.exit_status}


def ask(cluster: str | None, step: Mapping[str, object]) -> str:
    """Have a running cluster do something; what it says when it is done.

    Args:
        cluster: its name; may be None where only one runs.
        step: what to do, as a story has it.

    Raises:
        InputError: there is no such cluster or node, or the node is not in the state for it.
        HostError: the cluster ended meanwhile, or its machine failed.
    """
    name, path = _chosen(cluster)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(step).encode() + b"\n")
            line = connection.makefile().readline()
        except OSError:
            line = ""
    if not line:
        raise HostError(f"cluster '{name}' ended before it answered")
    answer = json.loads(line)
    if "done" in answer:
        return str(answer["done"])
    kinds = {kind.exit_status: kind for kind in (PluginError, InputError, HostError)}
    raise kinds[answer["status"]](answer["error"])


def _chosen(cluster: str | None) -> tuple[str, Path]:
    found = clusters()
    if cluster is not None and cluster not in found:
        others = f"; running: {', '.join(found)}" if found else ""
        raise InputError(f"no cluster '{cluster}' runs{others}; start it with 'simkubelet up --name {cluster}'")
    if not found:
        raise InputError("no cluster runs; start one with 'simkubelet up' in another terminal")
    name = cluster or (next(iter(found)) if len(found) == 1 else _of_kubeconfig())
    if name not in found:
        raise InputError(f"{len(found)} clusters run: choose one with KUBECONFIG or --cluster: {', '.join(found)}")
    return name, found[name]


def _of_kubeconfig() -> str | None:
    """The cluster of the current context of the files in ``KUBECONFIG``, of which the first that has one counts.

    Source: client-go tools/clientcmd/loader.go, ``ClientConfigLoadingRules.Load`` (v0.34.4).
    """
    # Imported here: YAML is slow to load, and with one cluster nobody needs it.
    import yaml

    current: str | None = None
    clusters_by_context: dict[str | None, str] = {}
    for path in filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep)):
        try:
            document = yaml.safe_load(Path(path).read_bytes()) or {}
            for one in document.get("contexts") or ():
                clusters_by_context.setdefault(one["name"], one["context"]["cluster"])
            current = current or document.get("current-context")
        except (OSError, ValueError, AttributeError, KeyError, TypeError, yaml.YAMLError):
            continue
    return clusters_by_context.get(current)
