"""The first program in a node's view: makes the view, then becomes the plugin.

It is made in a mount namespace of its own or, where the kernel refuses one, as a table for the supervisor of
``native/view``, which then runs the plugin and translates the paths of its calls.

The plugin is root in its view and can change nothing of the host. What root runs is a user of its own for the host
(`isolation.Stranger`) wherever the file system of the node's folder can be mounted so; elsewhere it keeps the
capabilities about files alone. Without a namespace it is who runs the simulator.

Run by a bare Python (``-I -S``), so it imports nothing of the package. Arguments: a JSON object (the fields of
`sandbox.NodeView`, the supervisor where there is to be one, and whether it has a network of its own), another one (what
a pod gives the program: `args` and `env`), the program, its arguments. Where the view cannot be made it prints one line
and exits with 125; with 127 where the program cannot be run.

Kernel facts: mount_namespaces(7), user_namespaces(7), pivot_root(2).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import Iterator

from . import guard, isolation
from .isolation import call
from .view_bindings import MS_REC, TERMINALS, Mounts, Table, consoles
from .view_tree import SESSIONS, View, mode_of

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2
_NO_PLACES = {"TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD"}
"""Variables whose paths are the caller's affair and no place of the program."""
_ABOUT_FILES = 0b11011 | 1 << 10
"""CAP_CHOWN, DAC_OVERRIDE, FOWNER, FSETID; NET_BIND_SERVICE."""
_GIVEN = "SIMKUBELET_GIVEN_"
"""Before the names of the program's own variables until its supervisor runs it (``native/view/start.c``)."""


def named_places(argv: list[str], cwd: str) -> Iterator[str]:
    """The paths of the host that a program needs: what its command line, its folder and its environment name.

    Variables name sockets and the folder of a session for other programs: who answers there does what it is asked with
    the rights of its own user, as the managers of containers and of services.
    """
    yield cwd
    words = [word.partition("=")[2] or word for word in argv]
    folders = os.environ.get("PATH", "").split(":") if "/" not in argv[0] else [""]
    words += [os.path.join(folder, argv[0]) for folder in folders]
    for word in words:
        yield from _places(os.path.join(cwd, word)) if "/" in word else ()
    for part in (part for name, value in os.environ.items() if name not in _NO_PLACES for part in value.split(":")):
        places = list(_places(os.path.join(cwd, part))) if "/" in part else []
        if not any(map(_is_socket, places)):
            yield from (place for place in places if os.path.dirname(place) != SESSIONS)


def _places(path: str) -> Iterator[str]:
    """A folder of the host, or a file with the folder that it needs; nothing where there is neither."""
    for real in {os.path.normpath(path), os.path.realpath(path)}:
        if os.path.isdir(real):
            yield real
        elif os.path.exists(real):
            folder = os.path.dirname(real)
            # The libraries of a program are beside its folder.
            yield os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder
            yield real


def _is_socket(path: str) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISSOCK(os.stat(path).st_mode)
    return False


def separate(*, as_user: bool) -> None:
    """Enter a mount namespace of our own, where nothing that is mounted reaches the host's, and one for System V IPC.

    What a program leaves of the latter would stay on the host, in its memory, until it reboots.

    Args:
        as_user: In a user namespace, too, whose root is the user that we are.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", _CLONE_NEWNS | _CLONE_NEWIPC | (_CLONE_NEWUSER if as_user else 0))
    if as_user:
        for name, text in {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}.items():
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    call("mount", None, b"/", None, MS_REC | _MS_PRIVATE, None)


def separate_network() -> None:
    """Enter a network of our own, in which there is a loopback device alone, as in a pod without others."""
    # Most views share the host's network, and need none of these.
    import fcntl
    import socket
    import struct

    call("unshare", _CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))


def enter(view: View, argv: list[str], *, has_own_network: bool) -> None:
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
    mounts = Mounts(view.storage)
    top = view.make(mounts, list(named_places(argv, cwd)))
    if not view.stranger:
        mounts.protect_processes()
    mounts.separate_terminals([] if view.stranger else consoles())
    mounts.finish()
    os.fchdir(top)
    call("pivot_root", b".", b".")
    call("umount2", b".", _MNT_DETACH)
    os.chdir("/")
    with contextlib.suppress(OSError):
        os.chdir(cwd)
    others = None if view.stranger else guard.Guard()
    if not is_root:
        # What is mounted cannot be changed from a namespace below the one that did it; Landlock alone would let
        # mount_setattr make it writable.
        separate(as_user=True)
    if has_own_network:
        # Of the namespace whose root the program is.
        with contextlib.suppress(OSError):
            separate_network()
    if view.stranger:
        view.stranger.become()
    elif is_root:
        isolation.drop_capabilities(_ABOUT_FILES)
    isolation.shut_in()
    if others:
        others.watch()


def supervised(supervisor: str, view: View, argv: list[str]) -> list[str]:
    """Make the view as a table, give up what reaches beyond it, and return the command of its supervisor."""
    os.makedirs(view.storage, exist_ok=True)
    table = Table(view.storage)
    os.close(view.make(table, list(named_places(argv, os.getcwd()))))
    return _traced(supervisor, table, [*view.own, view.storage, *_devices(table)], os.getcwd(), argv)


def _devices(table: Table) -> Iterator[str]:
    """The devices of the host that a view shows, and the folder of terminals, to which others come.

    Not what the host's programs share below /dev, as memory and queues, which are file systems of their own.
    """
    for folder, names, files in os.walk("/dev"):
        paths = [f"{folder}/{name}" for name in files]
        yield from (path for path in paths if stat.S_ISCHR(mode_of(path)) and table.place(path) == path)
        names[:] = [name for name in names if name != "shm" and not os.path.ismount(f"{folder}/{name}")]
    if os.path.isdir(TERMINALS) and table.place(TERMINALS) == TERMINALS:
        yield TERMINALS


def _traced(supervisor: str, table: Table, writable: list[str], cwd: str, argv: list[str]) -> list[str]:
    if os.geteuid() == 0:
        isolation.drop_capabilities(_ABOUT_FILES)
    isolation.shut_in([*writable, f"/proc/{os.getpid()}"])
    return [supervisor, str(table.finish()), cwd, *argv]


def tried(supervisor: str | None = None) -> list[str]:
    """Try a namespace, or return the command that tries a supervisor."""
    if supervisor is None:
        separate(as_user=os.geteuid() != 0)
        return []
    table = Table("/")
    table.show("", "/")
    table.show("/simkubelet", "/proc")
    return _traced(supervisor, table, [], "/", [supervisor, "--tried"])


def main(arguments: list[str]) -> int:
    """Become the program in its view; without one try only whether there can be a view."""
    parent, given, prefix = os.getppid(), None, ""
    try:
        if len(arguments) > 1:
            settings, given, argv = json.loads(arguments[0]), json.loads(arguments[1]), arguments[2:]
            supervisor, has_own_network = settings.pop("supervisor"), settings.pop("has_own_network")
            if supervisor:
                prefix = _GIVEN
                argv = supervised(supervisor, View(**settings), argv)
            else:
                enter(View(**settings), argv, has_own_network=has_own_network)
        elif not (argv := tried(*arguments)):
            return 0
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
    if given:
        os.environ.update({prefix + name: value for name, value in given["env"].items()})
        argv = [*argv, *given["args"]]
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        print(f"cannot run {argv[0]}: {error.strerror}", file=sys.stderr)
        return 127
