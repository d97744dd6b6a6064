"""The first program in a node's view: makes the view in a mount namespace of its own, then becomes the plugin.

The plugin is root in its view and can change nothing of the host. What root runs is a user of its own for the host
(`isolation.Stranger`) wherever the file system of the node's folder can be mounted so; elsewhere it keeps the
capabilities about files alone.

Run by a bare Python (``-I -S``), so it imports nothing of the package. Arguments: a JSON object (the fields
of `sandbox.NodeView`), the program, its arguments. Where the view cannot be made it prints one line and exits with 125;
with 127 where the program cannot be run.

A folder that host and node both have is *open*: its place in the view is a folder of the node's storage, which takes
what the plugin writes, and each entry of either is bound over an empty stand-in there. Whatever only one of them has is
bound whole. What is made, linked or removed here is named by the descriptor of a storage folder that was opened without
following links, and what is mounted goes onto a descriptor below it, so no path of the host is ever changed.

It is one long module because the program that runs it can import little.

Kernel facts: mount_namespaces(7), user_namespaces(7), pivot_root(2).
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Iterable, Iterator

from . import isolation
from .isolation import call

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_UNBINDABLE, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 17, 1 << 18
_MS_RELATIME, _MS_STRICTATIME = 1 << 21, 1 << 24
_OPTIONS = {
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "noatime": 1024,
    "nodiratime": 2048,
    "relatime": _MS_RELATIME,
    "nosymfollow": 256,
}
_MNT_DETACH = 2
_STAND_IN_FILE, _STAND_IN_FOLDER = 0o000, 0o1555
"""By these permissions an empty file or folder of the storage is known as a stand-in."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_MOST_LINKS = 40
_UNOPENED = "/proc"
"""Its entries come and go with the processes, so what a node has there is bound over the host's."""
_READ_ONLY = ("bus", "fs", "irq", "sys", "sysrq-trigger")
"""Source: containerd v2.1.4, pkg/oci/spec.go, ``populateDefaultUnixSpec``."""
_NO_PLACES = {"TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD"}
"""Variables whose paths are the caller's affair and no place of the program."""
_SECRETS = ("/etc/ssl/private", "/etc/pki/tls/private", "/etc/pki/CA/private", "/etc/shadow", "/etc/gshadow")
"""What nobody but root may read, for a plugin that is root on the host."""
_ABOUT_FILES = 0b11011 | 1 << 10
"""CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID; NET_BIND_SERVICE."""


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
    ) -> None:
        self.root, self.storage, self.places = root, storage, places
        self.devices, self.kept, self.seen = devices, kept, seen
        # One pattern: hundreds of paths are compared with it.
        self.hidden = re.compile("|".join(map(fnmatch.translate, hidden)) or "(?!)")
        self.above_places = {above for path in places for above in _above(path)}
        self.wanted = self.above_places | {above for path in opened for above in _above(path)} | set(opened)
        self.writable = {storage}
        self.own = kept or [root, storage, *places.values(), *([devices] if devices else [])]
        self.stranger: isolation.Stranger | None = None

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
            if not folders.intersection(_above(folder)) and not stat.S_ISCHR(_mode(folder))
        ]
        found = [self.check(os.open(folder, os.O_PATH | os.O_NOFOLLOW)) for folder in outermost]
        for place, tree in [(place, stranger.owning(place)) for place in found]:
            isolation.attach(tree, place)
            os.close(place)
        stranger.make_files()
        self.stranger = stranger

    def make(self, named: Iterable[str]) -> int:
        """Make the view, with those of the `named` paths of the host that it would hide; the descriptor of its root."""
        needed = sorted({*self.seen, *named})
        if self.stranger:
            self.open_above([*needed, *self.kept])
        top = self.opened(self.storage)
        _mount(top, top, _MS_BIND)
        top = self.opened(self.storage)
        # What is bound from a folder above the storage would take all that is mounted here along.
        call("mount", None, _fd(top), None, _MS_UNBINDABLE, None)
        self.compose("", top, "/", self.root)
        self.lay_over_proc(top)
        if os.geteuid() == 0:
            self.cover_secrets(top)
        for path in needed:
            if self._place_above(path) or self._is_roots_alone(path):
                self.keep(top, path)
        for folder in self.kept:
            self.keep(top, folder, is_writable=True)
        if self.devices:
            self.show_devices(top)
        self.make_read_only()
        return top

    def compose(self, folder: str, here: int, host: str, node: str) -> None:
        """Fill the open folder `folder`, whose storage is `here`, from the host's folder and the node's."""
        wanted = {
            path[len(folder) + 1 :].split("/")[0]
            for path in self.wanted | set(self.places)
            if path.startswith(f"{folder}/")
        }
        names = {*_listing(host), *_listing(node), *wanted} - {""}
        for entry in _listing(_fd(here)):
            if entry not in names and is_stand_in(os.stat(entry, dir_fd=here, follow_symlinks=False)):
                _remove(here, entry)
        for name in sorted(names):
            self.place(f"{folder}/{name}", here, name, _below(host, name), _below(node, name))

    def place(self, path: str, here: int, name: str, host: str, node: str) -> None:
        """Show what is at `path` as `name` in the storage folder `here`."""
        if path in self.places:
            self.bind(here, name, self.places[path], path)
            return
        node = self.followed(node)
        host_mode = 0 if self.hidden.match(path) else _mode(host)
        node_mode = _mode(node)
        in_host = stat.S_ISDIR(host_mode) or (stat.S_ISLNK(host_mode) and os.path.isdir(host))
        in_node, is_wanted = stat.S_ISDIR(node_mode), path in self.wanted
        has_places = path in self.above_places
        is_shared = in_host and (in_node or is_wanted) and not (node_mode and not in_node)
        # A link of the host's stays one where the node has nothing else there, as /var/run to /run.
        is_link = stat.S_ISLNK(host_mode) and not in_node and not has_places
        is_open = is_shared or has_places or (in_node and self._is_device(node))
        if path != _UNOPENED and is_open and not is_link:
            inside = _folder(here, name)
            self.compose(path, inside, host if in_host else "", node if in_node else "")
            os.close(inside)
            return
        if node_mode and path != _UNOPENED:
            self.place_node(path, here, name, node, node_mode)
        elif stat.S_ISLNK(host_mode):
            self.link(here, name, os.readlink(host))
        elif host_mode:
            with contextlib.suppress(OSError):
                self.bind(here, name, host)

    def place_node(self, path: str, here: int, name: str, node: str, mode: int) -> None:
        if stat.S_ISLNK(mode):
            self.link(here, name, os.readlink(node))
        else:
            # Its permissions are the host's, so a device is shown as the host's files are: read-only.
            self.bind(here, name, *(("/dev/null",) if self._is_device(node) else (node, path)))

    def bind(self, here: int, name: str, source: str, path: str = "") -> None:
        """Bind a file or folder over its stand-in, writable where it is the node's and so has a `path`."""
        found = os.open(source, os.O_PATH if path else os.O_PATH | os.O_NOFOLLOW)
        if path:
            self.check(found)
        there = _stand_in(here, name, is_folder=stat.S_ISDIR(os.fstat(found).st_mode))
        # A file that was made while the node was seen already is a second name of the node's.
        if there is not None and not os.path.sameopenfile(found, there):
            _mount(found, there, _MS_BIND if path else _MS_BIND | _MS_REC)
            if path:
                self.writable.add(self.storage + path)
        for opened in (found, there):
            if opened is not None:
                os.close(opened)

    def link(self, here: int, name: str, target: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.symlink(target, name, dir_fd=here)

    def lay_over_proc(self, top: int) -> None:
        """Let the host's ``/proc`` be as in a container, with what the node has there."""
        self.writable.add(self.storage + _UNOPENED)
        for name in _READ_ONLY:
            path = f"{_UNOPENED}/{name}"
            if os.path.lexists(path):
                self.cover(top, path, path)
        node = self.followed(_below(self.root, _UNOPENED[1:]))
        for name in _listing(node):
            path = f"{_UNOPENED}/{name}"
            if not os.path.lexists(path):
                # Nothing can be made there, so this kernel cannot show it.
                continue
            if not os.path.isdir(f"{node}/{name}"):
                self.cover(top, path, f"{node}/{name}")
                continue
            storage = f"{self.storage}-{path[1:].replace('/', '-')}"
            os.makedirs(storage, exist_ok=True)
            os.close(self.opened(storage))
            self.cover(top, path, storage)
            self.writable.add(self.storage + path)
            self.compose(path, os.open(path[1:], _FOLDER, dir_fd=top), path, f"{node}/{name}")

    def cover(self, top: int, path: str, source: str) -> None:
        """Mount something over what is at `path` of the view."""
        there, found = os.open(path[1:], os.O_PATH, dir_fd=top), os.open(source, os.O_PATH | os.O_NOFOLLOW)
        _mount(found, there, _MS_BIND | _MS_REC)
        os.close(found)
        os.close(there)

    def keep(self, top: int, path: str, *, is_writable: bool = False) -> None:
        """Let a path of the host stay where it is, also below a folder that is the node's own."""
        source = os.open(path, os.O_PATH)
        if (own := self._place_above(path)) and not os.path.lexists(_fd(top) + os.fsencode(path)):
            here = self.opened(self.places[own])
            *folders, name = path[len(own) + 1 :].split("/")
            for folder in folders:
                here = _folder(here, folder)
            _stand_in(here, name, is_folder=stat.S_ISDIR(os.fstat(source).st_mode))
        there = os.open(path[1:], os.O_PATH, dir_fd=top)
        if stat.S_ISDIR(os.fstat(there).st_mode) != stat.S_ISDIR(os.fstat(source).st_mode):
            return
        if self.stranger and not is_writable:
            # With what is mounted below, unless that is the stranger's already, as the node's folder is.
            for is_recursive in (True, False):
                with contextlib.suppress(OSError):
                    isolation.attach(self.stranger.owning(source, is_recursive=is_recursive), there)
                    return
        _mount(source, there, _MS_BIND if is_writable else _MS_BIND | _MS_REC)
        if is_writable:
            self.writable.add(self.storage + path)

    def open_above(self, paths: Iterable[str]) -> None:
        """Let another user come to what it needs below folders that are root's alone."""
        for path in paths:
            for above in _above(path):
                if not _mode(above) & stat.S_IXOTH and above not in self.places and not self._place_above(above):
                    self.wanted |= {above, *_above(above)}

    def cover_secrets(self, top: int) -> None:
        """Hide the host's keys and passwords and, from one who is root on the host, its disks and memory."""
        devices = (
            [] if self.stranger else [f"/dev/{name}" for name in _listing("/dev") if _is_roots_device(f"/dev/{name}")]
        )
        for path in (*_SECRETS, *devices):
            if not os.path.lexists(_fd(top) + os.fsencode(path)) or os.path.lexists(self.root + path):
                continue
            there = os.open(path[1:], os.O_PATH, dir_fd=top)
            if stat.S_ISDIR(os.fstat(there).st_mode):
                call("mount", b"none", _fd(there), b"tmpfs", _MS_RDONLY, None)
            else:
                self.cover(top, path, "/dev/null")
            os.close(there)

    def show_devices(self, top: int) -> None:
        """Let the machine's own files be character devices, for a program that is given their paths."""
        for folder, _, names in os.walk(self.devices or ""):
            for name in names:
                self.cover(top, f"{folder}/{name}", "/dev/null")

    def make_read_only(self) -> None:
        """Take the right to write from every mount of the view but the node's own."""
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
        for row in rows:
            place = os.fsdecode(os.fsencode(row[4]).decode("unicode_escape").encode("latin-1"))
            if place.startswith(f"{self.storage}/") and place not in self.writable:
                options = set(row[5].split(","))
                flags = sum(flag for name, flag in _OPTIONS.items() if name in options)
                if not options & {"relatime", "noatime"}:
                    flags |= _MS_STRICTATIME
                try:
                    call("mount", None, os.fsencode(place), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags, None)
                except OSError as error:
                    # What another mount covers, or a folder of another user, is out of reach for the program too.
                    if error.errno not in {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EINVAL}:
                        raise

    def opened(self, folder: str) -> int:
        """The descriptor of a folder of the node."""
        return self.check(os.open(folder, _FOLDER))

    def check(self, found: int) -> int:
        """Refuse to let the program write into what is not the node's, whatever has become of its folders and links."""
        path = os.fsdecode(os.readlink(_fd(found)))
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
        mode = _mode(path)
        needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
        return mode & needed != needed or any(not _mode(above) & stat.S_IXOTH for above in _above(path))

    def _place_above(self, path: str) -> str | None:
        """The innermost folder of the node's own that would hide a path of the host."""
        return max((own for own in self.places if path.startswith(f"{own}/")), key=len, default=None)


def is_stand_in(found: os.stat_result) -> bool:
    """Whether the entry of a storage folder, by its status, is only there to be covered."""
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IMODE(found.st_mode) == _STAND_IN_FOLDER
    return stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == _STAND_IN_FILE and found.st_size == 0


def named_places(argv: list[str], cwd: str) -> Iterator[str]:
    """The paths of the host that a program needs: what its command line, its folder and its environment name."""
    yield cwd
    words = [word.partition("=")[2] or word for word in argv]
    words += [part for name, value in os.environ.items() if name not in _NO_PLACES for part in value.split(":")]
    folders = os.environ.get("PATH", "").split(":") if "/" not in argv[0] else [""]
    words += [os.path.join(folder, argv[0]) for folder in folders]
    for word in words:
        path = os.path.join(cwd, word)
        for real in {os.path.normpath(path), os.path.realpath(path)} if "/" in word else ():
            if os.path.isdir(real):
                yield real
            elif os.path.exists(real):
                folder = os.path.dirname(real)
                # The libraries of a program are beside its folder.
                yield os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder
                yield real


def separate(*, as_user: bool) -> None:
    """Enter a mount namespace of our own, where nothing that is mounted reaches the host's.

    Args:
        as_user: In a user namespace, too, whose root is the user that we are.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", _CLONE_NEWNS | (_CLONE_NEWUSER if as_user else 0))
    if as_user:
        for name, text in {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    call("mount", None, b"/", None, _MS_REC | _MS_PRIVATE, None)


def enter(view: View, argv: list[str]) -> None:
    """Make the view in a namespace of our own, let it be our root, and give up what reaches beyond it."""
    cwd, is_root = os.getcwd(), os.geteuid() == 0
    os.makedirs(view.storage, exist_ok=True)
    stranger = None
    with contextlib.suppress(OSError):
        stranger = isolation.Stranger() if is_root else None
    separate(as_user=not is_root)
    if stranger:
        with contextlib.suppress(OSError):
            view.give_to(stranger)
    os.fchdir(view.make(list(named_places(argv, cwd))))
    call("pivot_root", b".", b".")
    call("umount2", b".", _MNT_DETACH)
    os.chdir("/")
    with contextlib.suppress(OSError):
        os.chdir(cwd)
    if view.stranger:
        view.stranger.become()
    elif is_root:
        isolation.drop_capabilities(_ABOUT_FILES)
    if not isolation.shut_in() and not is_root:
        # What is mounted cannot be changed from a namespace below the one that did it.
        separate(as_user=True)


def main(arguments: list[str]) -> int:
    """Become the program in its view; without arguments try only whether there can be one."""
    parent = os.getppid()
    try:
        if not arguments:
            separate(as_user=os.geteuid() != 0)
            return 0
        argv = arguments[1:]
        enter(View(**json.loads(arguments[0])), argv)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"cannot make the view of a node: {where}{error.strerror}", file=sys.stderr)
        return 125
    for name in ("TMPDIR", "TMP", "TEMP"):
        os.environ.pop(name, None)
    isolation.end_with_parent()
    if os.getppid() != parent:
        return 125
    # Python ignores these two.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        print(f"cannot run {argv[0]}: {error.strerror}", file=sys.stderr)
        return 127


def _mount(source: int, there: int, flags: int) -> None:
    call("mount", _fd(source), _fd(there), None, flags, None)


def _fd(number: int) -> bytes:
    return b"/proc/self/fd/%d" % number


def _folder(here: int, name: str) -> int:
    """The descriptor of a folder of the storage, made where it is missing."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=here)
    return os.open(name, _FOLDER, dir_fd=here)


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


def _below(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else ""


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode if path else 0
    except OSError:
        return 0


def _is_roots_device(path: str) -> bool:
    mode = _mode(path)
    return stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not mode & stat.S_IWOTH)


def _above(path: str) -> Iterator[str]:
    """The folders above a path."""
    while path := path.rpartition("/")[0]:
        yield path
