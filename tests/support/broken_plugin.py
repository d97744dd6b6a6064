"""A device plugin that passes every check of ``simkubelet conform``, or with a check's id as its argument all but that.

    python -m tests.support.broken_plugin registration/version

It asks for PreStartContainer, offers GetPreferredAllocation, and finds the kubelet at the path of a real node. This
module is how it registers, follows kubelets and ends; `broken_answers` is what it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from plugin.framework.client import DialError, RpcError, call_once
from plugin.framework.server import methods_of
from plugin.framework.socket_watch import SocketWatch
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.server import GrpcServer
from tests.support.broken_answers import LOOK_S, Answers

RESOURCE: Final = "example.com/gpu"
FOLDER: Final = Path(api.DEVICE_PLUGIN_PATH)
KUBELET: Final = FOLDER / api.KUBELET_SOCKET_NAME
SOCKET: Final = FOLDER / f"broken-{secrets.token_hex(4)}.sock"
"""Each process has one of its own name: from 1.37 on a kubelet refuses a second instance on the name of the first."""
_AT_ONCE_S: Final = 0.2
_LATE_S: Final = 1.5


class Plugin:
    """One process of the plugin; `fault` is the id of the check that it fails."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.answers = Answers(fault, self.stream_ended)
        self.hangs = False
        """Whether it never registers again."""
        self.tries = 0
        self.kubelets = 0
        """How many sockets of a kubelet have appeared."""
        self.has_missed_one = False
        """Whether it has not noticed the latest of them."""
        self.gone_at = 0.0
        self.is_accepted = False
        self.latest_date = 0.0
        """Of the kubelets' sockets that it has registered on."""
        self.leaks: list[Any] = []
        self.server: GrpcServer | None = None
        self.wanted = asyncio.Event()
        self.wanted.set()

    async def run(self) -> None:
        self.start()
        with SocketWatch(FOLDER) as watch:
            following = [asyncio.create_task(one) for one in (self.follow(watch), self.by_timer())]
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                if self.hangs or not await self.registered_or_wanted():
                    await asyncio.sleep(self.pause_s())
                    self.wanted.set()
                assert not any(task.done() for task in following)

    async def registered_or_wanted(self) -> bool:
        """Register; give up when another kubelet comes, which has removed the socket that this one would dial.

        Returns:
            False where it is to try again after a pause.
        """
        registering = asyncio.create_task(self.register())
        if self.fault == "hostile-kubelet/register-hangs":
            return await registering
        wanted = asyncio.create_task(self.wanted.wait())
        try:
            await asyncio.wait([registering, wanted], return_when=asyncio.FIRST_COMPLETED)
            return registering.result() if registering.done() else True
        finally:
            registering.cancel()
            wanted.cancel()

    def start(self) -> None:
        """What it does with what it finds at its start."""
        match self.fault:
            case "instances/killed" if any(not reachable(left) for left in FOLDER.glob("broken-*.sock")):
                sys.exit("address already in use")
            case "instances/rolling-update":
                self.leaks.append(lock := (FOLDER / ".lock").open("w"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.hangs = True
            case "shutdown/starts-again" if (FOLDER / ".stopped").exists():
                self.hangs = True
            case "start/before-the-kubelet" if KUBELET.exists() and not reachable(KUBELET):
                self.hangs = True
            case "start/before-the-socket" if not KUBELET.exists():
                self.hangs = True

    async def follow(self, watch: SocketWatch) -> None:
        async for change in watch.changes():
            if change.name != KUBELET.name:
                continue
            if not change.is_there:
                self.socket_gone()
                continue
            if self.fault == "kubelet-restart/keeps-its-process" and not (FOLDER / ".ended").exists():
                (FOLDER / ".ended").touch()
                os._exit(0)
            self.kubelets += 1
            if self.fault == "kubelet-restart/many" and self.kubelets == 121:
                await self.give_up()
            self.has_missed_one = self.misses_kubelet()
            if not self.has_missed_one:
                self.wanted.set()

    async def give_up(self) -> None:
        """Serve and register no more, whatever registration is under way."""
        self.hangs = True
        self.wanted.set()
        if self.server is not None:
            await self.server.stop()

    def misses_kubelet(self) -> bool:
        """Whether it does not notice the socket of a kubelet that has just appeared."""
        match self.fault:
            case "kubelet-restart/registers-again":
                return self.kubelets == 1 and self.is_at_rest()
            case "kubelet-restart/two-in-a-row":
                return self.kubelets == 2
            case "kubelet-restart/while-suspended":
                return time.time() - status_time_of(KUBELET) > _LATE_S
            case "clock/set-back":
                return date_of(KUBELET) < self.latest_date
        return False

    def is_at_rest(self) -> bool:
        """Whether nothing but the restart of the kubelet has happened: no pod, no broken device, no pause."""
        is_quick = asyncio.get_running_loop().time() - self.gone_at < _AT_ONCE_S
        is_fresh = abs(time.time() - date_of(KUBELET)) < _LATE_S
        return is_quick and is_fresh and self.is_accepted and self.answers.is_idle and not self.answers.is_broken()

    def stream_ended(self) -> None:
        """Register again, as nobody has opened another stream."""
        if self.fault == "stream/ends" or self.has_missed_one:
            return
        if self.fault == "kubelet-restart/kubelet-away" and KUBELET.exists() and not reachable(KUBELET):
            self.hangs = True
        self.wanted.set()

    async def by_timer(self) -> None:
        """What it does without a cause."""
        waited = 0
        while True:
            kubelets, began = self.kubelets, time.monotonic()
            await asyncio.sleep(LOOK_S)
            waited += 1
            match self.fault:
                case "clock/stands-still" if time.monotonic() - began > 2.5:
                    await asyncio.sleep(0.3)
                    if kubelets == self.kubelets and self.server is not None:
                        self.hangs = True
                        await self.server.stop()
                case "stream/stays-open" if time.monotonic() - began > 1.5:
                    self.answers.fault = ""
                case "registration/once" if waited == 60 and self.answers.registrations == 1:
                    await self.send(self.request())
                case "resources/idle-cpu" if waited == 40 and self.answers.is_idle:
                    threading.Thread(target=burn, daemon=True).start()

    def pause_s(self) -> float:
        """Before it tries to register again; longer when many tries have failed."""
        self.tries += 1
        if self.fault == "hostile-kubelet/always-refused" and self.tries <= 50:
            return 0.0
        return 0.3 if self.tries <= 10 else 1.0

    def socket_gone(self) -> None:
        """A watch of the file ends with the file, where nobody makes another at once."""
        self.gone_at = asyncio.get_running_loop().time()
        if self.fault == "kubelet-restart/socket-gone-meanwhile":
            while not (is_back := KUBELET.exists()) and asyncio.get_running_loop().time() - self.gone_at < _AT_ONCE_S:
                time.sleep(0.01)
            self.hangs = self.hangs or not is_back

    async def register(self) -> bool:
        """Serve on a new socket and register; whether that went well."""
        if not reachable(KUBELET):
            return False
        if self.server is not None:
            await self.server.stop()
        SOCKET.unlink(missing_ok=True)
        early = None
        if self.fault == "registration/serves-first" and not self.answers.registrations:
            early = asyncio.create_task(self.send(self.request()))
            await asyncio.sleep(_AT_ONCE_S)
        self.server = self.served()
        self.answers.registers()
        self.latest_date = max(self.latest_date, date_of(KUBELET))
        self.leak()
        if self.answers.registrations == 1 and (wrong := self.wrong_request()):
            await self.send(wrong)
            if not SOCKET.exists():
                # A kubelet that came meanwhile has removed it.
                return False
        self.is_accepted = await (early or self.send(self.request()))
        return self.is_accepted

    def served(self) -> GrpcServer:
        """Listen on the socket and answer."""
        called = self.answers
        server = GrpcServer(
            methods_of(called.options, called.lists, called.allocate, called.preferred, called.pre_start)
        )
        server.listen(SOCKET)
        if self.fault == "registration/socket-mode":
            SOCKET.chmod(0o777)
        return server

    async def send(self, request: api.RegisterRequest) -> bool:
        limit_s = 1.0 if self.fault == "hostile-kubelet/register-slow" else 15.0
        began = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                answer = await call_once(KUBELET, "/v1beta1.Registration/Register", request.SerializeToString(), 5.0)
        except TimeoutError:
            # It is done until the next kubelet comes.
            self.has_missed_one = self.fault == "hostile-kubelet/register-slow"
            return self.has_missed_one
        except (DialError, RpcError) as error:
            match self.fault:
                case "hostile-kubelet/register-hangs" if time.monotonic() - began > 1:
                    self.hangs = True
                case "hostile-kubelet/register-refused" if isinstance(error, RpcError) and error.code == Code.UNKNOWN:
                    self.hangs = True
            return False
        if self.fault == "hostile-kubelet/register-answer" and answer and self.server is not None:
            await self.server.stop()
            self.hangs = True
            return False
        return True

    def request(self) -> api.RegisterRequest:
        options = api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        if self.fault == "registration/same-options":
            options.Clear()
        # A kubelet finds that socket, too; one that it does not find holds up the registration for ten seconds.
        endpoint = f"./{SOCKET.name}" if self.fault == "registration/endpoint" else SOCKET.name
        return api.RegisterRequest(version=api.VERSION, endpoint=endpoint, resource_name=RESOURCE, options=options)

    def wrong_request(self) -> api.RegisterRequest | None:
        request = self.request()
        match self.fault:
            case "registration/version":
                request.version = "v1alpha"
            case "registration/resource-name":
                request.resource_name = "gpu"
            case _:
                return None
        return request

    def leak(self) -> None:
        match self.fault:
            case "resources/open-files":
                self.leaks += [Path("/dev/null").open() for _ in range(4)]  # noqa: SIM115  # that is the fault
            case "resources/threads":
                for _ in range(10):
                    threading.Thread(target=threading.Event().wait, daemon=True).start()
            case "resources/memory":
                self.leaks.append(bytearray(os.urandom(16 << 20)))
            case "resources/sockets":
                with socket.socket(socket.AF_UNIX) as extra:
                    extra.bind(str(FOLDER / f"extra-{secrets.token_hex(4)}.sock"))

    async def stop(self) -> int:
        """End as SIGTERM asks for; the exit status."""
        if self.fault == f"shutdown/{'ends-in-time' if reachable(KUBELET) else 'without-a-kubelet'}":
            await asyncio.sleep(6)
        if self.server is not None:
            await self.server.stop()
        if self.fault != "shutdown/removes-its-socket":
            for left in (SOCKET, *FOLDER.glob("extra-*.sock")):
                left.unlink(missing_ok=True)
        elif not SOCKET.exists():
            socket.socket(socket.AF_UNIX).bind(str(SOCKET))
        if self.fault == "shutdown/starts-again":
            (FOLDER / ".stopped").touch()
        return 3 if self.fault == "shutdown/exit-status" else 0


def date_of(path: Path) -> float:
    """When a file was changed last, as a clock that may be set back says; 0 where it is gone."""
    return path.stat().st_mtime if path.exists() else 0.0


def status_time_of(path: Path) -> float:
    """When a file was made or dated; 0 where it is gone."""
    return path.stat().st_ctime if path.exists() else 0.0


def burn() -> None:
    """Take a core for some seconds."""
    began = time.thread_time()
    while time.thread_time() - began < 3:
        pass


def reachable(path: Path) -> bool:
    """Whether somebody listens on a socket."""
    with socket.socket(socket.AF_UNIX) as tried:
        try:
            tried.connect(str(path))
        except OSError:
            return False
    return True


async def main(fault: str) -> int:
    loop, asked_to_end = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked_to_end.set)
    plugin = Plugin(fault)
    work, end = asyncio.create_task(plugin.run()), asyncio.create_task(asked_to_end.wait())
    await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return await plugin.stop()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "")))
