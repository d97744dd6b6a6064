"""The backend's hand on a node: a process in a container of the plugin image that sees the node's files and processes.

It reads one command a line from standard input and writes one JSON object a line: ``{"answer": NUMBER, "value": …}``
or ``{"answer": NUMBER, "error": "…"}`` to a command, and what it sees by itself::

    {"ready": true}                            it watches
    {"kubelet": true}                          kubelet.sock has appeared, or is there at the start
    {"checkpoint": "…"}                        the text of the checkpoint has changed, null where there is none
    {"claims": "…"}                            the same of the DRA manager's
    {"output": "PLUGIN", "line": "…"}          a stub has written a line
    {"tapped": "PLUGIN", "report": {…}}        a tap has seen a call, see `tap.tap`

It ends with its input. The node's root is mounted at ``/host``, the folder of the run at its own path. That has
``machine`` and ``driver``, for each stub ``PLUGIN.in`` and ``PLUGIN.out``, for each tap two folders in ``taps``. The
path of everything that the agent makes on the node is recorded in `CREATED`, so that it can be removed after the story.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simkubelet.apis.inotify import Mask, PathEvent, PathWatch
from simkubelet.apis.pluginregistration import PLUGINS_REGISTRY_PATH
from simkubelet.runtime import CriCall

from ...tap.tap import FOUND, CriTap, Tap
from ..world.marked_processes import catches, owns_socket, signal_first, signal_marked
from ..world.pod_resources import PodResourcesClient

if TYPE_CHECKING:
    from ..world.hardware import VendorDevices

HOST: Final = Path("/host")
"""Where the agent sees the node's root."""
PLACE: Final = Path("/var/lib/simkubelet")
"""The run's folder, on the node and for the agent."""
CREATED: Final = PLACE / "created"
"""The topmost path of each that was made on the node, a line each: what has to go in the end."""
PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")
_KUBELET: Final = HOST / "var/lib/kubelet"
_CHECKPOINTS: Final = {
    "checkpoint": PLUGINS / "kubelet_internal_checkpoint",
    "claims": _KUBELET / "dra_manager_state",
}
"""What a report calls it -> its file."""
TAPS: Final = PLACE / "taps"
CRI: Final = PLACE / "cri.sock"
_CONTAINERD: Final = Path("/run/containerd/containerd.sock")
POD_RESOURCES: Final = HOST / "var/lib/kubelet/pod-resources/kubelet.sock"
_EXIT_CODE: Final = "exit-code"
_HANDLER_WITHIN_S: Final = 5.0
_CDI_HOOKS: Final = (Path("/usr/bin/nvidia-ctk"), Path("/usr/bin/nvidia-cdi-hook"))
"""The programs that NVIDIA's plugin may name for the hooks of its CDI specifications; the first by default."""
_NULL: Final = (1, 3)
"""Major and minor number of ``/dev/null``, which stands for the devices of vendors."""
_DEVICE_MODE: Final = 0o666


