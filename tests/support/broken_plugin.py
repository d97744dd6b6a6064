"""A device plugin that passes every check of ``simkubelet conform``, or with a check's id as its argument all but that.

    python -m tests.support.broken_plugin registration/version

It has three devices, or as many as BROKEN_PLUGIN_COUNT says, asks for PreStartContainer, offers GetPreferredAllocation,
and reports gpu-2 as unhealthy while the file `BROKEN` exists. It finds the kubelet at the path of a real node.
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
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

from plugin.framework.client import DialError, RpcError, call_once
from plugin.framework.server import methods_of
from plugin.framework.socket_watch import SocketWatch
from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError
from simkubelet.apis.grpcwire.server import GrpcServer

BROKEN: Final = "/etc/broken-plugin/gpu-2"
RESOURCE: Final = "example.com/gpu"
COUNT: Final = int(os.environ.get("BROKEN_PLUGIN_COUNT", "3"))
MANY: Final = 10_000
FOLDER: Final = Path(api.DEVICE_PLUGIN_PATH)
KUBELET: Final = FOLDER / api.KUBELET_SOCKET_NAME
SOCKET: Final = FOLDER / f"broken-{secrets.token_hex(4)}.sock"
"""Each process has one of its own name: from 1.37 on a kubelet refuses a second instance on the name of the first."""
_LOOK_S: Final = 0.05


class Plugin:
    """One life of the plugin; `fault` is the id of the check that it fails."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.registrations = 0
        self.tries = 0
        self.kubelets = 0
        self.streams = 0
        self.open_streams = 0
        self.opened_at = 0.0
        self.given: set[str] = set()
        self.given_before: set[str] = set()
        """Before the latest registration."""
        self.calls = 0
        self.last_given: list[str] = []
        self.prepared: set[str] = set()
        self.asked_options_at = -1.0
        self.was_broken = False
        self.was_broken_at_start = Path(BROKEN).exists()
        self.is_idle = True
        self.leaks: list[Any] = []
        self.server: GrpcServer | None = None
        self.wanted = asyncio.Event()
        self.wanted.set()

    # What it serves

    def devices(self) -> list[api.Device]:
        epoch = f"-{self.registrations}" if self.fault == "kubelet-restart/same-ids" else ""
        listed = [api.Device(ID=f"gpu-{number}{epoch}", health=api.HEALTHY) for number in range(COUNT)]
        if self.is_broken():
            listed[2].health = api.UNHEALTHY
        match self.fault:
            case "lists/distinct-ids":
                listed.append(listed[0])
            case "lists/health":
                listed.append(api.Device(ID="gpu-3", health="OK"))
            case "lists/numa-nodes":
                listed[0].topology.nodes.add(ID=-1)
            case "limits/many-devices" if len(listed) == MANY:
                for device in listed:
                    device.ID = device.ID.ljust(500, "0")
            case "lists/id-length":
                listed[0].ID = "gpu-0".ljust(64, "0")
        return listed

    def is_broken(self) -> bool:
        is_broken = Path(BROKEN).exists()
        match self.fault:
            case "health/reported":
                return False
            case "health/recovers":
                self.was_broken |= is_broken
                return self.was_broken
            case "health/survives-a-kubelet-restart":
                return is_broken and self.registrations <= 1
            case "health/survives-a-plugin-restart":
                return is_broken and not self.was_broken_at_start
        return is_broken

    async def options(self, request: api.Empty) -> api.DevicePluginOptions:
        now, before = asyncio.get_running_loop().time(), self.asked_options_at
        self.asked_options_at = now
        if self.fault == "options/answered" and before < 0:
            raise CallError(Code.UNIMPLEMENTED, "not yet")
        if self.fault == "options/asked-twice" and now - before < 0.2:
            raise CallError(Code.UNKNOWN, "asked already")
        return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        self.streams += 1
        stream, sent = self.streams, None
        if self.fault == "stream/opened-twice":
            if self.open_streams:
                raise CallError(Code.UNKNOWN, "there is a stream")
            self.open_streams += 1
        looks = 0
        try:
            while True:
                looks += 1
                if self.fault == "stream/stays-open" and looks > 100:
                    return
                if self.fault == "lists/unchanged" and looks == 10:
                    sent = None
                devices = self.devices()
                if sent != devices:
                    sent = devices
                    yield api.ListAndWatchResponse(devices=devices)
                    if self.fault == "limits/list-size" and self.streams == 1:
                        await asyncio.sleep(0.3)
                        yield api.ListAndWatchResponse(devices=[api.Device(ID="x" * (5 << 20), health=api.HEALTHY)])
                await asyncio.sleep(_LOOK_S)
        finally:
            self.open_streams = 0
            is_late = self.fault == "kubelet-restart/kubelet-away"
            asyncio.get_running_loop().call_later(1.0 if is_late else 0.5, self.stream_ended, stream)

    def stream_ended(self, stream: int) -> None:
        """Register again where nobody has opened another stream."""
        if stream == self.streams and self.fault not in ("stream/ends", "kubelet-restart/registers-again"):
            if self.fault == "kubelet-restart/kubelet-away" and not reachable(KUBELET):
                self.fault = "hangs"
            self.wanted.set()

    async def allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        response = api.AllocateResponse()
        self.is_idle = False
        for asked in request.container_requests:
            ids = list(asked.devices_ids)
            self.refuse(ids)
            self.calls += 1
            self.prepared.difference_update(ids)
            self.given.update(ids)
            self.last_given = ids
            given = response.container_responses.add(envs={"DEVICES": ",".join(ids)})
            given.devices.add(host_path="/dev/null", container_path="/dev/gpu", permissions="rw")
            given.mounts.add(host_path="/usr", container_path="/driver", read_only=True)
            self.spoil(given)
        if self.fault == "allocation/responses":
            response.container_responses.add()
        return response

    def refuse(self, ids: list[str]) -> None:
        is_again = ids == self.last_given
        known = {device.ID for device in self.devices()}
        if not known.issuperset(ids):
            if self.fault == "hostile-kubelet/unknown-device":
                os._exit(2)
            if self.fault != "allocation/unknown-device":
                raise CallError(Code.UNKNOWN, "no such device")
        if (
            (self.fault == "limits/all-devices" and len(ids) > 1 and not self.given)
            or (self.fault == "allocation/given-again" and self.calls > 1 and not self.given.isdisjoint(ids))
            or (self.fault == "allocation/init-container" and self.calls == 1 and self.given < set(ids))
            or (self.fault == "kubelet-restart/during-admission" and not self.given_before.isdisjoint(ids))
            or (self.fault == "allocation/asked-again" and is_again)
            or (self.fault == "kubelet-restart/pod-keeps-its-devices" and self.registrations > 1)
        ):
            raise CallError(Code.UNKNOWN, "no")

    def spoil(self, given: Any) -> None:
        match self.fault:
            case "allocation/paths":
                given.mounts[0].host_path = "usr"
            case "allocation/distinct-paths":
                given.mounts.add(host_path="/etc", container_path="/driver", read_only=True)
            case "allocation/permissions":
                given.devices[0].permissions = ""
            case "allocation/variables":
                given.envs[""] = "x"
            case "allocation/variable-size":
                given.envs["LONG"] = "x" * (1 << 17)
            case "allocation/cdi-names":
                given.cdi_devices.add(name="gpu0")

    async def preferred(self, request: api.PreferredAllocationRequest) -> api.PreferredAllocationResponse:
        response = api.PreferredAllocationResponse()
        for asked in request.container_requests:
            required = list(asked.must_include_deviceIDs)
            free = sorted(set(asked.available_deviceIDs) - set(required))
            chosen = [*required, *free][: asked.allocation_size]
            match self.fault:
                case "preferred-allocation/available":
                    chosen[-1] = "gpu-9"
                case "preferred-allocation/size":
                    chosen = chosen[:-1]
                case "preferred-allocation/required" if required:
                    chosen = free[: asked.allocation_size]
            response.container_responses.add(deviceIDs=chosen)
        return response

    async def pre_start(self, request: api.PreStartContainerRequest) -> api.PreStartContainerResponse:
        if self.fault == "pre-start/again" and not self.prepared.isdisjoint(request.devices_ids):
            raise CallError(Code.UNKNOWN, "prepared already")
        if self.fault == "pre-start/without-allocate" and not self.given.issuperset(request.devices_ids):
            raise CallError(Code.UNKNOWN, "not allocated")
        self.prepared.update(request.devices_ids)
        return api.PreStartContainerResponse()

    # How it registers

    async def run(self) -> None:
        self.start()
        with SocketWatch(FOLDER) as watch:
            following = [asyncio.create_task(one) for one in (self.follow(watch), self.by_timer())]
            while True:
                await self.wanted.wait()
                self.wanted.clear()
                if self.fault == "hangs" or not await self.register():
                    await asyncio.sleep(self.pause_s())
                    self.wanted.set()
                assert not any(task.done() for task in following)

    def start(self) -> None:
        """What it does with what it finds at its start."""
        match self.fault:
            case "instances/killed" if list(FOLDER.glob("broken-*.sock")):
                sys.exit("address already in use")
            case "instances/rolling-update":
                self.leaks.append(lock := (FOLDER / ".lock").open("w"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.fault = "hangs"
            case "shutdown/starts-again" if (FOLDER / ".stopped").exists():
                self.fault = "hangs"
            case "start/before-the-kubelet" if KUBELET.exists() and not reachable(KUBELET):
                self.fault = "hangs"
            case "start/before-the-socket" if not KUBELET.exists():
                self.fault = "hangs"

    async def follow(self, watch: SocketWatch) -> None:
        async for change in watch.changes():
            if change.name != KUBELET.name:
                continue
            if not change.is_there:
                self.socket_gone()
                continue
            now = asyncio.get_running_loop().time()
            self.kubelets += 1
            match self.fault:
                case "kubelet-restart/registers-again":
                    continue
                case "kubelet-restart/while-suspended" if time.time() - KUBELET.stat().st_mtime > 1:
                    self.fault = "hangs"
                case "kubelet-restart/keeps-its-process" if not (FOLDER / ".ended").exists():
                    (FOLDER / ".ended").touch()
                    os._exit(0)
                case "kubelet-restart/two-in-a-row" if now - self.opened_at < 3:
                    self.fault = "hangs"
                case "kubelet-restart/many" if self.kubelets > 120:
                    self.fault = "hangs"
            self.wanted.set()

    async def by_timer(self) -> None:
        """What it does without a cause."""
        waited = 0
        while True:
            kubelets, began = self.kubelets, time.monotonic()
            await asyncio.sleep(_LOOK_S)
            waited += 1
            match self.fault:
                case "clock/stands-still" if time.monotonic() - began > 1.5:
                    await asyncio.sleep(0.3)
                    if kubelets == self.kubelets and self.server is not None:
                        self.fault = "hangs"
                        await self.server.stop()
                case "stream/stays-open" if time.monotonic() - began > 1.5:
                    self.fault = ""
                case "registration/once" if waited == 60 and self.registrations == 1:
                    await self.send(self.request())
                case "resources/idle-cpu" if waited == 40 and self.is_idle:
                    threading.Thread(target=burn, daemon=True).start()

    def pause_s(self) -> float:
        """Before it tries to register again."""
        self.tries += 1
        return 0.3 if self.fault != "hostile-kubelet/always-refused" or self.tries > 50 else 0.0

    def socket_gone(self) -> None:
        """A watch of the file ends with the file, where nobody makes another at once."""
        if self.fault == "kubelet-restart/socket-gone-meanwhile":
            time.sleep(0.02)
            if not KUBELET.exists():
                self.fault = "hangs"

    async def register(self) -> bool:
        """Serve on a new socket and register; whether that went well."""
        if not reachable(KUBELET):
            return False
        if self.fault == "stream/opened-twice":
            # What a kubelet that has ended leaves is gone by then.
            await asyncio.sleep(0.2)
        if self.open_streams:
            return await self.send(self.request())
        if self.server is not None:
            await self.server.stop()
        SOCKET.unlink(missing_ok=True)
        if self.fault == "registration/serves-first" and not self.registrations:
            self.registrations += 1
            await self.send(self.request())
            return False
        self.server = GrpcServer(methods_of(self.options, self.lists, self.allocate, self.preferred, self.pre_start))
        self.server.listen(SOCKET)
        if self.fault == "registration/socket-mode":
            SOCKET.chmod(0o777)
        self.registrations += 1
        self.given_before = set(self.given)
        self.opened_at = asyncio.get_running_loop().time()
        self.leak()
        if self.registrations == 1 and (wrong := self.wrong_request()):
            await self.send(wrong)
        is_accepted = await self.send(self.request())
        if not is_accepted and self.fault == "hostile-kubelet/register-refused":
            self.fault = "hangs"
        return is_accepted

    async def send(self, request: api.RegisterRequest) -> bool:
        limit_s = 1.0 if self.fault == "hostile-kubelet/register-slow" else 15.0
        began = time.monotonic()
        try:
            async with asyncio.timeout(limit_s):
                answer = await call_once(KUBELET, "/v1beta1.Registration/Register", request.SerializeToString(), 5.0)
        except TimeoutError:
            if self.fault == "hostile-kubelet/register-slow":
                self.fault = "hangs"
            return False
        except (DialError, RpcError):
            if self.fault == "hostile-kubelet/register-hangs" and time.monotonic() - began > 1:
                self.fault = "hangs"
            return False
        if self.fault == "hostile-kubelet/register-answer" and answer and self.server is not None:
            await self.server.stop()
            self.fault = "hangs"
            return False
        return True

    def request(self) -> api.RegisterRequest:
        options = api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
        if self.fault == "registration/same-options":
            options.Clear()
        return api.RegisterRequest(version=api.VERSION, endpoint=SOCKET.name, resource_name=RESOURCE, options=options)

    def wrong_request(self) -> api.RegisterRequest | None:
        request = self.request()
        match self.fault:
            case "registration/version":
                request.version = "v1alpha"
            case "registration/endpoint":
                request.endpoint = str(SOCKET)
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
