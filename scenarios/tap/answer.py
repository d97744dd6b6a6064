"""What the tap does with a call, as a story says, and the messages that it reads and changes for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from google.protobuf.message import DecodeError

from simkubelet.apis import deviceplugin as api

from ..trace.snapshot import Rpc

PATHS: Final = {
    f"/v1beta1.{'Registration' if rpc is Rpc.REGISTER else 'DevicePlugin'}/{rpc}".encode(): rpc for rpc in Rpc
}
_FILLING: Final = b"\x7a"
"""Tag of field 15 with a length, which no message of the API has."""
_FILLING_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """How calls of one RPC are answered; without any of these they are passed on as they are.

    Attributes:
        error: Refuse with this text.
        empty: Answer with an empty message, ListAndWatch with the end of its stream; nobody else is asked.
        never: Do not answer, and ask nobody.
        after_s: Real seconds that pass first.
        devices: A list that the kubelet gets before, on every open stream.
        twice: Make the call twice, and answer with the second answer; of ListAndWatch, send each list twice.
        parts: How many lists each list becomes.
        bytes: How long each message of the answer is made.
        lost: Ask, and pass nothing of the answer on.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; None is all from now on.
    """

    error: str | None = None
    empty: bool = False
    never: bool = False
    after_s: float = 0.0
    devices: tuple[dict[str, Any], ...] | None = None
    twice: bool = False
    parts: int = 1
    bytes: int = 0
    lost: bool = False
    skip: int = 0
    times: int | None = None

    @property
    def changes_messages(self) -> bool:
        """Whether the messages of the answer are others than those of the one who was asked."""
        return (self.twice, self.parts, self.bytes) != (False, 1, 0)


class Answers:
    """The answers that a story has ordered."""

    def __init__(self) -> None:
        self._ordered: dict[Rpc, Answer] = {}

    def order(self, rpc: Rpc, given: Mapping[str, Any]) -> None:
        """Answer coming calls so; `given` has attributes of `Answer`."""
        self._ordered[rpc] = Answer(**given)

    def forget(self) -> None:
        """Answer as usual."""
        self._ordered.clear()

    def next(self, rpc: Rpc) -> Answer:
        """How this call is answered; counts it."""
        answer = self._ordered.get(rpc, Answer())
        if answer.skip:
            self._ordered[rpc] = replace(answer, skip=answer.skip - 1)
            return Answer()
        if answer.times is not None:
            if answer.times <= 1:
                del self._ordered[rpc]
            else:
                self._ordered[rpc] = replace(answer, times=answer.times - 1)
        return answer


def devices_of(rpc: Rpc, request: bytes) -> list[str]:
    """The device ids that a call names; of what cannot be read, none."""
    asked: Any
    try:
        match rpc:
            case Rpc.ALLOCATE:
                asked = api.AllocateRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.devices_ids]
            case Rpc.GET_PREFERRED_ALLOCATION:
                asked = api.PreferredAllocationRequest.FromString(request)
                return [device for one in asked.container_requests for device in one.available_deviceIDs]
            case Rpc.PRE_START_CONTAINER:
                return list(api.PreStartContainerRequest.FromString(request).devices_ids)
            case _:
                return []
    except DecodeError:
        return []


def registration(request: bytes) -> tuple[str, str]:
    """Resource and endpoint of a Register call; of what cannot be read, empty ones."""
    try:
        asked = api.RegisterRequest.FromString(request)
    except DecodeError:
        return "", ""
    return asked.resource_name, asked.endpoint


def device_list(devices: Sequence[dict[str, Any]]) -> bytes:
    """A list of devices, each with ``id``, ``health`` and ``numa``."""
    listed = api.ListAndWatchResponse()
    for one in devices:
        nodes = [api.NUMANode(ID=node) for node in one["numa"]]
        topology = api.TopologyInfo(nodes=nodes) if nodes else None
        listed.devices.add(ID=one["id"], health=one["health"], topology=topology)
    return listed.SerializeToString()


def in_parts(message: bytes, count: int) -> list[bytes]:
    """A list of devices as several, as even as can be, in their order; what cannot be read stays whole."""
    try:
        devices = list(api.ListAndWatchResponse.FromString(message).devices)
    except DecodeError:
        return [message]
    size, longer = divmod(len(devices), count)
    begins = [part * size + min(part, longer) for part in range(count + 1)]
    return [api.ListAndWatchResponse(devices=devices[begin:end]).SerializeToString() for begin, end in pairwise(begins)]


def filled(message: bytes, size: int) -> bytes:
    """A message with a field that nobody knows, so that it has at least so many bytes."""
    count = size - len(message) - _FILLING_BYTES
    if count < 0:
        return message
    length = bytes((count >> shift) & 0x7F | 0x80 for shift in (0, 7, 14, 21)) + bytes((count >> 28,))
    return message + _FILLING + length + bytes(count)
