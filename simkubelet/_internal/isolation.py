"""What a program may do to the host: nothing, by another user id, lost capabilities and Landlock.

Where root runs a program it gives it a user namespace, in which the program is root, and which is a user of nobody on
the host. The node's files, which are root's, are mounted so that they belong to that user (idmapped mounts). Used by
the first program of a view and that of a container, which have a bare Python, so nothing of the package is imported
here.

Kernel facts: user_namespaces(7), mount_setattr(2), capabilities(7), landlock(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import sys
from collections.abc import Iterable

_CLONE_NEWUSER = 0x10000000
_LOWEST_ID, _IDS = 0x70000000, 0x0FFFFFFF
"""Ids that no distribution gives to users, containers or services.

Source: systemd v258, docs/UIDS-GIDS.md.
"""
MAX_PROCESSES = 4096
# The numbers are those of all architectures.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_OPEN_TREE_CLONE, _AT_RECURSIVE, _AT_EMPTY_PATH = 1, 0x8000, 0x1000
_MOVE_FROM_HERE, _MOVE_TO_HERE = 0x4, 0x40
_MOUNT_ATTR_IDMAP = 0x100000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 28, 1 << 2
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""A system call that has another number on each architecture.

Source: include/uapi/asm-generic/unistd.h and the tables syscall.tbl (Linux 6.1).
"""
_KEYCTL_JOIN_SESSION_KEYRING = 1
_CAPABILITY_VERSION = 0x20080522
_CAP_SETPCAP = 1 << 8
_LANDLOCK_MIN_ABI, LANDLOCK_SCOPES_ABI = 2, 6
"""Before 2 no file can be moved to another folder."""
_LANDLOCK_WRITE_FILE = 1 << 1
_LANDLOCK_WRITES = _LANDLOCK_WRITE_FILE | sum(1 << bit for bit in range(4, 14))
_LANDLOCK_TRUNCATE = 1 << 14
_LANDLOCK_SCOPES = 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: bytes | int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Call a function of the C library; an `OSError` where it fails."""
    result: int = getattr(_libc, name)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: bytes | int | ctypes.Array[ctypes.c_char] | None) -> int:
    """Make a system call; an `OSError` where it fails."""
    words = (ctypes.c_long(word) if isinstance(word, int) else word for word in arguments)
    return call("syscall", ctypes.c_long(number), *words)  # type: ignore[arg-type]


def packed(*numbers: int) -> ctypes.Array[ctypes.c_char]:
    """Unsigned numbers of 64 bits each, as the kernel reads them."""
    return ctypes.create_string_buffer(
        b"".join(number.to_bytes(8, sys.byteorder) for number in numbers), 8 * len(numbers)
    )


class Stranger:
    """A user that nobody is on the host, and the user namespace in which it is root.

    Raises:
        OSError: this process may not make one.
    """

    def __init__(self) -> None:
        self.host_id = _LOWEST_ID + int.from_bytes(os.urandom(4), "big") % _IDS
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            _stay_in_new_namespace(self.host_id, ready[1], done)
        try:
            os.close(ready[1])
            if not os.read(ready[0], 1):
                raise OSError(1, "unshare: a user namespace is refused")
            for name in ("uid_map", "gid_map"):
                with open(f"/proc/{child}/{name}", "w", encoding="ascii") as file:
                    file.write(f"0 {self.host_id} 1")
            self.namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
        finally:
            for end in (ready[0], *done):
                os.close(end)
            os.waitpid(child, 0)

    def owning(self, path: str | int, *, is_recursive: bool = False) -> int:
        """A mount of `path` that is nowhere yet, in which what is root's belongs to this user.

        Raises:
            OSError: the file system cannot do it.
        """
        recursive = _AT_RECURSIVE if is_recursive else 0
        tree = cloned(path, is_recursive=is_recursive)
        try:
            attributes = packed(_MOUNT_ATTR_IDMAP, 0, 0, self.namespace)
            syscall(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | recursive, attributes, len(attributes))
        except OSError:
            os.close(tree)
            raise
        return tree

    def make_files(self) -> None:
        """Let what this process makes from now on belong to the user; its rights stay those of root."""
        call("prctl", _PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0)
        _libc.setfsgid(self.host_id)
        _libc.setfsuid(self.host_id)

    def become(self) -> None:
        """Be this user, root in its namespace, for good."""
        for output in (1, 2):
            if not stat.S_ISCHR(os.fstat(output).st_mode):
                # It may open these again, as ``/dev/stdout``.
                os.fchown(output, self.host_id, self.host_id)
        _, most = resource.getrlimit(resource.RLIMIT_NPROC)
        bound = MAX_PROCESSES if most == resource.RLIM_INFINITY else min(most, MAX_PROCESSES)
        resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))
        call("setns", self.namespace, _CLONE_NEWUSER)
        os.close(self.namespace)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)


def _stay_in_new_namespace(host_id: int, ready: int, done: tuple[int, int]) -> None:
    """Enter a user namespace, say so, and end when nobody holds the pipe `done` open any more.

    What is counted for each user, such as inotify instances, counts for the owner of the namespace, too. That is this
    user, so that it cannot use up what root may have.
    """
    try:
        os.close(done[1])
        os.seteuid(host_id)
        call("unshare", _CLONE_NEWUSER)
        os.write(ready, b".")
        os.read(done[0], 1)
    finally:
        os._exit(0)


def cloned(path: str | int, *, is_recursive: bool = False) -> int:
    """A mount of `path`, a path or a descriptor, that is nowhere yet."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | (_AT_RECURSIVE if is_recursive else 0)
    if isinstance(path, int):
        return syscall(_OPEN_TREE, path, b"", flags | _AT_EMPTY_PATH)
    return syscall(_OPEN_TREE, -1, os.fsencode(path), flags)


