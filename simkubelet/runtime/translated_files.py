"""The files of a container where no namespace can be made: a folder of the node, and a table of what is shown over it.

A supervisor reads the table and translates the paths of the container's calls (``native/view``). What a container has
is described by bubblewrap's arguments in either case; here those about files are carried out. What bubblewrap makes in
memory is below the folder, at the same path.

Source: bubblewrap 0.8.0, bubblewrap.c, ``setup_newroot``.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Final

from .._internal.file_tree import FileTree, found_without_links
from .._internal.sandbox import supervisor, supervisor_without_namespace
from .._internal.view_bindings import PROC, Table, fd
from .._internal.view_tree import READ_ONLY, folder_in
from ..model.errors import HostError
from .bubblewrap import Bind, bubblewrap_program, check_bubblewrap
from .container_runtime import init_error

__all__ = ["TranslatedFiles", "check_containers", "container_supervisor"]

_CONTAINERS: Final = "containers"
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS: Final = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "core": "/proc/kcore",
    "ptmx": "pts/ptmx",
}


def container_supervisor() -> str | None:
    """The supervisor that containers run under here; None where bubblewrap separates them.

    Raises:
        HostError: there can be neither.
    """
    return _way()[0]


def check_containers() -> str:
    """Make sure that containers can run here, and say in a line what does not separate them; nothing where all does.

    Raises:
        HostError: there can be neither a sandbox nor a supervisor.
    """
    found, refused = _way()
    if found is None:
        return ""
    return (
        "containers have files of their own, but share the machine's processes, network, host name and users: "
        f"no namespaces can be made for them ({refused})"
    )


def _way() -> tuple[str | None, str]:
    try:
        program = bubblewrap_program()
    except HostError as error:
        # Where namespaces can be had, the program is all that is missing.
        found = _supervisor_of_views()
        if found is None:
            raise
        return found, str(error).partition(":")[0]
    return _way_with(program)


def _supervisor_of_views() -> str | None:
    try:
        return supervisor_without_namespace()
    except HostError:
        return None


@cache
def _way_with(_bubblewrap: str) -> tuple[str | None, str]:
    """The same where there is bubblewrap; what works is remembered, what is refused is tried again."""
    try:
        check_bubblewrap()
    except HostError as error:
        try:
            return supervisor(), str(error).partition(";")[0]
        except HostError as other:
            raise HostError(f"{error}; what does without is refused as well: {other}") from None
    return None, ""


class TranslatedFiles:
    """The files of one container, made by `add` and `show`, and removed by `remove`.

    Args:
        node: The node's folder, without links.
        supervisor: The program that shows them, see `container_supervisor`.

    Raises:
        ContainerStartError: the folder cannot be made.
    """

    def __init__(self, node: Path, supervisor: str) -> None:
        self._supervisor = supervisor
        self._removing = Lock()
        self._tree = FileTree(node)
        self._path = f"/{_CONTAINERS}/{secrets.token_hex(8)}"
        with _named("/"):
            self._tree.make_folder(self._path, _FOLDER_MODE)
            with self._tree.folder(self._path) as folder:
                self._top = os.dup(folder)
        self._table = Table("")
        self._own: dict[str, int] = {}
        """Path -> the descriptor of what the container may write there."""
        self._read: dict[str, int] = {}
        """The same of the node's files that it may read alone."""
        self._cover(self._top, "", is_writable=True)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Those in `words`."""
        return (*self._own.values(), *self._read.values())

    def words(self) -> list[str]:
        """What the container's first program is told; see `_container_init`."""
        kinds = {"~": self._own, "?": self._read}
        return [
            word for kind, found in kinds.items() for path, one in found.items() for word in (kind + path, str(one))
        ]

    def table(self) -> int:
        """The descriptor of what the supervisor reads."""
        return self._table.finish()

    def argv(self, table: int) -> tuple[str, ...]:
        """The argv before that of a program that is to find them."""
        return self._supervisor, str(table), "/"

    def close(self) -> None:
        """Let go of the descriptors."""
        for found in self.descriptors:
            os.close(found)
        self._own.clear()
        self._read.clear()

    def remove(self) -> None:
        """Remove the folder, once no process of the container is left; may be called again, and by any thread."""
        with self._removing:
            self.close()
            # What cannot be removed goes with the node's folder.
            with suppress(OSError):
                self._tree.remove_folder(self._path)

    def add(self, arguments: Sequence[str]) -> None:
        """Do what bubblewrap's arguments about files say, without those about mounts to be written.

        Raises:
            ContainerStartError: something is not there, or in the way.
        """
        with _named("/"):
            self._carry_out(arguments)

    def _carry_out(self, arguments: Sequence[str]) -> None:
        given = iter(arguments)
        mode = _FOLDER_MODE
        for option in given:
            path = next(given)
            if option == "--perms":
                mode = int(path, 8)
                continue
            match option:
                case "--ro-bind":
                    self._bind(path, next(given))
                case "--ro-bind-try":
                    target = next(given)
                    if os.path.exists(path):  # noqa: PTH110  # False where it cannot be seen
                        self._bind(path, target)
                case "--symlink":
                    self._link(path, next(given))
                case "--dir":
                    self._folder(path, mode)
                case "--tmpfs":
                    self._empty(path, mode)
                case "--proc":
                    self._proc(path)
                case "--dev":
                    self._dev(path)
                case _:
                    raise ValueError(f"an argument of bubblewrap that is not known here: {option}")
            mode = _FOLDER_MODE

    def show(self, shown: Mapping[str, Bind], own: Iterable[Path]) -> None:
        """Show what a container asked for, see `placed`; what is below the folders `own` is the node's.

        Raises:
            ContainerStartError: the runtime's words for what is not there, or in the way.
        """
        for place, bind in shown.items():
            source = Path(bind.source)
            if bind.is_link:
                with _named(place):
                    self._link(bind.source, place)
                continue
            try:
                if any(source.is_relative_to(folder) for folder in own):
                    # Replaced meanwhile by a link, it might be a file of the host.
                    with found_without_links(source) as opened:
                        found = os.dup(opened)
                else:
                    found = os.open(source, os.O_PATH)
            except OSError as error:
                raise init_error(f'error mounting "{source}": {_words(error)}') from None
            with _named(place):
                self._show(found, place, is_writable=not bind.is_read_only)

    def _bind(self, source: str, path: str, *, is_writable: bool = False) -> None:
        self._show(os.open(source, os.O_PATH), path, is_writable=is_writable)

    def _show(self, found: int, path: str, *, is_writable: bool) -> None:
        try:
            self._make_room(path, is_folder=stat.S_ISDIR(os.fstat(found).st_mode))
        except OSError:
            os.close(found)
            raise
        self._cover(found, path, is_writable=is_writable)

    def _cover(self, found: int, path: str, *, is_writable: bool) -> None:
        for shown in (self._own, self._read):
            for hidden in [one for one in shown if f"{one}/".startswith(f"{path}/")]:
                os.close(shown.pop(hidden))
        self._table.cover(found, path, is_nodes=is_writable)
        (self._own if is_writable else self._read)[path] = found

    def _make_room(self, path: str, *, is_folder: bool) -> None:
        """Let there be a file or a folder at a path, as a mount needs one."""
        if not os.path.lexists(self._table.place(path)):
            folder, _, name = path.rpartition("/")
            here = self._inside(folder)
            try:
                if is_folder:
                    os.close(folder_in(here, name))
                else:
                    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE, dir_fd=here))
            finally:
                os.close(here)
        elif os.path.isdir(self._table.place(path)) != is_folder:  # noqa: PTH112
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))

    def _inside(self, folder: str) -> int:
        """The descriptor of a folder in which entries can be made, itself made where it is missing."""
        above = self._table.above(folder)
        if above not in self._own:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self._entered(self._own[above], folder[len(above) :])

    def _entered(self, top: int, path: str) -> int:
        here = os.dup(top)
        for name in filter(None, path.split("/")):
            try:
                deeper = folder_in(here, name)
            finally:
                os.close(here)
            here = deeper
        return here

    def _link(self, target: str, path: str) -> None:
        folder, _, name = path.rpartition("/")
        here = self._inside(folder)
        try:
            os.symlink(target, name, dir_fd=here)
        finally:
            os.close(here)

    def _folder(self, path: str, mode: int = _FOLDER_MODE) -> None:
        here = self._inside(path)
        os.chmod(fd(here), mode)  # noqa: PTH101  # by its descriptor
        os.close(here)

    def _empty(self, path: str, mode: int = _FOLDER_MODE) -> None:
        """Let there be an empty folder, whatever is below it."""
        found = self._entered(self._top, path)
        os.chmod(fd(found), mode)  # noqa: PTH101  # by its descriptor
        self._make_room(path, is_folder=True)
        self._cover(found, path, is_writable=True)

    def _proc(self, path: str) -> None:
        self._folder(path)
        self._table.show(path, PROC, is_writable=True)
        for name in READ_ONLY:
            if Path(PROC, name).exists():
                self._bind(f"{PROC}/{name}", f"{path}/{name}")

    def _dev(self, path: str) -> None:
        self._empty(path)
        for name in _DEVICES:
            self._bind(f"/dev/{name}", f"{path}/{name}", is_writable=True)
        for name, target in _DEVICE_LINKS.items():
            self._link(target, f"{path}/{name}")
        self._folder(f"{path}/shm")
        self._bind("/dev/pts", f"{path}/pts", is_writable=True)


@contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise init_error(f'error mounting to rootfs at "{place}": {_words(error)}') from None


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
