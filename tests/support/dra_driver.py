"""A DRA driver's plugin that a test controls by lines, as a program or inside the test.

``python -m tests.support.dra_driver --dir DIR`` answers a JSON object a line; in a test `lines_of` gives the same
session. Commands: ``serve``, ``announce``, ``stop``, ``set``, ``calls``, ``send_health``, ``end_health``, ``die``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from simkubelet.apis import dra, drahealth, pluginregistration
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method, StreamMethod, UnaryMethod
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.stdio.lines import serve_lines
from simkubelet.stdio.request import Fields
from simkubelet.stdio.session import Answer, CommandTable, Session

PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"
HEALTH = {"Unknown": 0, "Healthy": drahealth.HEALTHY, "Unhealthy": drahealth.UNHEALTHY}
ALL = "*"


@dataclass(frozen=True)
class Behaviour:
    """How one of the two calls is answered.

    Attributes:
        mode: "" well; ``error`` the call, ``claim_error`` each claim; ``skip`` answers no claim, ``unknown`` others.
        devices: claim's name, or "*" -> its devices.
    """

    mode: str = ""
    code: str = "INTERNAL"
    message: str = ""
    ms: int = 0
    devices: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def before(self) -> None:
        await asyncio.sleep(self.ms / 1000)
        if self.mode == "error":
            raise CallError(Code[self.code], self.message)

    def answers(self, claims: list[dra.Claim]) -> Mapping[str, dra.Claim]:
        """The uids that are answered, with their claims."""
        if self.mode == "skip":
            return {}
        return {f"{claim.uid}-unknown" if self.mode == "unknown" else claim.uid: claim for claim in claims}

    @property
    def error(self) -> str:
        return self.message if self.mode == "claim_error" else ""

    def devices_of(self, claim: dra.Claim) -> list[dra.Device]:
        default = [{"requests": ["req"], "pool": "pool", "device": "dev-0", "cdi": [f"example.com/class={claim.name}"]}]
        return [
            dra.Device(
                request_names=one.get("requests", ()),
                pool_name=one["pool"],
                device_name=one["device"],
                cdi_device_ids=one.get("cdi", ()),
                share_id=one.get("share_id"),
            )
            for one in self.devices.get(claim.name, self.devices.get(ALL, default))
        ]


class DraDriver:
    """The plugin of one driver, with any number of sockets below a folder."""

    def __init__(self, directory: Path, tasks: asyncio.TaskGroup | None = None) -> None:
        self.directory = directory
        self.behaviours = {PREPARE: Behaviour(), UNPREPARE: Behaviour()}
        self._servers: dict[str, GrpcServer] = {}
        self._calls: list[dict[str, Any]] = []
        self._called = asyncio.Event()
        self._health: dict[asyncio.Queue[drahealth.NodeWatchResourcesResponse | None], None] = {}

    is_running = True

    async def serve(self, endpoint: str, services: list[str]) -> None:
        methods: dict[str, Method] = {}
        for service in services:
            if service == "health":
                watch = StreamMethod(drahealth.NodeWatchResourcesRequest.FromString, self._watch)
                methods[f"/{drahealth.HEALTH_SERVICE}/NodeWatchResources"] = watch
                continue
            name = next(name for told, name in dra.SERVICES.items() if told.startswith(f"{service}."))
            prepare, unprepare = (partial(call, service, endpoint) for call in (self._prepare, self._unprepare))
            methods[f"/{name}/{PREPARE}"] = UnaryMethod(dra.NodePrepareResourcesRequest.FromString, prepare)
            methods[f"/{name}/{UNPREPARE}"] = UnaryMethod(dra.NodeUnprepareResourcesRequest.FromString, unprepare)
        self._listen(endpoint, methods)

    def announce(self, socket: str, info: pluginregistration.PluginInfo) -> None:
        """Serve the registration of a plugin, which a kubelet finds."""

        async def get_info(request: Any) -> pluginregistration.PluginInfo:
            return info

        async def notify(status: pluginregistration.RegistrationStatus) -> Any:
            self._note({"rpc": "notify", "registered": status.plugin_registered, "error": status.error})
            return pluginregistration.RegistrationStatusResponse()

        service = "/pluginregistration.Registration"
        (self.directory / socket).parent.mkdir(exist_ok=True)
        self._listen(
            socket,
            {
                f"{service}/GetInfo": UnaryMethod(pluginregistration.InfoRequest.FromString, get_info),
                f"{service}/NotifyRegistrationStatus": UnaryMethod(
                    pluginregistration.RegistrationStatus.FromString, notify
                ),
            },
        )

    async def end(self, socket: str) -> None:
        """Stop serving a socket and remove it."""
        server = self._servers.pop(socket, None)
        if server is not None:
            (self.directory / socket).unlink(missing_ok=True)
            await server.stop()

    def serves(self, path: str) -> bool:
        """Whether it serves a socket of this path."""
        return any(path == str(self.directory / socket) for socket in self._servers)

    async def stop(self) -> None:
        for socket in list(self._servers):
            await self.end(socket)

    async def abandon(self) -> None:
        await self.stop()

    async def calls(self, want: int = 0, timeout_s: float = 0.0) -> list[dict[str, Any]]:
        """Take the calls since the last time; waits for as many as are wanted."""
        try:
            async with asyncio.timeout(timeout_s):
                while len(self._calls) < want:
                    self._called.clear()
                    await self._called.wait()
        except TimeoutError:
            pass
        taken, self._calls = self._calls, []
        return taken

    def send_health(self, report: drahealth.NodeWatchResourcesResponse | None) -> int:
        """Send a report on every stream, or end them; their number."""
        for stream in self._health:
            stream.put_nowait(report)
        return len(self._health)

    def _listen(self, socket: str, methods: Mapping[str, Method]) -> None:
        server = self._servers[socket] = GrpcServer(methods)
        server.listen(self.directory / socket)

    def _note(self, call: dict[str, Any]) -> None:
        self._calls.append(call)
        self._called.set()

    def _note_claims(self, rpc: str, service: str, endpoint: str, claims: list[dra.Claim]) -> None:
        named = [f"{claim.namespace}/{claim.name}/{claim.uid}" for claim in claims]
        self._note({"claims": named, "endpoint": endpoint, "rpc": rpc, "service": service})

    async def _prepare(
        self, service: str, endpoint: str, request: dra.NodePrepareResourcesRequest
    ) -> dra.NodePrepareResourcesResponse:
        claims = list(request.claims)
        self._note_claims("prepare", service, endpoint, claims)
        behaviour = self.behaviours[PREPARE]
        await behaviour.before()
        answers = {
            uid: dra.NodePrepareResourceResponse(error=behaviour.error, devices=behaviour.devices_of(claim))
            for uid, claim in behaviour.answers(claims).items()
        }
        return dra.NodePrepareResourcesResponse(claims=answers)

    async def _unprepare(
        self, service: str, endpoint: str, request: dra.NodeUnprepareResourcesRequest
    ) -> dra.NodeUnprepareResourcesResponse:
        claims = list(request.claims)
        self._note_claims("unprepare", service, endpoint, claims)
        behaviour = self.behaviours[UNPREPARE]
        await behaviour.before()
        answers = {uid: dra.NodeUnprepareResourceResponse(error=behaviour.error) for uid in behaviour.answers(claims)}
        return dra.NodeUnprepareResourcesResponse(claims=answers)

    async def _watch(self, request: Any) -> AsyncGenerator[drahealth.NodeWatchResourcesResponse, None]:
        stream: asyncio.Queue[drahealth.NodeWatchResourcesResponse | None] = asyncio.Queue()
        self._health[stream] = None
        self._note({"rpc": "health"})
        try:
            while (report := await stream.get()) is not None:
                yield report
        finally:
            del self._health[stream]


commands = CommandTable[DraDriver]()


@commands.add("endpoint", "serve")
async def do_serve(driver: DraDriver, fields: Fields) -> Answer:
    """Serve some of v1, v1beta1 and health on a socket of the folder."""
    await driver.serve(fields.text("endpoint"), fields.texts("serve"))
    return {}


@commands.add("socket", "type", "driver", "endpoint", "services")
async def do_announce(driver: DraDriver, fields: Fields) -> Answer:
    """Serve a registration socket, such as plugins_registry/d.sock."""
    endpoint = fields.text("endpoint", "")
    info = pluginregistration.PluginInfo(
        type=fields.text("type", dra.DRA_PLUGIN_TYPE),
        name=fields.text("driver"),
        endpoint=str(driver.directory / endpoint) if endpoint else "",
        supported_versions=fields.texts("services"),
    )
    driver.announce(fields.text("socket"), info)
    return {}


@commands.add("endpoint")
async def do_stop(driver: DraDriver, fields: Fields) -> Answer:
    """Stop serving a socket, and remove it."""
    await driver.end(fields.text("endpoint"))
    return {}


@commands.add("rpc", "mode", "code", "message", "ms", "devices")
async def do_set(driver: DraDriver, fields: Fields) -> Answer:
    """Choose how a call is answered from now on."""
    rpc = {"prepare": PREPARE, "unprepare": UNPREPARE}[fields.text("rpc")]
    driver.behaviours[rpc] = Behaviour(
        mode=fields.text("mode", ""),
        code=fields.text("code", "INTERNAL").upper(),
        message=fields.text("message", ""),
        ms=fields.whole("ms", 0),
        devices=fields.mapping("devices", {}),
    )
    return {}


@commands.add("want", "timeout_ms")
async def do_calls(driver: DraDriver, fields: Fields) -> Answer:
    """Take the calls that have come."""
    return {"calls": await driver.calls(fields.whole("want", 0), fields.number("timeout_ms", 0.0) / 1000)}


@commands.add("list")
async def do_send_health(driver: DraDriver, fields: Fields) -> Answer:
    """Send the health of devices on all streams."""
    devices = [
        drahealth.DeviceHealth(
            device=drahealth.DeviceIdentifier(pool_name=one.text("pool"), device_name=one.text("device")),
            health=cast(Any, HEALTH[one.text("health")]),
        )
        for one in fields.objects("list")
    ]
    return {"streams": driver.send_health(drahealth.NodeWatchResourcesResponse(devices=devices))}


@commands.add()
async def do_end_health(driver: DraDriver, fields: Fields) -> Answer:
    """End all streams."""
    return {"streams": driver.send_health(None)}


@commands.add()
async def do_die(driver: DraDriver, fields: Fields) -> Answer:
    """End the process as if it were killed; its sockets' files stay."""
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def lines_of(driver: DraDriver, tasks: asyncio.TaskGroup) -> Session[DraDriver]:
    """A session of the driver's lines inside a test."""
    return Session(driver, commands, tasks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    asyncio.run(serve_lines(partial(DraDriver, parser.parse_args().dir.absolute()), commands))
