"""A plugin as the plugin watcher finds it: its registration server on a socket, and the kubelet's notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simkubelet._internal.change import Change
from simkubelet.apis import pluginregistration as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.server import GrpcServer
from simkubelet.model.clock import Clock, ManualClock
from tests.support.grpc_peers import WATCHED_REGISTRATION, Context, RealServer, methods_of, serve
from tests.support.patience import LIMIT_S

__all__ = ["AttendedClock", "WatchedPlugin"]


class AttendedClock(ManualClock):
    """A manual clock that can leap to the next thing due as soon as somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self._slept = Change()

    async def sleep(self, delay_s: float) -> None:
        self._slept.notify()
        await super().sleep(delay_s)

    async def leap(self) -> None:
        """Wait for a sleeper, then let time pass until it wakes."""
        seen = self._slept.count
        while (deadline := self.next_deadline()) is None:
            seen = await self._slept.wait(seen)
        await self.advance(deadline - self.now())

    async def leap_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await self.leap()


class WatchedPlugin:
    """Answers GetInfo with `info`; keeps when it was asked and each verdict, (registered, error).

    The texts in `info_errors` and `notify_errors` are answered first, one a call.
    """

    def __init__(self, socket: Path, clock: Clock, **info: Any) -> None:
        self.socket = socket
        self.info = api.PluginInfo(
            **{"type": api.DEVICE_PLUGIN_TYPE, "name": "example.com/stub", "supported_versions": ["v1beta1"], **info}
        )
        self.asked_at: list[float] = []
        self.verdicts: list[tuple[bool, str]] = []
        self.info_errors: list[str] = []
        self.notify_errors: list[str] = []
        self.told = Change()
        self._clock = clock
        self._server: GrpcServer | RealServer | None = None

    async def serve(self) -> None:
        self._server = await serve(methods_of(self, WATCHED_REGISTRATION), self.socket)

    async def stop(self) -> None:
        """End; the socket goes with the server."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()
            self.socket.unlink(missing_ok=True)

    async def verdict(self, number: int = 1) -> tuple[bool, str]:
        """The verdict of this number, from 1."""
        seen = self.told.count
        async with asyncio.timeout(LIMIT_S):
            while len(self.verdicts) < number:
                seen = await self.told.wait(seen)
        return self.verdicts[number - 1]

    async def GetInfo(self, request: api.InfoRequest, context: Context) -> api.PluginInfo:
        self.asked_at.append(self._clock.now())
        if self.info_errors:
            await context.abort(Code.INTERNAL, self.info_errors.pop(0))
        return self.info

    async def NotifyRegistrationStatus(
        self, request: api.RegistrationStatus, context: Context
    ) -> api.RegistrationStatusResponse:
        self.verdicts.append((request.plugin_registered, request.error))
        self.told.notify()
        if self.notify_errors:
            await context.abort(Code.INTERNAL, self.notify_errors.pop(0))
        return api.RegistrationStatusResponse()