class Agent:
    """Watches and obeys."""

    def __init__(self) -> None:
        self._reported: dict[str, str | None] = {}
        self._socket_reported: tuple[int, int] | None = None
        self._taps: dict[str, Tap] = {}
        self._cri_tap: CriTap | None = None
        self._parts = (self, AgentFiles(), AgentDevices())
        # The agent that ran before a reboot has already reported what is there.
        self._read = {file: file.stat().st_size for file in PLACE.glob("*.out")}

    async def run(self) -> None:
        """Until the input ends."""
        PLACE.mkdir(parents=True, exist_ok=True)
        with PathWatch() as watch:
            watch.add(PLACE, Mask.CREATE | Mask.MODIFY)
            for folder in (PLUGINS, _KUBELET):
                watch.add(folder, Mask.CREATE | Mask.MOVED_TO | Mask.CLOSE_WRITE | Mask.DELETE)
            self._look()
            self.add_taps()
            if CRI.exists():
                self.do_add_cri_tap()
            self._look_for_kubelet()
            _report(ready=True)
            seeing = asyncio.create_task(self._see(watch))
            await _lines(self._obey)
            seeing.cancel()

    def add_taps(self) -> None:
        """Stand where taps stood before a reboot."""
        for folder in TAPS.glob("*"):
            if not folder.name.endswith(FOUND):
                self.do_add_tap(folder.name)

    def _look_for_kubelet(self) -> None:
        if _is_served(PLUGINS / "kubelet.sock"):
            self._socket_reported = _identity(PLUGINS / "kubelet.sock")
            _report(kubelet=True)

    async def _see(self, watch: PathWatch) -> None:
        async for event in watch:
            self._handle(event)

    def _handle(self, event: PathEvent) -> None:
        if event.mask & Mask.CREATE and event.path == PLUGINS / "kubelet.sock":
            # A look may find a socket whose event has not been read yet: one kubelet, reported once.
            found = _identity(PLUGINS / "kubelet.sock")
            if found is None or found != self._socket_reported:
                _report(kubelet=True)
        self._look()

    def _look(self) -> None:
        """Report what is new in files."""
        for name, file in _CHECKPOINTS.items():
            text: str | None = None
            with contextlib.suppress(FileNotFoundError):
                text = file.read_text()
            if name not in self._reported or self._reported[name] != text:
                self._reported[name] = text
                _report(**{name: text})
        for file in sorted(PLACE.glob("*.out")):
            with file.open("rb") as stream:
                stream.seek(self._read.get(file, 0))
                *lines, rest = stream.read().split(b"\n")
                self._read[file] = stream.tell() - len(rest)
            for line in lines:
                _report(output=file.stem, line=line.decode())

    async def _obey(self, order: Mapping[str, Any]) -> None:
        number = order["number"]
        try:
            value = self._verb("do_" + order["do"])(**order["with"])
            if isawaitable(value):
                value = await value
        except Exception as error:  # whatever it is, the other side has to know
            _report(answer=number, error=getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        else:
            _report(answer=number, value=value)

    def _verb(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = next(getattr(part, name) for part in self._parts if hasattr(part, name))
        return found

    def do_add_stub(self, plugin: str) -> None:
        """Create the pipe for a stub's commands, and the file for its output."""
        os.mkfifo(PLACE / f"{plugin}.in")
        (PLACE / f"{plugin}.out").touch()

    def do_command_stub(self, plugin: str, line: str) -> None:
        """Give a stub a command, a line; it fails where no stub reads."""
        pipe = os.open(PLACE / f"{plugin}.in", os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, line.encode() + b"\n")
        finally:
            os.close(pipe)

    def do_add_tap(self, plugin: str) -> None:
        """Stand between a plugin and the kubelet."""
        found = TAPS / f"{plugin}{FOUND}", HOST / PLUGINS_REGISTRY_PATH.lstrip("/")
        tap = Tap(TAPS / plugin, PLUGINS, lambda report: _report(tapped=plugin, report=report), found)
        tap.start()
        self._taps[plugin] = tap

    def do_command_tap(self, plugin: str, command: dict[str, Any]) -> None:
        """Let a tap answer calls otherwise, or end a stream."""
        self._taps[plugin].send_command(command)

    def do_add_cri_tap(self) -> None:
        """Stand between the kubelet and the container runtime, for a kubelet that is set up so."""
        self._cri_tap = CriTap(CRI, HOST / _CONTAINERD.relative_to("/"))
        self._cri_tap.start()

    def do_refuse_cri(self, calls: list[str]) -> None:
        """Let the container runtime refuse these calls."""
        assert self._cri_tap is not None  # noqa: S101  # it is added where a story refuses any
        self._cri_tap.refuse([CriCall(call) for call in calls])

    def do_look_again(self) -> None:
        """Report what there is."""
        self._reported.clear()
        self._look()
        self._look_for_kubelet()

    def do_signal(self, mark: str, number: int) -> int:
        """Signal all processes with a mark; how many there were."""
        return signal_marked(mark, signal.Signals(number))

    def do_signal_first(self, mark: str, number: int) -> int:
        """Signal the first process with a mark, where it has a handler; how many processes there are."""
        return signal_first(mark, signal.Signals(number))

    def do_listeners(self, marks: Collection[str], socket: str) -> list[str]:
        """Those of some marks of which a process listens on a socket."""
        return [mark for mark in marks if owns_socket(mark, socket)]

    def do_exit(self, mark: str, code: int) -> int:
        """Let the stand-in with a mark end with a code; how many there were."""
        found = 0
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"SIMKUBELET_PLUGIN={mark}".encode() not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                (process / "root" / _EXIT_CODE).write_text(str(code))
                pid = int(process.name)
                _await_handler(pid, signal.SIGUSR1)
                os.kill(pid, signal.SIGUSR1)
                found += 1
            except (OSError, ValueError):
                continue
        return found

    async def do_pod_resources(self, pods: Collection[str]) -> dict[str, Any]:
        """What the kubelet's PodResources API reports, as `PodResourcesAnswers`; Get is asked of some pods."""
        with contextlib.closing(PodResourcesClient(POD_RESOURCES)) as client:
            return asdict(await client.ask(pods))


class AgentFiles:
    """Does what concerns files."""

    def do_create_file(self, path: str, content: str) -> None:
        """Make a file, and the folders above it."""
        place = HOST / path.lstrip("/")
        _note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x") as file:
            file.write(content)

    def do_create_link(self, path: str, target: str) -> None:
        """Make a symbolic link, and the folders above it."""
        place = HOST / path.lstrip("/")
        _note_created(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def do_write_file(self, path: str, content: str) -> None:
        """Give a file another content."""
        (HOST / path.lstrip("/")).write_text(content)

    def do_date_file(self, path: str, age: float) -> None:
        """Set the time at which a file was changed last, to so many seconds ago."""
        date_s = time.time() - age
        os.utime(HOST / path.lstrip("/"), (date_s, date_s))

    def do_move_file(self, path: str, to: str) -> None:
        """Give a file another path where nothing is in its way."""
        place = HOST / to.lstrip("/")
        if os.path.lexists(place):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)
        _note_created(place)
        (HOST / path.lstrip("/")).rename(place)

    def do_create_folder(self, path: str) -> None:
        """Make a folder, and those above it."""
        place = HOST / path.lstrip("/")
        _note_created(place)
        place.mkdir(parents=True)

    def do_remove_file(self, path: str) -> None:
        """Remove a file."""
        (HOST / path.lstrip("/")).unlink()


class AgentDevices:
    """Does what concerns devices."""

    def __init__(self) -> None:
        self._devices: VendorDevices | None = None

    def do_machine(self, cdi: str, driver: str, **gpus: Any) -> dict[str, Any]:
        """Create the fake machine and its driver; return a plugin's settings for both, and the CDI specification.

        The specification is of the kind `cdi`; `driver` is the driver's folder, below the run's.
        """
        from fakegpu import cdi_spec, make_cdi_hook, make_driver_root

        from ..world.hardware import driver_environment, make_gpus

        machine = make_gpus(PLACE / "machine", **gpus)
        make_driver_root(machine, Path(driver))
        _make_device_nodes()
        for hook in (HOST / place.relative_to("/") for place in _CDI_HOOKS):
            if not hook.exists():
                _note_created(hook)
                make_cdi_hook(hook)
        return {
            "environment": {**machine.environment(), **driver_environment(driver)},
            "cdi": json.dumps(cdi_spec(machine, cdi)),
        }

    def do_devices(self, amd: dict[str, Any] | None, iluvatar: dict[str, Any] | None) -> list[str]:
        """Make AMD GPUs and Iluvatar chips, with device nodes that a container can be given; their ids."""
        from ..world.hardware import EXPORTER, VendorDevices

        self._devices = VendorDevices(PLACE / "machine", amd, iluvatar)
        _note_created(HOST / EXPORTER.relative_to("/"))
        self._devices.serve(HOST)
        _make_device_nodes()
        return list(self._devices.ids)

    def do_report_health(self, device: str, healthy: bool) -> None:
        """Let the vendor's monitor report one of these devices as healthy or not."""
        assert self._devices is not None  # noqa: S101  # a story that does this has devices
        self._devices.report_health(device, healthy=healthy)

    def do_gpus(self) -> dict[str, str]:
        """Index -> UUID of the GPUs and MIG devices of the fake machine."""
        from fakegpu import Machine

        from ..world.hardware import names

        return names(Machine.open(PLACE / "machine"))

    def do_change_gpus(self, verb: str, given: dict[str, Any]) -> None:
        """Break, fix or divide the GPUs."""
        from fakegpu import Machine

        from ..world.hardware import change

        change(Machine.open(PLACE / "machine"), verb, **given)
        _make_device_nodes()


def _make_device_nodes() -> None:
    """Make a node's device for each of its machine that is not there yet: a container can be given it."""
    made = PLACE / "machine" / "dev"
    for file in (path for path in made.rglob("*") if path.is_file()):
        place = HOST / "dev" / file.relative_to(made)
        if not place.exists():
            _note_created(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.mknod(place, stat.S_IFCHR | _DEVICE_MODE, os.makedev(*_NULL))


def _note_created(place: Path) -> None:
    """Take note of what is about to be made, with the folders above it."""
    missing = [one for one in (place, *place.parents) if not one.exists()]
    with CREATED.open("a") as created:
        created.write(f"/{missing[-1].relative_to(HOST)}\n" if missing else "")


def _await_handler(pid: int, number: signal.Signals) -> None:
    """Wait until a process that has just begun has its handler; before, the kernel drops what is sent to its first."""
    limit = time.monotonic() + _HANDLER_WITHIN_S
    while not catches(pid, number) and time.monotonic() < limit:
        time.sleep(0.01)


def _is_served(path: Path) -> bool:
    """Whether anybody listens on a socket: a kubelet that went with its node leaves the file."""
    with socket.socket(socket.AF_UNIX) as trial:
        return trial.connect_ex(str(path)) == 0


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from others that have its path before or after it; None where it is not there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _report(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _lines(obey: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
    reader = asyncio.StreamReader(limit=16 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await obey(json.loads(line))


if __name__ == "__main__":
    asyncio.run(Agent().run())
