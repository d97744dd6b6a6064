"""The backend's hand on a node: a process in a container of the plugin image that sees the node's files and processes.

It reads one command a line from standard input and writes one JSON object a line: ``{"answer": NUMBER, "value": …}``
or ``{"answer": NUMBER, "error": "…"}`` to a command, and what it sees by itself::

    {"ready": true}                            it watches
    {"kubelet": true}                          kubelet.sock has appeared, or is there at the start
    {"checkpoint": "…"}                        the text of the checkpoint has changed, null where there is none
    {"output": "PLUGIN", "line": "…"}          a stub has written a line
    {"tapped": "PLUGIN", "report": {…}}        a tap has seen a call, see `tap.tap`

It ends with its input. The node's root is mounted at ``/host``, the folder of the run at its own path. That has
``machine`` and ``driver``, for each stub ``PLUGIN.in`` and ``PLUGIN.out``, for each tap ``taps/PLUGIN``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from asyncinotify import Event, Inotify, Mask

from simkubelet.runtime import CriCall

from ...tap.tap import CriTap, Tap
from ..world.marked_processes import catches, signal_first, signal_marked
from ..world.pod_resources import ask
from .agent_changes import HOST, PLACE, AgentDevices, AgentFiles

PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")
CHECKPOINT: Final = PLUGINS / "kubelet_internal_checkpoint"
TAPS: Final = PLACE / "taps"
CRI: Final = PLACE / "cri.sock"
CONTAINERD: Final = Path("/run/containerd/containerd.sock")
POD_RESOURCES: Final = HOST / "var/lib/kubelet/pod-resources/kubelet.sock"
_EXIT_CODE: Final = "exit-code"
_HANDLER_WITHIN_S: Final = 5.0


class Agent:
    """Watches and obeys."""

    def __init__(self) -> None:
        self._checkpoints_reported: list[str | None] = []
        self._taps: dict[str, Tap] = {}
        self._cri_tap: CriTap | None = None
        self._parts = (self, AgentFiles(), AgentDevices())
        # The agent that ran before a reboot has already reported what is there.
        self._read = {file: file.stat().st_size for file in PLACE.glob("*.out")}

    async def run(self) -> None:
        """Until the input ends."""
        PLACE.mkdir(parents=True, exist_ok=True)
        with Inotify() as watch:
            watch.add_watch(PLACE, Mask.CREATE | Mask.MODIFY)
            watch.add_watch(PLUGINS, Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE | Mask.DELETE)
            self._look()
            # Those of before a reboot.
            for folder in TAPS.glob("*"):
                self.do_add_tap(folder.name)
            if CRI.exists():
                self.do_add_cri_tap()
            self._look_for_kubelet()
            _tell(ready=True)
            seeing = asyncio.create_task(self._see(watch))
            await _lines(self._obey)
            seeing.cancel()

    def _look_for_kubelet(self) -> None:
        if _is_served(PLUGINS / "kubelet.sock"):
            _tell(kubelet=True)

    async def _see(self, watch: Inotify) -> None:
        async for event in watch:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if event.name is not None and event.name.name == "kubelet.sock" and Mask.CREATE in event.mask:
            _tell(kubelet=True)
        self._look()

    def _look(self) -> None:
        """Tell what is new in files."""
        text: str | None = None
        with contextlib.suppress(FileNotFoundError):
            text = CHECKPOINT.read_text()
        if self._checkpoints_reported != [text]:
            self._checkpoints_reported = [text]
            _tell(checkpoint=text)
        for file in sorted(PLACE.glob("*.out")):
            with file.open("rb") as stream:
                stream.seek(self._read.get(file, 0))
                *lines, rest = stream.read().split(b"\n")
                self._read[file] = stream.tell() - len(rest)
            for line in lines:
                _tell(output=file.stem, line=line.decode())

    async def _obey(self, order: Mapping[str, Any]) -> None:
        number = order["number"]
        try:
            value = self._verb("do_" + order["do"])(**order["with"])
            if isawaitable(value):
                value = await value
        except Exception as error:  # whatever it is, the other side has to know
            _tell(answer=number, error=getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        else:
            _tell(answer=number, value=value)

    def _verb(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = next(getattr(part, name) for part in self._parts if hasattr(part, name))
        return found

    def do_add_stub(self, plugin: str) -> None:
        """Create the pipe for a stub's commands, and the file for its output."""
        os.mkfifo(PLACE / f"{plugin}.in")
        (PLACE / f"{plugin}.out").touch()

    def do_tell(self, plugin: str, line: str) -> None:
        """Give a stub a line; it fails where no stub reads."""
        pipe = os.open(PLACE / f"{plugin}.in", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, line.encode() + b"\n")
        finally:
            os.close(pipe)

    def do_add_tap(self, plugin: str) -> None:
        """Stand between a plugin and the kubelet."""
        tap = Tap(TAPS / plugin, PLUGINS, lambda report: _tell(tapped=plugin, report=report))
        tap.start()
        self._taps[plugin] = tap

    def do_tell_tap(self, plugin: str, command: dict[str, Any]) -> None:
        """Let a tap answer calls otherwise, or end a stream."""
        self._taps[plugin].send_command(command)

    def do_add_cri_tap(self) -> None:
        """Stand between the kubelet and the container runtime, for a kubelet that is set up so."""
        self._cri_tap = CriTap(CRI, HOST / CONTAINERD.relative_to("/"))
        self._cri_tap.start()

    def do_refuse_cri(self, calls: list[str]) -> None:
        """Let the container runtime refuse these calls."""
        assert self._cri_tap is not None  # noqa: S101  # it is added where a story refuses any
        self._cri_tap.refuse([CriCall(call) for call in calls])

    def do_look_again(self) -> None:
        """Tell what there is."""
        self._checkpoints_reported.clear()
        self._look()
        self._look_for_kubelet()

    def do_signal(self, mark: str, number: int) -> int:
        """Signal all processes with a mark; how many there were."""
        return signal_marked(mark, signal.Signals(number))

    def do_signal_first(self, mark: str, number: int) -> int:
        """Signal the first process with a mark, where it has a handler; how many processes there are."""
        return signal_first(mark, signal.Signals(number))

    def do_exit(self, mark: str, code: int) -> int:
        """Let the stand-in with a mark end with a code; how many there were."""
        found = 0
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"SIMKUBELET_PLUGIN={mark}".encode() not in environment.read_bytes().split(b"\0"):
                    continue
                (environment.parent / "root" / _EXIT_CODE).write_text(str(code))
                pid = int(environment.parent.name)
                _await_handler(pid, signal.SIGUSR1)
                os.kill(pid, signal.SIGUSR1)
                found += 1
            except (OSError, ValueError):
                continue
        return found

    async def do_pod_resources(self, pods: Collection[str]) -> dict[str, Any]:
        """What the kubelet's PodResources API reports, as `PodResourcesAnswers`; Get is asked of some pods."""
        return asdict(await ask(POD_RESOURCES, pods))


def _await_handler(pid: int, number: signal.Signals) -> None:
    """Wait until a process that has just begun has its handler; before, the kernel drops what is sent to its first."""
    limit = time.monotonic() + _HANDLER_WITHIN_S
    while not catches(pid, number) and time.monotonic() < limit:
        time.sleep(0.01)


def _is_served(path: Path) -> bool:
    """Whether anybody listens on a socket: a kubelet that went with its node leaves the file."""
    with socket.socket(socket.AF_UNIX) as trial:
        return trial.connect_ex(str(path)) == 0


def _tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _lines(obey: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await obey(json.loads(line))


if __name__ == "__main__":
    asyncio.run(Agent().run())
