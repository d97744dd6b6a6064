"""The verbs that act on a plugin: on its process, and on what the scriptable plugin ``stub`` says and does."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictInt, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from .duration import Duration
from .part import Count, Name, Part


class StubDevice(Part):
    """A device that the stub lists; `numa` is empty where it does not tell its NUMA nodes."""

    id: StrictStr
    health: Literal["Healthy", "Unhealthy"] = "Healthy"
    numa: tuple[Count, ...] = ()


def _device_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "(id)"
    return "(device)" if isinstance(value, Mapping | StubDevice) else None


Device = Annotated[
    Annotated[StrictStr, Tag("(id)")] | Annotated[StubDevice, Tag("(device)")],
    Discriminator(
        _device_tag,
        custom_error_type="device",
        custom_error_message="expected a device: its id, or a mapping with 'id'",
    ),
]
"""A device by its id where it is healthy and has no NUMA node, else in full."""


def devices_in_full(devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """Devices as the stub takes them."""
    whole = [StubDevice(id=device) if isinstance(device, str) else device for device in devices]
    return [device.model_dump(mode="json") for device in whole]


class PluginAction(Part):
    """Base: a plugin of the story and the node on which it is meant (None: the only one)."""

    plugin: Name
    node: Name | None = None


class StartPlugin(PluginAction):
    """Start a plugin's process: one with ``start: manual``, or one that was stopped."""


class StopPlugin(PluginAction):
    """End a plugin's process, and let nobody start it again.

    Attributes:
        signal: TERM as the deletion of its pod does, with KILL after five seconds; or KILL at once.
    """

    signal: Literal["TERM", "KILL"] = "TERM"


class KillPlugin(PluginAction):
    """Kill a plugin's process with SIGKILL; it is started again as after a crash."""


class PausePlugin(PluginAction):
    """Stop a plugin's process with SIGSTOP: its sockets and streams stay, and nobody answers."""


class ResumePlugin(PluginAction):
    """Let a paused plugin's process go on."""


class StubAction(PluginAction):
    """Base of the verbs that only a plugin with ``builtin: stub`` understands."""


class RegisterPlugin(StubAction):
    """Let the stub call Register, `times` in a row; its own resource and socket where nothing else is said."""

    resource: StrictStr | None = None
    endpoint: StrictStr | None = None
    version: StrictStr | None = None
    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1


class ListDevices(StubAction):
    """Let the stub send a new list of devices."""

    devices: tuple[Device, ...]


class Rpc(StrEnum):
    """The calls that a kubelet makes."""

    GET_DEVICE_PLUGIN_OPTIONS = "GetDevicePluginOptions"
    LIST_AND_WATCH = "ListAndWatch"
    GET_PREFERRED_ALLOCATION = "GetPreferredAllocation"
    ALLOCATE = "Allocate"
    PRE_START_CONTAINER = "PreStartContainer"


class AnswerRpc(StubAction):
    """Let the stub answer the coming calls of an RPC otherwise; without any of the keys below, as usual again.

    Attributes:
        error: Refuse with this text.
        empty: Answer with an empty message; ListAndWatch ends its stream at once.
        never: Do not answer.
        after: Real time that passes before the answer.
        devices: A list to send before the answer.
        times: How many calls are answered so; all from now on where it is left out.
    """

    rpc: Rpc
    error: StrictStr | None = None
    empty: Literal[True] | None = None
    never: Literal[True] | None = None
    after: Duration = 0.0
    devices: tuple[Device, ...] | None = None
    times: Annotated[StrictInt, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> AnswerRpc:
        if sum(value is not None for value in (self.error, self.empty, self.never)) > 1:
            raise PydanticCustomError("answer", "give at most one of 'error', 'empty' and 'never'")
        return self


class EndStream(StubAction):
    """Let the stub end its ListAndWatch stream and go on serving."""


class StopServer(StubAction):
    """Let the stub stop serving, with its process alive; ``registerPlugin`` lets it serve again."""


ProcessAction = StartPlugin | StopPlugin | KillPlugin | PausePlugin | ResumePlugin
TOLD_TO_STUB = (RegisterPlugin, ListDevices, AnswerRpc, EndStream, StopServer)
AnyStubAction = RegisterPlugin | ListDevices | AnswerRpc | EndStream | StopServer


def stub_command(action: AnyStubAction) -> dict[str, Any]:
    """What the stub is told, in its own words: see `plugin.stub.commands`."""
    match action:
        case RegisterPlugin():
            given = action.model_dump(exclude_none=True, exclude={"plugin", "node"})
            return {"command": "register", **given}
        case ListDevices(devices=devices):
            return {"command": "list", "devices": devices_in_full(devices)}
        case AnswerRpc():
            given = action.model_dump(exclude_none=True, include={"error", "empty", "never", "times"})
            listed = {} if action.devices is None else {"devices": devices_in_full(action.devices)}
            return {"command": "answer", "rpc": action.rpc.value, "after_s": action.after, **given, **listed}
        case EndStream():
            return {"command": "endStream"}
        case StopServer():
            return {"command": "stopServer"}
