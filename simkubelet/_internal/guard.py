"""A process that answers for a program which others' limits, priority, CPUs and signals it may change.

A program that a user runs in a view has that user's id, with which the kernel lets it end all other programs of the
user, by a limit of their CPU time for one; neither namespaces nor Landlock prevent that. Here it may name what shares
its mounts, and what has ended already, as the kernel says so; for anything else the call fails with EPERM. Signals are
watched where Landlock does not hold them in.

The answer needs no memory of the program, so nobody can change it while it is given. The guard ends when nobody is left
for whom it answers. Run by a bare Python, so nothing of the package is imported here.

Kernel facts: seccomp_unotify(2), seccomp(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from . import isolation

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CALLS = {
    "x86_64": {
        0xC000003E: (302, 142, 144, 203, 314, 141, 251, 62, 200, 234, 129, 297),
        0x40000003: (340, 154, 156, 241, 351, 97, 289, 37, 238, 270, 178, 335),
    },
    "aarch64": {
        0xC00000B7: (261, 118, 119, 122, 274, 140, 30, 129, 130, 131, 138, 240),
        0x40000028: (369, 154, 156, 241, 380, 97, 314, 37, 238, 268, 178, 363),
    },
}
"""Machine -> kind of programs, of 64 and of 32 bits -> the numbers of prlimit64, sched_setparam, sched_setscheduler,
sched_setaffinity, sched_setattr, setpriority, ioprio_set, kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo.

Source: arch/x86/entry/syscalls, arch/arm/tools/syscall.tbl, include/uapi/asm-generic/unistd.h,
include/uapi/linux/audit.h (Linux 6.1).
"""
_PROCESS = (0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0)
"""Which argument of each is the id of a process, or of a group: a negative one, or that of `_GROUP`."""
_GROUP, _ALL_OF_A_USER = {5: 1, 6: 2}, {5: 2, 6: 3}
"""PRIO_PGRP and IOPRIO_WHO_PGRP, PRIO_USER and IOPRIO_WHO_USER: with these as their first argument the two name a
group, or all processes of a user.
"""
_FIRST_SIGNAL = 7
_PIDFD_SEND_SIGNAL = 424
_MIN_KERNEL = (5, 9)
"""Before it nobody tells a guard that it is not needed any more."""
_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_ALLOW, _ERROR, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _JUMP, _RETURN = 0x20, 0x15, 0x35, 0x05, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where `struct seccomp_data` has them; the arguments have 8 bytes each.

Source: include/uapi/linux/seccomp.h, include/uapi/linux/bpf_common.h (Linux 6.1).
"""
_X32 = 1 << 30