def attach(tree: int, path: str | int) -> None:
    """Mount what `cloned` or `Stranger.owning` gave at a path or over a descriptor, and close it."""
    try:
        if isinstance(path, int):
            syscall(_MOVE_MOUNT, tree, b"", path, b"", _MOVE_FROM_HERE | _MOVE_TO_HERE)
        else:
            syscall(_MOVE_MOUNT, tree, b"", -1, os.fsencode(path), _MOVE_FROM_HERE)
    finally:
        os.close(tree)


def drop_capabilities(kept: int = 0) -> None:
    """Give up all capabilities for good but those of the mask `kept`."""
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        fields = dict(line.split(":", 1) for line in file)
    permitted, bounding = int(fields["CapPrm"], 16), int(fields["CapBnd"], 16)
    # Without this one no program of its own can regain any, as `shut_in` sees to.
    dropped = bounding & ~kept if permitted & _CAP_SETPCAP else 0
    for number in range(dropped.bit_length()):
        if dropped >> number & 1:
            call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0)
    kept &= permitted
    header = ctypes.create_string_buffer(_CAPABILITY_VERSION.to_bytes(4, sys.byteorder) + bytes(4), 8)
    low, high = ((kept >> shift & 0xFFFFFFFF).to_bytes(4, sys.byteorder) for shift in (0, 32))
    call("capset", header, ctypes.create_string_buffer((low * 2 + bytes(4)) + (high * 2 + bytes(4)), 24))


def shut_in(writable: Iterable[str] = ("/",)) -> bool:
    """Let this program, and all that it starts, change only what its own root shows; whether the kernel can do it.

    Of that only what is below some paths. Then it can mount and unmount nothing, cannot follow ``/proc/PID/root`` out
    for writing, trace no process outside, send none a signal and reach no abstract socket of one. In any case no
    program that it runs gains rights, and it has no keys of the session that started it.
    """
    call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _leave_keys()
    abi = landlock_abi()
    if abi < _LANDLOCK_MIN_ABI:
        return False
    writes = _LANDLOCK_WRITES | (_LANDLOCK_TRUNCATE if abi > _LANDLOCK_MIN_ABI else 0)
    attributes = packed(writes, 0, _LANDLOCK_SCOPES) if abi >= LANDLOCK_SCOPES_ABI else packed(writes)
    rules = syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    contents = writes & (_LANDLOCK_WRITE_FILE | _LANDLOCK_TRUNCATE)
    for path in writable:
        beneath = os.open(path, os.O_PATH)
        _allow(rules, writes if stat.S_ISDIR(os.fstat(beneath).st_mode) else contents, beneath)
        os.close(beneath)
    for output in (1, 2):
        with contextlib.suppress(OSError):
            _allow(rules, contents, output)
    syscall(_LANDLOCK_RESTRICT_SELF, rules, 0)
    os.close(rules)
    return True


def landlock_abi() -> int:
    """The version of Landlock that the kernel has, 0 for none."""
    with contextlib.suppress(OSError):
        return syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)
    return 0


def _leave_keys() -> None:
    """Have a keyring of our own in place of the session's, whose keys this program could read and change."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        # A kernel without keys, or a container that may not use them.
        with contextlib.suppress(OSError):
            syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _allow(rules: int, writes: int, beneath: int) -> None:
    # A structure without padding.
    words = writes.to_bytes(8, sys.byteorder) + beneath.to_bytes(4, sys.byteorder)
    syscall(_LANDLOCK_ADD_RULE, rules, 1, ctypes.create_string_buffer(words, 12), 0)


def end_with_parent() -> None:
    """Be killed when the parent dies; to be said after each change of the user."""
    call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
