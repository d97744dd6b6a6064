"""What the plugin of `broken_plugin` answers to a kubelet: device lists, options, and calls for containers.

It has three devices, or as many as BROKEN_PLUGIN_COUNT says, and reports gpu-2 as unhealthy while the file `BROKEN`
exists.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Final

from simkubelet.apis import deviceplugin as api
from simkubelet.apis.grpcwire.messages import Code
from simkubelet.apis.grpcwire.served_call import CallError

BROKEN: Final = "/etc/broken-plugin/gpu-2"
COUNT: Final = int(os.environ.get("BROKEN_PLUGIN_COUNT", "3"))
MANY: Final = 10_000
LOOK_S: Final = 0.05


class Answers:
    """The answers of one process.

    Args:
        fault: The id of the check that they fail.
        stream_ended: Called half a second after the latest ListAndWatch stream has ended.
    """

    def __init__(self, fault: str, stream_ended: Callable[[], None]) -> None:
        self.fault = fault
        self.registrations = 0
        self.is_idle = True
        """Whether no container has got a device."""
        self._stream_ended = stream_ended
        self._streams = 0
        self._has_stream = False
        self._given: set[str] = set()
        self._given_before: set[str] = set()
        """Before the latest registration."""
        self._calls = 0
        self._last_given: list[str] = []
        """By the latest call, if no registration and no PreStartContainer came after it."""
        self._prepared: set[str] = set()
        self._asked_options_at = -1.0
        self._was_broken = False
        self._was_broken_at_start = Path(BROKEN).exists()

    def registers(self) -> None:
        """Begin another registration."""
        self.registrations += 1
        self._given_before = set(self._given)
        self._last_given = []

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
                self._was_broken |= is_broken
                return self._was_broken
            case "health/survives-a-kubelet-restart":
                return is_broken and self.registrations <= 1
            case "health/survives-a-plugin-restart":
                return is_broken and not self._was_broken_at_start
        return is_broken

    async def options(self, request: api.Empty) -> api.DevicePluginOptions:
        now, before = asyncio.get_running_loop().time(), self._asked_options_at
        self._asked_options_at = now
        if self.fault == "options/answered" and before < 0:
            raise CallError(Code.UNIMPLEMENTED, "not yet")
        if self.fault == "options/asked-twice" and now - before < 0.2:
            raise CallError(Code.UNKNOWN, "asked already")
        return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def lists(self, request: api.Empty) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        if self.fault == "stream/opened-twice":
            if self._has_stream:
                raise CallError(Code.UNKNOWN, "there is a stream")
            self._has_stream = True
        self._streams += 1
        latest, sent, looks = (self.registrations, self._streams), None, 0
        try:
            if self.fault == "limits/list-size" and self._streams == 1:
                yield api.ListAndWatchResponse(devices=[api.Device(ID="x" * (5 << 20), health=api.HEALTHY)])
            while True:
                looks += 1
                if self.fault == "stream/stays-open" and looks > 100 and self._streams == 1:
                    return
                if self.fault == "lists/unchanged" and looks == 10:
                    sent = None
                devices = self.devices()
                if sent != devices:
                    sent = devices
                    yield api.ListAndWatchResponse(devices=devices)
                await asyncio.sleep(LOOK_S)
        finally:
            self._has_stream = False
            pause_s = 1.0 if self.fault == "kubelet-restart/kubelet-away" else 0.5
            asyncio.get_running_loop().call_later(pause_s, self.look_after, latest)

    def look_after(self, latest: tuple[int, int]) -> None:
        """Notice that since a stream has ended there was no other registration, and no other stream."""
        if latest == (self.registrations, self._streams):
            self._stream_ended()

    async def allocate(self, request: api.AllocateRequest) -> api.AllocateResponse:
        response = api.AllocateResponse()
        self.is_idle = False
        for asked in request.container_requests:
            ids = list(asked.devices_ids)
            self.refuse(ids)
            self._calls += 1
            self._prepared.difference_update(ids)
            self._given.update(ids)
            self._last_given = ids
            given = response.container_responses.add(envs={"DEVICES": ",".join(ids)})
            given.devices.add(host_path="/dev/null", container_path="/dev/gpu", permissions="rw")
            given.mounts.add(host_path="/usr", container_path="/driver", read_only=True)
            self.spoil(given)
        if self.fault == "allocation/responses":
            response.container_responses.add()
        return response

    def refuse(self, ids: list[str]) -> None:
        is_again = ids == self._last_given
        known = {device.ID for device in self.devices()}
        if not known.issuperset(ids):
            if self.fault == "hostile-kubelet/unknown-device":
                os._exit(2)
            if self.fault != "allocation/unknown-device":
                raise CallError(Code.UNKNOWN, "no such device")
        if (
            (self.fault == "allocation/first-device")
            or (self.fault == "limits/all-devices" and 1 < len(ids) < MANY and not self._given)
            or (self.fault == "allocation/given-again" and self._calls > 1 and not self._given.isdisjoint(ids))
            or (self.fault == "allocation/init-container" and self._calls == 1 and self._given < set(ids))
            or (self.fault == "kubelet-restart/during-admission" and not self._given_before.isdisjoint(ids))
            or (self.fault == "allocation/asked-again" and is_again)
            or (self.fault == "kubelet-restart/pod-keeps-its-devices" and self.is_new_beside(ids))
        ):
            raise CallError(Code.UNKNOWN, "no")

    def is_new_beside(self, ids: list[str]) -> bool:
        """Whether none of these devices was given before, but others before the latest registration."""
        return bool(self._given_before) and self._given.isdisjoint(ids)

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
        if self.fault == "pre-start/again" and not self._prepared.isdisjoint(request.devices_ids):
            raise CallError(Code.UNKNOWN, "prepared already")
        if self.fault == "pre-start/without-allocate" and not self._given.issuperset(request.devices_ids):
            raise CallError(Code.UNKNOWN, "not allocated")
        self._prepared.update(request.devices_ids)
        self._last_given = []
        return api.PreStartContainerResponse()
