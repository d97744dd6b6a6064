"""What a plugin or a container may try on the host that it runs on, without harm where it succeeds."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

KEYRING = r"""
import ctypes, os

# The serial number of that of the session, which is made where there is none.
def keyring():
    number = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}.get(os.uname().machine, -1)
    return ctypes.CDLL(None).syscall(number, 0, -3, 1)
"""
PROGRAM = (
    KEYRING
    + r"""
import resource, socket, stat, struct, sys, fcntl

victim, decoy, address = int(sys.argv[1]), sys.argv[2], sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
devices = ["/dev/null", "/dev/gpu0"]
RDONLY, REMOUNT, BIND, PRIVATE, REC = 1, 32, 4096, 1 << 18, 16384

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")

def opened(path, flags):
    os.close(os.open(path, flags))

def any_of(tries):
    for one in tries:
        try:
            return one()
        except OSError as error:
            last = error
    raise last if tries else OSError

def remount():
    checked(libc.mount(None, b"/usr", None, REMOUNT | BIND, None))

def make_writable():
    attributes = struct.pack("=4Q", 0, RDONLY, 0, 0)
    checked(libc.syscall(ctypes.c_long(442), -100, b"/usr", 0, attributes, ctypes.c_long(len(attributes))))

def nested(work):
    child = os.fork()
    if child == 0:
        user, group = os.geteuid(), os.getegid()
        try:
            checked(libc.unshare(0x10000000 | 0x20000))
            for name, text in {"setgroups": "deny", "uid_map": f"0 {user} 1", "gid_map": f"0 {group} 1"}.items():
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise OSError

def abstract():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + address)

def set_up_loopback():
    with socket.socket() as one:
        flags = fcntl.ioctl(one, 0x8913, struct.pack("16sh14x", b"lo", 0))
        fcntl.ioctl(one, 0x8914, flags)

def disks():
    return [f"/dev/{name}" for name in os.listdir("/dev") if stat.S_ISBLK(os.lstat(f"/dev/{name}").st_mode)]

def secrets():
    found = ["/etc/shadow"]
    for top in ("/etc/ssl/private", "/etc/pki/tls/private"):
        found += [f"{top}/{name}" for name in (os.listdir(top) if os.access(top, os.R_OK) else ())]
    return found

def join_session():
    if keyring() != int(sys.argv[6]):
        raise OSError

def share_ipc():
    if os.readlink("/proc/self/ns/ipc") != sys.argv[7]:
        raise OSError

def limit():
    resource.prlimit(victim, resource.RLIMIT_CORE, resource.prlimit(0, resource.RLIMIT_CORE))

def call(numbers, *words):
    checked(libc.syscall(*map(ctypes.c_long, (numbers.get(os.uname().machine, -1), *words))))

# Everything stays as it is.
def schedule():
    any_of([
        lambda: os.setpriority(os.PRIO_PROCESS, victim, os.getpriority(os.PRIO_PROCESS, victim)),
        lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(victim), os.getpriority(os.PRIO_PROCESS, victim)),
        lambda: os.sched_setaffinity(victim, os.sched_getaffinity(victim)),
        lambda: os.sched_setscheduler(victim, os.sched_getscheduler(victim), os.sched_getparam(victim)),
        lambda: os.sched_setparam(victim, os.sched_getparam(victim)),
        lambda: call({"x86_64": 251, "aarch64": 30}, 1, victim, 0),
    ])

def is_the_victims_ordinary_user():
    with open("/proc/self/status") as status, open("/proc/self/uid_map") as mapped:
        user = next(int(line.split()[1]) for line in status if line.startswith("Uid:"))
        is_root = user == int(mapped.read().split()[1]) == 0
    return os.path.exists(f"/proc/{victim}") and os.stat(f"/proc/{victim}").st_uid == user and not is_root

def schedule_all():
    any_of([
        lambda: os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_USER, 0)),
        lambda: call({"x86_64": 251, "aarch64": 30}, 3, 0, 0),
    ])

def read(path):
    with open(path, "rb") as file:
        if not file.read(1):
            raise OSError

