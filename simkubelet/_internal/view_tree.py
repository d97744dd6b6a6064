"""The view of a node as a tree of stand-ins in its storage, each for a file or folder that is shown there.

A folder that host and node both have is *open*: its place in the view is a folder of the node's storage, which takes
what the plugin writes, and each entry of either is bound over an empty stand-in there. Whatever only one of them has is
bound whole. What is made, linked or removed here is named by the descriptor of a storage folder that was opened without
following links, and what is bound goes onto a descriptor below it, so no path of the host is ever changed.

Run by a bare Python, so nothing of the package is imported here.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator

from . import isolation
from .view_bindings import FOLDER, PROC, Bindings, fd

_STAND_IN_FILE, _STAND_IN_FOLDER = 0o000, 0o1555
"""By these permissions an empty file or folder of the storage is known as a stand-in."""
_MOST_LINKS = 40
READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Source: containerd v2.1.4, pkg/oci/spec.go, ``populateDefaultUnixSpec``."""
_SECRETS = ("/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/CA/private", "/etc/shadow", "/etc/gshadow")
"""What nobody but root may read, for a plugin that is root on the host."""
SESSIONS = "/run/user"
"""Has the folder of each user's session."""


class View:
    """The view while it is made; the arguments are the fields of `sandbox.NodeView`."""

    def __init__(
        self,
        root: str,
        storage: str,
        places: dict[str, str],
        hidden: list[str],
        opened: list[str],
        devices: str | None,
        kept: list[str],
        seen: list[str],
        clusters: str,
    ) -> None:
        self.root, self.storage, self.places = root, storage, places
        self.devices, self.kept, self.seen, self.clusters = devices, kept, seen, clusters
        # One pattern: hundreds of paths are compared with it.
        self.hidden = re.compile("|".join(map(fnmatch.translate, hidden)) or "(?!)")
        self.above_places = {above for path in places for above in _above(path)}
        self.wanted = self.above_places | {above for path in opened for above in _above(path)} | set(opened)
        self.own = kept or [root, storage, *places.values(), *([devices] if devices else [])]
        self.stranger: isolation.Stranger | None = None
        self.needed: list[str] = []

    def give_to(self, stranger: isolation.Stranger) -> None:
        """Let all that is the node's belong to another user of the host, and what is made there from now on.

        Raises:
            OSError: a file system cannot do it; then nothing has changed.
        """
        folders = {self.root, self.storage, *self.places.values(), *self.kept, *filter(None, [self.devices])}
        outermost = [
            folder
            for folder in folders
            # The rights to a device are the host's, and its file system knows no other users.
            if not folders.intersection(_above(folder)) and not stat.S_ISCHR(mode_of(folder))
        ]
        found = [self.check(os.open(folder, os.O_PATH | os.O_NOFOLLOW)) for folder in outermost]
        for place, tree in [(place, stranger.owning(place)) for place in found]:
            isolation.attach(tree, place)
            os.close(place)
        stranger.make_files()
        self.stranger = stranger

    def make(self, bindings: Bindings, named: Iterable[str]) -> int:
        """Make the view, with those of the `named` paths of the host that it would hide; the descriptor of its root."""
        self.bindings = bindings
        needed = self.needed = sorted({*self.seen, *named})
        if self.stranger:
            self.open_above([*needed, *self.kept])
        top = bindings.begin(self.opened(self.storage))
        self.compose("", top, "/", self.root)
        for path in sorted(self.places):
            if self._place_above(path):
                self.keep(path, self.places[path], is_writable=True)
        self.lay_over_proc()
        if os.geteuid() == 0:
            self.cover_secrets()
        # A mount that has the node's folder is not kept with what it lies in: parts of it are another user's already.
        around = {above for folder in self.kept for above in _above(folder) if self.stranger and os.path.ismount(above)}
        for path in sorted({*needed, *(above for above in around if any(_has(path, above) for path in needed))}):
            if self._place_above(path) or self._is_roots_alone(path):
                self.keep(path, path)
        self.cover_clusters()
        for folder in self.kept:
            self.keep(folder, folder, is_writable=True)
        if self.devices:
            self.show_devices()
        return top

    def compose(self, folder: str, here: int, host: str, node: str) -> None:
        """Fill the open folder `folder`, whose storage is `here`, from the host's folder and the node's."""
        wanted = {
            path[len(folder) + 1 :].split("/")[0]
            for path in self.wanted | set(self.places)
            if path.startswith(f"{folder}/")
        }
        names = {*_listing(host), *_listing(node), *wanted} - {""}
        for entry in _listing(fd(here)):
            if entry not in names and is_stand_in(os.stat(entry, dir_fd=here, follow_symlinks=False)):
                _remove(here, entry)
        for name in sorted(names):
            self.place(f"{folder}/{name}", here, name, _below(host, name), _below(node, name))

    def place(self, path: str, here: int, name: str, host: str, node: str) -> None:
        """Show what is at `path` as `name` in the storage folder `here`."""
        if path in self.places:
            self.bind(here, name, self.places[path], path, is_nodes=True)
            return
        node = self.followed(node)
        host_mode = 0 if self.hidden.match(path) else mode_of(host)
        node_mode = mode_of(node)
        in_host = stat.S_ISDIR(host_mode) or (stat.S_ISLNK(host_mode) and os.path.isdir(host))
        in_node, is_wanted = stat.S_ISDIR(node_mode), path in self.wanted
        has_places = path in self.above_places
        is_shared = in_host and (in_node or is_wanted) and not (node_mode and not in_node)
        # A link of the host's stays one where the node has nothing else there, as /var/run to /run.
        is_link = stat.S_ISLNK(host_mode) and not in_node and not has_places
        is_open = is_shared or has_places or (in_node and self._is_device(node))
        if path != PROC and is_open and not is_link:
            inside = folder_in(here, name)
            self.compose(path, inside, host if in_host else "", node if in_node else "")
            os.close(inside)
            return
        if node_mode and path != PROC:
            self.place_node(path, here, name, node, node_mode)
        elif stat.S_ISLNK(host_mode):
            self.link(here, name, os.readlink(host))
        elif host_mode and (path in self.needed or not stat.S_ISSOCK(host_mode)):
            with contextlib.suppress(OSError):
                self.bind(here, name, host, path)

    def place_node(self, path: str, here: int, name: str, node: str, mode: int) -> None:
        if stat.S_ISLNK(mode):
            self.link(here, name, os.readlink(node))
        elif self._is_device(node):
            # Its permissions are the host's, so a device is shown as the host's files are: read-only.
            self.bind(here, name, "/dev/null", path)
        else:
            self.bind(here, name, node, path, is_nodes=True)

    def bind(self, here: int, name: str, source: str, path: str, *, is_nodes: bool = False) -> None:
        """Bind a file or folder over its stand-in, writable where it is the node's."""
        found = os.open(source, os.O_PATH if is_nodes else os.O_PATH | os.O_NOFOLLOW)
        if is_nodes:
            self.check(found)
        there = _stand_in(here, name, is_folder=stat.S_ISDIR(os.fstat(found).st_mode))
        # A file that was made while the node was seen already is a second name of the node's.
        if there is not None and not os.path.sameopenfile(found, there):
            self.bindings.bind(found, there, path, is_nodes=is_nodes)
        for opened in (found, there):
            if opened is not None:
                os.close(opened)

    def link(self, here: int, name: str, target: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.symlink(target, name, dir_fd=here)

    def lay_over_proc(self) -> None:
        """Let the host's ``/proc`` be as in a container, with what the node has there."""
        for name in READ_ONLY:
            path = f"{PROC}/{name}"
            if os.path.lexists(path):
                self.cover(path, path)
        node = self.followed(_below(self.root, PROC[1:]))
        for name in _listing(node):
            path = f"{PROC}/{name}"
            if not self.bindings.can_show(path):
                continue
            if not os.path.isdir(f"{node}/{name}"):
                self.cover(path, f"{node}/{name}")
                continue
            storage = f"{self.storage}-{path[1:].replace('/', '-')}"
            os.makedirs(storage, exist_ok=True)
            found = self.opened(storage)
            self.bindings.cover(found, path, is_nodes=True)
            os.close(found)
            self.compose(path, os.open(self.bindings.place(path), FOLDER), path, f"{node}/{name}")

    def cover(self, path: str, source: str) -> None:
        """Show something over what is at `path` of the view, to be read."""
        found = os.open(source, os.O_PATH | os.O_NOFOLLOW)
        self.bindings.cover(found, path)
        os.close(found)

    def keep(self, path: str, shown: str, *, is_writable: bool = False) -> None:
        """Show a path of the host, also below a folder that is the node's own."""
        source = os.open(shown, os.O_PATH)
        if shown != path:
            self.check(source)
        if (own := self._place_above(path)) and not os.path.lexists(self.bindings.place(path)):
            here = self.opened(self.places[own])
            *folders, name = path[len(own) + 1 :].split("/")
            for folder in folders:
                here = folder_in(here, folder)
            _stand_in(here, name, is_folder=stat.S_ISDIR(os.fstat(source).st_mode))
        there = os.open(self.bindings.place(path), os.O_PATH)
        if stat.S_ISDIR(os.fstat(there).st_mode) != stat.S_ISDIR(os.fstat(source).st_mode):
            return
        if self.stranger and not is_writable:
            # With what is mounted below, unless that is the stranger's already, as the node's folder is.
            for is_recursive in (True, False):
                with contextlib.suppress(OSError):
                    isolation.attach(self.stranger.owning(source, is_recursive=is_recursive), there)
                    return
        self.bindings.cover(source, path, is_nodes=is_writable)

    def open_above(self, paths: Iterable[str]) -> None:
        """Let another user come to what it needs below folders that are root's alone."""
        for path in paths:
            for above in _above(path):
                if not mode_of(above) & stat.S_IXOTH and above not in self.places and not self._place_above(above):
                    self.wanted |= {above, *_above(above)}

    def cover_secrets(self) -> None:
        """Hide the host's keys and passwords and, from one who is root on the host, its disks and memory."""
        devices = (
            [] if self.stranger else [f"/dev/{name}" for name in _listing("/dev") if _is_roots_device(f"/dev/{name}")]
        )
        for path in (*_SECRETS, *devices):
            place = self.bindings.place(path)
            if not os.path.lexists(place) or os.path.lexists(self.root + path):
                continue
            if os.path.isdir(place):
                self.bindings.hide(path)
            else:
                self.cover(path, "/dev/null")

    def cover_clusters(self) -> None:
        """Hide the folder of our clusters wherever the host or a needed path shows it, but for what is to be there."""
        files = [path for path in self.needed if os.path.isfile(path)]
        aliases = {path.rstrip("/"): os.path.realpath(path).rstrip("/") for path in self.needed}
        shown = {path + self.clusters[len(real) :] for path, real in aliases.items() if _has(real, self.clusters)}
        for number, home in enumerate(sorted(shown | {self.clusters})):
            if not self.bindings.has(home):
                continue
            storage = f"{self.storage}-clusters-{number}"
            os.makedirs(storage, exist_ok=True)
            here = self.opened(storage)
            left = {home + path[len(self.clusters) :]: path for path in self.kept if _has(self.clusters, path)}
            left |= {path: path for path in files if _has(home, path)}
            for path, source in left.items():
                *folders, name = path[len(home) + 1 :].split("/")
                inner = here
                for folder in folders:
                    inner = folder_in(inner, folder)
                _stand_in(inner, name, is_folder=os.path.isdir(source))
            self.bindings.cover(here, home)
            for path, source in left.items():
                self.keep(path, source, is_writable=source in self.kept)

    def show_devices(self) -> None:
        """Let the machine's own files be character devices, for a program that is given their paths."""
        for folder, _, names in os.walk(self.devices or ""):
            for name in names:
                self.cover(f"{folder}/{name}", "/dev/null")

    def opened(self, folder: str) -> int:
        """The descriptor of a folder of the node."""
        return self.check(os.open(folder, FOLDER))

    def check(self, found: int) -> int:
        """Refuse to let the program write into what is not the node's, whatever has become of its folders and links."""
        path = os.fsdecode(os.readlink(fd(found)))
        if not self.is_own(path):
            raise OSError(errno.EXDEV, "leads out of the node's folder", path)
        return found

    def is_own(self, path: str) -> bool:
        return any(path == own or path.startswith(f"{own}/") for own in self.own)

    def followed(self, node: str) -> str:
        """A place in the node's tree; an absolute link there may lead to a part of the node that lies elsewhere."""
        for _ in range(_MOST_LINKS):
            target = os.readlink(node) if os.path.islink(node) else ""
            if not self.is_own(target) or ".." in target.split("/"):
                break
            node = target
        return node

    def _is_device(self, node: str) -> bool:
        return self.devices is not None and (node == self.devices or node.startswith(f"{self.devices}/"))

    def _is_roots_alone(self, path: str) -> bool:
        """Whether another user, who has no part in it, needs a mount to read what is at a path of the host."""
        if self.stranger is None or path == os.path.realpath(os.environ.get("HOME", "")):
            return False
        mode = mode_of(path)
        needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
        return mode & needed != needed or any(not mode_of(above) & stat.S_IXOTH for above in _above(path))

    def _place_above(self, path: str) -> str | None:
        """The innermost folder of the node's own that would hide a path of the host."""
        return max((own for own in self.places if path.startswith(f"{own}/")), key=len, default=None)


def is_stand_in(found: os.stat_result) -> bool:
    """Whether the entry of a storage folder, by its status, is only there to be covered."""
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IMODE(found.st_mode) == _STAND_IN_FOLDER
    return stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == _STAND_IN_FILE and found.st_size == 0


def folder_in(here: int, name: str) -> int:
    """The descriptor of a folder of the storage, made where it is missing."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=here)
    found = os.open(name, FOLDER, dir_fd=here)
    if is_stand_in(os.fstat(found)):
        # Another view of the node covers it; in this one it gets entries.
        os.chmod(fd(found), 0o755)  # noqa: S103  # as it is made
    return found


def _stand_in(here: int, name: str, *, is_folder: bool) -> int | None:
    """The descriptor of what a mount covers, made where it is missing; None where `name` is something else."""
    with contextlib.suppress(FileExistsError):
        if is_folder:
            os.mkdir(name, dir_fd=here)
            os.chmod(name, _STAND_IN_FOLDER, dir_fd=here)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _STAND_IN_FILE, dir_fd=here))
    found = os.stat(name, dir_fd=here, follow_symlinks=False).st_mode
    if stat.S_ISLNK(found) or stat.S_ISDIR(found) != is_folder:
        return None
    return os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=here)


def _remove(here: int, name: str) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=here)
        else:
            os.unlink(name, dir_fd=here)


def _listing(folder: str | bytes) -> list[str]:
    """The names in a folder; none where there is none, or none that we may see."""
    try:
        return [os.fsdecode(name) for name in os.listdir(folder)] if folder else []
    except OSError:
        return []


def _has(folder: str, path: str) -> bool:
    """Whether a path lies below a folder."""
    return path.startswith(f"{folder}/")


def _below(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else ""


def mode_of(path: str) -> int:
    """The mode of what is at a path, 0 where there is nothing that we may see."""
    try:
        return os.lstat(path).st_mode if path else 0
    except OSError:
        return 0


def _is_roots_device(path: str) -> bool:
    mode = mode_of(path)
    return stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not mode & stat.S_IWOTH)


def _above(path: str) -> Iterator[str]:
    """The folders above a path."""
    while path := path.rpartition("/")[0]:
        yield path
