"""The end of a plugin's process with all that it has started, whatever that has made of itself.

A program can start others without its environment, and so without its mark. They are known by what they inherit as
well: its session, which they can leave, its cgroup, where there are any, and the user namespace of its view, which
nobody leaves. The supervisor of a view without namespaces is in the session, and what it traces ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from .marked_processes import LOOK_AGAIN_S, Key, found, is_marked, keys_of, parent_of, signal_all, user_namespaces

_TRACED_LIMIT_S: Final = 5.0
"""How long one that has been killed is waited for where a debugger keeps it."""
_KILL_LIMIT_S: Final = 60.0
"""A guard only: what is killed ends by itself, on a busy machine later than after some seconds."""
_LOOKS_AT_NEWEST: Final = 100
_NEWEST: Final = 32
"""Ids that a look goes back."""


class Family:
    """A plugin's first process and all that it has started.

    Args:
        mark: Theirs.
        leader: The id of the first process, which leads a session and is a child of this one that nobody has waited for
            yet: so long no other process has that id, or is in that session. None where it is the child of another.
        others: Returns the ids of the processes in its cgroup.
    """

    def __init__(self, mark: str, leader: int | None = None, others: Callable[[], Collection[int]] = tuple) -> None:
        self._mark = mark
        self._leader = leader
        self._others = others

    async def kill(self) -> Sequence[int]:
        """Kill all, and those that they fork meanwhile; returns when there are none.

        What traces one of them is killed, too, where a plugin has started it: the end of what it traces comes to nobody
        else before. Any other tracer is a debugger of the user and is left alone; what that keeps is waited for some
        seconds, and returned.
        """
        began_s = time.monotonic()
        if self._leader is not None:
            # At once, as what forks all the time leaves no time for a look.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._leader, signal.SIGKILL)
        while (left := await self._kill_once()) or self._kill_newest():
            waited_s = time.monotonic() - began_s
            if waited_s > _KILL_LIMIT_S or (waited_s > _TRACED_LIMIT_S and left and all(map(tracers, left))):
                break
            await asyncio.sleep(LOOK_AGAIN_S)
        return left

    async def _kill_once(self) -> Sequence[int]:
        """Kill those that are there; which there were, with a first one whose end a tracer keeps."""
        by_key = await found()
        keys = self._keys()
        pids = {pid for key in keys for pid in by_key.get(key, ())}.union(self._others())
        left = [pid for pid in pids if is_alive(pid) or (pid == self._leader and tracers(pid))]
        signal_all(partial(self._has, keys), left, signal.SIGKILL)
        strangers = {tracer for pid in left for tracer in tracers(pid)} - pids
        signal_all(lambda pid: is_marked(pid) or not tracers(pid).isdisjoint(pids), strangers, signal.SIGKILL)
        if self._leader is not None:
            for pid in pids - {self._leader}:
                _take_end(pid)
        return left

    def _kill_newest(self) -> bool:
        """Kill one that forks and ends all the time, so that a look at all comes too late; whether there was one."""
        namespaces = [key for key in self._keys() if key[0] == "user"]
        for _ in range(_LOOKS_AT_NEWEST if namespaces else 0):
            newest = int(Path("/proc/loadavg").read_text(encoding="ascii").split()[-1])
            # Others may have started processes since.
            for pid in range(newest, max(0, newest - _NEWEST), -1):
                with contextlib.suppress(OSError):
                    if namespaces == [("user", one) for one in user_namespaces(pid)] and is_alive(pid):
                        return bool(signal_all(partial(self._has, namespaces), [pid], signal.SIGKILL))
        return False

    def _keys(self) -> Collection[Key]:
        keys: list[Key] = [("mark", self._mark)]
        if self._leader is not None:
            keys.append(("session", self._leader))
            with contextlib.suppress(OSError):
                keys += [("user", namespace) for namespace in user_namespaces(self._leader)]
        return keys

    def _has(self, keys: Collection[Key], pid: int) -> bool:
        return any(key in keys for key in keys_of(pid)) or pid in self._others()


async def kill_marked(mark: str) -> None:
    """Kill every process with a mark, and those that they fork meanwhile; returns when there are none."""
    await Family(mark).kill()


async def kill_rooted(root: os.stat_result) -> None:
    """Kill every process whose root is a folder, with a mark or without; returns when there are none.

    A program in a view of a node, whose root that is, can start others without its environment, and so without a mark.

    Args:
        root: of the folder, which is there still; that of this process has none of them.
    """
    while _kill_rooted(root):  # noqa: ASYNC110  # the end of another's child is not reported
        await asyncio.sleep(LOOK_AGAIN_S)


def _kill_rooted(root: os.stat_result) -> int:
    """Kill them once; how many there were."""
    if os.path.samestat(root, Path("/").stat()):
        return 0
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_rooted(root, int(name))]  # noqa: PTH208
    return signal_all(partial(_is_rooted, root), pids, signal.SIGKILL)


def _is_rooted(root: os.stat_result, pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(Path(f"/proc/{pid}/root").stat(), root)
    return False


def tracers(pid: int) -> set[int]:
    """Ids of the processes that trace a thread of a process; its end waits for theirs, or for them to take it."""
    found_ids = set[int]()
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            lines = (thread / "status").read_text(errors="replace").splitlines()
            found_ids.update(int(line.split()[1]) for line in lines if line.startswith("TracerPid:"))
    return found_ids - {0}


def is_alive(pid: int) -> bool:
    """Whether a thread of a process has not ended."""
    with contextlib.suppress(OSError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return any((one / "stat").read_text(errors="replace").rpartition(") ")[2][0] not in "ZX" for one in threads)
    return False


def name_of(pid: int) -> str:
    """The name of a process's program; empty where it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    return ""


def _take_end(pid: int) -> None:
    """Wait for one that has ended, where it has made itself a child of this process (CLONE_PARENT)."""
    with contextlib.suppress(OSError):
        if parent_of(pid) == os.getpid():
            os.waitpid(pid, os.WNOHANG)