attacks = {
    "writes core_pattern": lambda: opened("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "opens sysrq-trigger": lambda: opened("/proc/sysrq-trigger", os.O_WRONLY),
    "opens memory": lambda: opened("/dev/mem", os.O_RDONLY),
    "opens a disk": lambda: any_of([lambda path=path: opened(path, os.O_RDONLY) for path in disks()]),
    "reads a key": lambda: any_of([lambda path=path: read(path) for path in secrets()]),
    "changes a device": lambda: any_of([lambda path=path: os.chmod(path, 0o666) for path in devices]),
    "remounts": remount,
    "remounts below": lambda: nested(remount),
    "makes a mount writable": make_writable,
    "makes a mount writable below": lambda: nested(make_writable),
    "unmounts": lambda: checked(libc.umount2(b"/proc/sys", 2)),
    "makes a device": lambda: os.mknod("/tmp/skt-memory", stat.S_IFCHR | 0o600, os.makedev(1, 1)),
    "traces": lambda: checked(libc.ptrace(0x4206, victim, None, None)),
    "signals": lambda: any_of([
        lambda: os.kill(victim, 0),
        lambda: os.killpg(os.getpgid(victim), 0),
        lambda: call({"x86_64": 234, "aarch64": 131}, victim, victim, 0),
        lambda: call({"x86_64": 424, "aarch64": 424}, os.open(f"/proc/{victim}", os.O_RDONLY), 0, 0, 0),
    ]),
    "limits another": limit,
    "schedules another": schedule,
    "schedules all of its user": schedule_all,
    "writes what /proc has of another": lambda: any_of(
        [lambda name=name: opened(f"/proc/{victim}/{name}", os.O_WRONLY) for name in ("oom_score_adj", "autogroup")]
    ),
    "writes through another's root": lambda: opened(f"/proc/{victim}/root{decoy}", os.O_WRONLY),
    "has the keys of the session": join_session,
    "leaves memory in System V IPC": share_ipc,
    "writes a file": lambda: opened(decoy, os.O_WRONLY),
    "enters another's mounts": lambda: opened(f"/proc/{victim}/ns/mnt", os.O_RDONLY),
    "connects to an abstract socket": abstract,
    "names the host": lambda: socket.sethostname(socket.gethostname()),
    "changes the network": set_up_loopback,
}

if os.readlink("/proc/self/ns/uts") != sys.argv[4]:
    del attacks["names the host"]
if os.readlink("/proc/self/ns/net") != sys.argv[5]:
    del attacks["changes the network"]
if not is_the_victims_ordinary_user():
    del attacks["schedules all of its user"]
for name, attack in attacks.items():
    try:
        attack()
    except OSError:
        continue
    print(name)
    if sys.argv[8:] == ["--fail"]:
        sys.exit(f"succeeded: {name}")
"""
)


class Victim:
    """A process, a file and an abstract socket of the host; `argv` attacks them and prints what succeeded.

    Args:
        folder: Where the file is made.
        prefix: The words before the argv of the process, for another user.
    """

    def __init__(self, folder: Path, prefix: Sequence[str] = ()) -> None:
        self._file = folder / "decoy"
        self._file.write_text("untouched")
        self._file.chmod(0o666)
        self._address = f"skt-{secrets.token_hex(8)}"
        self._prefix = prefix

    def __enter__(self) -> Self:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{self._address}")
        self._listener.listen()
        # The first of its group ends, so that the id of the group is no process's.
        argv = [*self._prefix, "sh", "-c", "sleep infinity >/dev/null 2>&1 & echo $!"]
        path = {"PATH": "/usr/bin:/bin"}
        self._pid = int(subprocess.check_output(argv, env=path, start_new_session=True))
        return self

    def __exit__(self, _kind: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._listener.close()

    def argv(self, python: str = sys.executable) -> list[str]:
        uts, net, ipc = (str(Path("/proc/self/ns", kind).readlink()) for kind in ("uts", "net", "ipc"))
        own: dict[str, Callable[[], int]] = {}
        exec(KEYRING, own)  # noqa: S102
        victim = [str(self._pid), str(self._file), self._address]
        return [python, "-I", "-c", PROGRAM, *victim, uts, net, f"{own['keyring']()}", ipc]
