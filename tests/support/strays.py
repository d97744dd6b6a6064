"""A plugin that starts processes which try to stay when it ends: without its environment, its session and its parent.

`PROGRAM` takes names of `STRAYS` or one of `TRACERS`, separated by commas, and a named pipe. Its processes say their
ids, each stray says "ready", and when the pipe is opened for writing it ends with status 3. What the kernel refuses to
a stray it does not do.
"""

from __future__ import annotations

from typing import Final

__all__ = ["PROGRAM", "STRAYS", "TRACERS"]

STRAYS: Final = (
    *("plain", "stopped", "other root", "namespace below", "without a first thread", "child of the simulator"),
    *("ended child of the simulator", "untraced", "chain"),
)
TRACERS: Final = (
    *("tracer", "tracer of the exit", "tracer of a thread", "traced tracer"),
    *("stops what traces", "traces what traces"),
)

PROGRAM: Final = r"""
import ctypes, os, signal, sys, threading, time
kinds, pipe, first = [*sys.argv[1:], ""][:3]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
SEIZE, INTERRUPT, TRACE_EXIT = 0x4206, 0x4207, 1 << 6
CLONE_PARENT, CLONE_UNTRACED, CLONE_NEWUSER = 0x8000, 0x800000, 0x10000000
CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())

def again(what, *words):
    # Without a variable.
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", PROGRAM, what, *map(str, words)], {})

def status(pid, name):
    return next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith(name))

def trace(pid, options=0):
    if libc.ptrace(SEIZE, pid, 0, options):
        say("refused", ctypes.get_errno())
    return pid

def wait():
    say(os.getpid(), "ready")
    while True:
        signal.pause()

PROGRAM = sys.orig_argv[sys.orig_argv.index("-c") + 1]
if first:
    kind, first = kinds, int(first)
    if kind == "stopped":
        say(os.getpid(), "ready")
        os.kill(os.getpid(), signal.SIGSTOP)
    if kind == "other root":
        os.makedirs(f"{pipe}-root", exist_ok=True)
        libc.chroot(os.fsencode(f"{pipe}-root"))
    if kind == "namespace below":
        libc.unshare(CLONE_NEWUSER)
    if kind == "without a first thread":
        threading.Thread(target=wait).start()
        libc.pthread_exit(None)
    if kind == "tracer":
        trace(first)
    if kind == "tracer of the exit":
        trace(first, TRACE_EXIT)
    if kind == "tracer of a thread":
        trace(int(max(os.listdir(f"/proc/{first}/task"), key=int)))
    if kind == "traced tracer":
        trace(first)
        traced = os.getpid()
        while os.fork():
            signal.pause()
        os.setsid()
        trace(traced, TRACE_EXIT)
    if kind in ("stops what traces", "traces what traces") and (tracer := int(status(first, "TracerPid"))):
        if kind == "stops what traces":
            # Another process of its says so, as this one stops at its next call.
            say(os.getpid(), "ready")
            os.kill(tracer, signal.SIGSTOP)
        else:
            trace(tracer, TRACE_EXIT)
            # The next signal that it gets, as that its tracer has stopped, is told to that tracer first.
            say(os.getpid(), "ready")
            libc.ptrace(INTERRUPT, tracer, 0, 0)
    if kind == "chain":
        say("ready")
        # Bounded, so that no mistake of a test goes on for long.
        for _ in range(20_000):
            if os.fork():
                os._exit(0)
            os.setsid()
        say("outlived")
        os._exit(0)
    wait()

def child(flags):
    made = libc.syscall(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)
    return os.fork() if made < 0 else made

plugin = os.getpid()
threading.Thread(target=signal.pause, daemon=True).start()
say(plugin)
for kind in kinds.split(","):
    flags = {"untraced": CLONE_UNTRACED}.get(kind, CLONE_PARENT if kind.endswith("child of the simulator") else 0)
    if child(flags) == 0:
        os.setsid()
        if kind == "ended child of the simulator":
            say(os.getpid(), "ready")
            os._exit(0)
        if kind == "child of the simulator" or os.fork() == 0:
            again(kind, pipe, plugin)
        os._exit(0)
open(pipe).close()
os._exit(3)
"""
