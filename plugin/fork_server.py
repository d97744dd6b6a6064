"""``python -m plugin.fork_server``: a process that loads a plugin once, and forks a process of it for each order.

It is started where a plugin runs on each of many nodes: loading is most of a plugin's start, and forked processes share
the memory of what is loaded. A forked plugin is a process like that of ``python -m plugin NAME``: it has its own
session, log, variables and exit status, and /proc shows its own command line and environment. Its parent is this
process. It is killed when this process ends, which is when nobody has the other end of the socket any more.

An order is one byte with two descriptors: a file of JSON, see `Order`, and the log, which takes standard output and
standard error; an order is given when the one before is answered. The answers are messages of JSON, see `serve`. This
process has no thread and no event loop, since a fork copies locks and descriptors. The loader reads ``LD_LIBRARY_PATH``
only when a program starts, so the first folder there is a descriptor of this process, to which each plugin opens a
folder of its own.

Source of what /proc shows: proc(5), fields 48 to 51 of /proc/PID/stat. Command line and environment are memory of the
process, of a size that is fixed when a program starts; `main` takes an argument that is room for longer ones. A plugin
for which there is no room, or of which the kernel does not say where they are, is executed after the fork.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, TypedDict

from . import cli

__all__ = ["Order", "main"]

_PR_SET_PDEATHSIG: Final = 1
_PLUGIN_FAILED: Final = 1
_COMMON: Final = (".command.launch", ".framework", ".nvml.library")
"""What plugins import when they are run, besides modules of their own packages."""


class Order(TypedDict):
    """The plugin that is run.

    Attributes:
        argv: Its whole command line.
        words: How many words at its end are the plugin's name and arguments.
        env: All its variables.
        library_folder: The first folder of its ``LD_LIBRARY_PATH``; empty where it has none of its own.
    """

    argv: list[str]
    words: int
    env: dict[str, str]
    library_folder: str


def serve(orders: socket.socket, library_slot: int) -> None:
    """Fork a plugin for each order, until the other end of the socket is closed.

    The answers: ``["started", PID]`` from each plugin when it has its environment; ``["failed", ERRNO]`` where there is
    no fork; ``["ended", PID, STATUS]``, the status negative for a signal.

    Args:
        orders: A socket that keeps the bounds of messages.
        library_slot: The descriptor that is the first folder of ``LD_LIBRARY_PATH``.
    """
    gc.disable()
    loaded: set[str] = set()
    awake, wakeup = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    server = os.getpid()
    while True:
        ready, _, _ = select.select([orders.fileno(), awake], [], [])
        if awake in ready:
            os.read(awake, 1 << 16)
            _report_ends(orders)
        if orders.fileno() not in ready:
            continue
        data, files, _, _ = socket.recv_fds(orders, 1, 2)
        if not data:
            return
        order, log = files
        os.lseek(order, 0, os.SEEK_SET)
        with os.fdopen(order, encoding="utf-8") as file:
            given: Order = json.load(file)
        if (name := _words(given)[0]) not in loaded:
            _load(name)
            loaded.add(name)
        try:
            pid = os.fork()
        except OSError as error:
            _send(orders, "failed", error.errno or errno.EAGAIN)
        else:
            if pid == 0:
                for descriptor in (awake, wakeup):
                    os.close(descriptor)
                _run(server, given, log, orders, library_slot)
        os.close(log)


def _load(plugin: str) -> None:
    """Import what a plugin may import, and let no search for garbage write into what is shared."""
    for module in _COMMON:
        importlib.import_module(module, __package__)
    command = importlib.import_module(cli.PLUGINS[plugin], __package__)
    package = importlib.import_module(command.__package__ or "")
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)
    gc.freeze()


def _words(order: Order) -> list[str]:
    return order["argv"][-order["words"] :]


def _report_ends(orders: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _send(orders, "ended", pid, os.waitstatus_to_exitcode(status))


def _send(orders: socket.socket, *message: str | int) -> None:
    orders.send(json.dumps(message).encode())


def _run(server: int, order: Order, log: int, orders: socket.socket, library_slot: int) -> NoReturn:
    """Be the plugin, in the new process."""
    status = _PLUGIN_FAILED
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        _die_with(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.environ.clear()
        os.environ.update(order["env"])
        environment = (f"{name}={value}" for name, value in order["env"].items())
        is_shown = _show("environment", environment) and _show("command line", order["argv"])
        if folder := order["library_folder"]:
            _open_folder(folder, library_slot)
        _send(orders, "started", os.getpid())
        orders.close()
        if not is_shown:
            os.execve(order["argv"][0], order["argv"], order["env"])  # noqa: S606  # the words are an argv
        status = cli.main(_words(order), prog_name="python -m plugin")
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # whatever it is, this process must not go on as another server
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def _die_with(server: int) -> None:
    """Be killed when the parent dies, also if it has died already.

    Source: prctl(2).
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os.kill(os.getpid(), signal.SIGKILL)


def _open_folder(folder: str, descriptor: int) -> None:
    """Let a descriptor be a folder; one that is missing has no libraries."""
    try:
        opened = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    except OSError:
        return
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)


def _show(what: str, words: Iterable[str]) -> bool:
    """Let /proc show a command line or an environment; whether there is room for it."""
    fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(") ")[2].split()
    first = 45 if what == "command line" else 47
    begin, end = int(fields[first]), int(fields[first + 1])
    shown = b"\0".join(map(os.fsencode, words))
    if len(shown) >= end - begin:
        return False
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, shown, len(shown))
    return True


def main() -> None:
    """Serve; the arguments are the descriptors of `serve`, and room for longer command lines."""
    orders, library_slot = map(int, sys.argv[1:3])
    for descriptor in (orders, library_slot):
        os.set_inheritable(descriptor, False)
    _show("command line", sys.orig_argv[:-1])
    with suppress(BrokenPipeError, ConnectionResetError):
        serve(socket.socket(fileno=orders), library_slot)
    # What is forked is killed at the end of this process; there is nothing to take down.
    os._exit(0)


if __name__ == "__main__":
    main()