class Guard:
    """The guard of this process, made before that gives up what it may do.

    Raises:
        OSError: no process can be made.
    """

    def __init__(self) -> None:
        # Its wrapper in the library takes longer to import than all the rest.
        import _socket

        self._link, theirs = _socket.socketpair()
        child = os.fork()
        if child == 0:
            try:
                # No key of a terminal reaches it, and it is nobody's child.
                os.setpgid(0, 0)
                if os.fork() == 0:
                    _answer(theirs)
            finally:
                os._exit(0)
        theirs.close()
        os.waitpid(child, 0)

    def watch(self) -> None:
        """Let it answer from now on, the last thing before a program runs; it ends where the kernel cannot do that."""
        import _socket

        with contextlib.suppress(OSError, ValueError), contextlib.closing(self._link):
            machine, release = os.uname().machine, os.uname().release.split("-")[0].split(".")
            if machine in _SECCOMP and (int(release[0]), int(release[1])) >= _MIN_KERNEL:
                code = ctypes.create_string_buffer(_filter(_CALLS[machine]))
                words = isolation.packed(len(code) // 8, ctypes.addressof(code))
                listener = isolation.syscall(_SECCOMP[machine], _SET_FILTER, _NEW_LISTENER, words)
                rights = listener.to_bytes(4, sys.byteorder)
                self._link.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
                os.close(listener)


def _filter(calls: Mapping[int, Sequence[int]]) -> bytes:
    """The instructions that let all calls pass but those about which a guard is to be asked."""
    has_signals = isolation.landlock_abi() < isolation.LANDLOCK_SCOPES_ABI
    parts = []
    for architecture, numbers in calls.items():
        part = [(_LOAD, 0, 0, _NUMBER), (_IF_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
        for row, number in enumerate(numbers if has_signals else numbers[:_FIRST_SIGNAL]):
            asked = [(_LOAD, 0, 0, _ARGUMENTS + 8 * _PROCESS[row]), (_IF_EQUAL, 1, 0, 0)]
            asked += [(_IF_EQUAL, 0, 1, os.getpid()), (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ASK)]
            if row in _ALL_OF_A_USER:
                refused = (_RETURN, 0, 0, _ERROR | errno.EPERM)
                asked = [(_LOAD, 0, 0, _ARGUMENTS), (_IF_EQUAL, 0, 1, _ALL_OF_A_USER[row]), refused, *asked]
            part += [(_IF_EQUAL, 0, len(asked), number), *asked]
        if has_signals:
            # What its descriptor means could change after the answer; programs have kill where a kernel lacks it.
            part += [(_IF_EQUAL, 0, 1, _PIDFD_SEND_SIGNAL), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
        part.append((_RETURN, 0, 0, _ALLOW))
        parts += [(_LOAD, 0, 0, _ARCHITECTURE), (_IF_EQUAL, 1, 0, architecture), (_JUMP, 0, 0, len(part)), *part]
    parts.append((_RETURN, 0, 0, _ERROR | errno.ENOSYS))
    order = sys.byteorder
    return b"".join(code.to_bytes(2, order) + bytes(to) + value.to_bytes(4, order) for code, *to, value in parts)


def _answer(link: object) -> None:
    """Be the guard."""
    import _socket
    import fcntl
    import select
    import struct

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _forget_environment()
    assert isinstance(link, _socket.socket)  # noqa: S101
    none = os.open("/dev/null", os.O_RDWR)
    for output in (0, 1, 2):
        os.dup2(none, output)
    os.closerange(3, link.fileno())
    os.closerange(link.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    _, rights, _, _ = link.recvmsg(1, _socket.CMSG_SPACE(4))
    link.close()
    listener = int.from_bytes(rights[0][2], sys.byteorder)
    calls = {
        (one, number): row for one, numbers in _CALLS[os.uname().machine].items() for row, number in enumerate(numbers)
    }
    asked = select.poll()
    asked.register(listener, select.POLLIN)
    while asked.poll()[0][1] & select.POLLIN:
        given = bytearray(80)
        # Who asked may have ended.
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, _RECEIVE, given)
            token, who, _, call, architecture, _, *arguments = struct.unpack("=QIIiIQ6Q", given)
            row = calls[architecture, call]
            process = ctypes.c_int(arguments[_PROCESS[row]]).value
            may = _may_name(who, -process if ctypes.c_int(arguments[0]).value == _GROUP.get(row) else process)
            fcntl.ioctl(
                listener, _SEND, struct.pack("=QqiI", token, 0, *((0, _CONTINUE) if may else (-errno.EPERM, 0)))
            )


def _forget_environment() -> None:
    """Be none of those that a program has started, who are known by a variable."""
    entries = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    count = 0
    while entry := entries[count]:
        ctypes.memset(entry, 0, len(ctypes.string_at(entry)))
        count += 1


def _may_name(who: int, number: int) -> bool:
    """Whether a process may name another one or, with a negative number, a group; -1 is all that there are."""
    if number > 0:
        return _shares_mounts(who, number)
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    group = [pid for pid in pids if _group_of(pid) == -number]
    return number != -1 and (not group or any(_shares_mounts(who, pid) for pid in group))


def _shares_mounts(who: int, pid: int) -> bool:
    """Whether two processes do; one that has ended has none, unless its first thread alone has."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return not _is_there(pid)
    for thread in threads:
        try:
            other = os.stat(f"/proc/{pid}/task/{thread}/ns/mnt")
        except FileNotFoundError:
            continue
        except OSError:
            return False
        return os.path.samestat(other, os.stat(f"/proc/{who}/ns/mnt"))
    return True


def _is_there(pid: int) -> bool:
    """Whether there is a process, also one that /proc hides."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _group_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return 0
