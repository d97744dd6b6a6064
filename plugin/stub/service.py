"""The DevicePlugin service of the stub: the framework's is too well-behaved to hang, to lie or to fall silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError, Method

from ..framework import DeviceList
from ..framework.server import Streams, methods_of
from .behaviour import Answer, Behaviour, Rpc

__all__ = ["StubService"]

_ENVIRONMENT_VARIABLE = "STUB_DEVICES"
"""Set in a container to the ids that it was given, joined by commas."""

_OnCall = Callable[[Rpc, Sequence[str]], None]
"""Called with each call as it arrives, and the device ids that it names."""


class StubService:
    """Answers as its `Behaviour` says, for one server of the stub after the other."""

    def __init__(
        self,
        behaviour: Behaviour,
        on_call: _OnCall,
        on_lost_stream: Callable[[], None],
        on_no_stream: Callable[[], None],
        crash: Callable[[], None],
    ) -> None:
        self._behaviour = behaviour
        self._on_call = on_call
        self._on_lost_stream = on_lost_stream
        self._open = Streams(on_no_stream)
        self._crash = crash
        self._streams = 0
        self._servers = 0
        self._changed = asyncio.Event()

    def methods(self) -> Mapping[str, Method]:
        """What is served, by path."""
        return methods_of(self._options, self._lists, self._allocate, self._preferred, self._pre_start)

    def send_list(self, devices: DeviceList) -> None:
        """Send a list on every open stream; later streams begin with it."""
        self._behaviour.devices = devices
        self._wake_streams()

    def end_streams(self) -> None:
        """End every open ListAndWatch stream; the server continues to serve."""
        self._streams += 1
        self._wake_streams()

    def end_server(self) -> None:
        """End every stream because its server stops, so that none of them is lost."""
        self._servers += 1
        self.end_streams()

    async def _options(self, request: api.Empty) -> api.DevicePluginOptions:
        """The options that the stub was started with."""
        answer = await self._begin(Rpc.OPTIONS, ())
        return api.DevicePluginOptions() if answer.is_empty else self._behaviour.options.to_message()

    async def _lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """The list, then each newer one, until `end_streams`."""
        opened_with = self._servers
        try:
            with self._open.opened():
                answer = await self._begin(Rpc.LIST, ())
                opened_in = self._streams
                while opened_in == self._streams and not answer.is_empty:
                    changed = self._changed
                    yield self._list()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._behaviour.resend_s):
                            await changed.wait()
        finally:
            if opened_with == self._servers:
                self._on_lost_stream()

    def _list(self) -> api.ListAndWatchResponse:
        response = api.ListAndWatchResponse(devices=[device.to_message() for device in self._behaviour.devices])
        for device in response.devices if self._behaviour.has_topology else ():
            device.topology.SetInParent()
        return response

    async def _allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        """One answer for each container: its ids in `_ENVIRONMENT_VARIABLE`."""
        # As it was asked: the answer may be ordered to come after another list.
        known = {device.device_id for device in self._behaviour.devices}
        asked = [list(container.devices_ids) for container in request.container_requests]
        answer = await self._begin(Rpc.ALLOCATE, [device_id for ids in asked for device_id in ids])
        response = api.AllocateResponse()
        for device_ids in [] if answer.is_empty else asked:
            if unknown := [device_id for device_id in device_ids if device_id not in known]:
                raise CallError(Code.UNKNOWN, f"no device {', '.join(unknown)}")
            response.container_responses.add(envs={_ENVIRONMENT_VARIABLE: ",".join(device_ids)})
        return response

    async def _preferred(self, request: api.PreferredAllocationRequest) -> api.PreferredAllocationResponse:
        """For each container what it must have, then the first ids by name."""
        offered = [device_id for asked in request.container_requests for device_id in asked.available_deviceIDs]
        answer = await self._begin(Rpc.PREFERRED, offered)
        response = api.PreferredAllocationResponse()
        for asked in [] if answer.is_empty else request.container_requests:
            required = list(asked.must_include_deviceIDs)
            free = sorted(set(asked.available_deviceIDs) - set(required))
            response.container_responses.add(deviceIDs=[*required, *free][: asked.allocation_size])
        return response

    async def _pre_start(self, request: api.PreStartContainerRequest) -> api.PreStartContainerResponse:
        """Nothing to prepare."""
        await self._begin(Rpc.PRE_START, list(request.devices_ids))
        return api.PreStartContainerResponse()

    async def _begin(self, rpc: Rpc, device_ids: Sequence[str]) -> Answer:
        """Do what was ordered for a call before its answer."""
        answer = self._behaviour.next_answer(rpc)
        self._on_call(rpc, device_ids)
        if answer.devices is not None:
            self.send_list(answer.devices)
        await asyncio.sleep(answer.after_s)
        if answer.is_crash:
            self._crash()
        if answer.is_crash or answer.is_never:
            await asyncio.Event().wait()
        if answer.error is not None:
            raise CallError(Code.UNKNOWN, answer.error)
        return answer

    def _wake_streams(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
