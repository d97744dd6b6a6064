"""The verbs that act on a plugin: on its process, on what the scriptable ``stub`` does, on calls through a tap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, StrictInt, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from ..duration import Duration
from ..part import Count, Name, Part
from ..tap_answer import Rpc


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


class SignalPlugin(PluginAction):
    """Send a plugin's process a signal and leave it running; one that it has no handler for does nothing.

    It is the first process of a container, to which the kernel gives no signal that it does not handle.

    Source: Linux v6.1, kernel/signal.c, ``sig_task_ignored``; pid_namespaces(7).
    """

    signal: Literal["HUP", "USR1", "USR2"]


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


class CallAction(PluginAction):
    """Base of the verbs that a stub understands, and any other plugin with a tap."""

    @property
    def needs_tap(self) -> bool:
        """Whether a stub does not understand it by itself."""
        return False


class AnswerRpc(CallAction):
    """Let the coming calls of an RPC be answered otherwise; without any of the keys below, as usual again.

    Attributes:
        error: Refuse with this text.
        empty: Answer with an empty message; ListAndWatch ends its stream at once.
        never: Do not answer.
        after: Real time that passes before the answer.
        devices: A list that the kubelet gets before the answer.
        twice: Make the call twice and answer with the second answer; of ListAndWatch, send each list twice.
        parts: How many lists each list of ListAndWatch becomes.
        bytes: How long each message of the answer is made, with a field that nobody knows.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; all from now on where it is left out.
    """

    rpc: Rpc
    error: StrictStr | None = None
    empty: Literal[True] | None = None
    never: Literal[True] | None = None
    after: Duration = 0.0
    devices: tuple[Device, ...] | None = None
    twice: Literal[True] | None = None
    parts: Annotated[StrictInt, Field(ge=2, le=1000)] | None = None
    bytes: Annotated[StrictInt, Field(ge=1, le=2**30)] | None = None
    skip: Annotated[StrictInt, Field(ge=1)] | None = None
    times: Annotated[StrictInt, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_answer(self) -> AnswerRpc:
        if sum(value is not None for value in (self.error, self.empty, self.never)) > 1:
            raise PydanticCustomError("answer", "give at most one of 'error', 'empty' and 'never'")
        if not {"error", "empty", "never"}.isdisjoint(self.model_fields_set) and self._changes_the_answer:
            raise PydanticCustomError("answer", "with 'error', 'empty' or 'never' there is no answer to change")
        if self.parts is not None and self.rpc is not Rpc.LIST_AND_WATCH:
            raise PydanticCustomError("answer", "'parts' is about the lists of ListAndWatch")
        return self

    @property
    def needs_tap(self) -> bool:
        """Whether a stub does not understand it by itself."""
        return self.rpc is Rpc.REGISTER or self._changes_the_answer

    @property
    def _changes_the_answer(self) -> bool:
        return not {"twice", "parts", "bytes"}.isdisjoint(self.model_fields_set)


class EndStream(CallAction):
    """End the ListAndWatch stream; the plugin goes on serving."""


class StopServer(StubAction):
    """Let the stub stop serving, with its process alive; ``registerPlugin`` lets it serve again."""


ProcessAction = StartPlugin | StopPlugin | KillPlugin | PausePlugin | ResumePlugin | SignalPlugin
AnyStubAction = RegisterPlugin | ListDevices | StopServer
AnyCallAction = AnswerRpc | EndStream


def command_of(action: AnyStubAction | AnyCallAction) -> dict[str, Any]:
    """What the stub or the tap is told, in words of their own: see `plugin.stub.commands` and `tap.tap`."""
    match action:
        case RegisterPlugin():
            given = action.model_dump(exclude_none=True, exclude={"plugin", "node"})
            return {"command": "register", **given}
        case ListDevices(devices=devices):
            return {"command": "list", "devices": devices_in_full(devices)}
        case AnswerRpc():
            given = action.model_dump(exclude_none=True, exclude={"plugin", "node", "rpc", "after", "devices"})
            listed = {} if action.devices is None else {"devices": devices_in_full(action.devices)}
            return {"command": "answer", "rpc": action.rpc.value, "after_s": action.after, **given, **listed}
        case EndStream():
            return {"command": "endStream"}
        case StopServer():
            return {"command": "stopServer"}
