"""The verbs that act on a plugin: on its process, on what the scriptable ``stub`` does, on calls through a tap."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from simkubelet.model.events import DevicesListed, PluginDisconnected

from ...trace.events import (
    PluginExited,
    PluginMeasured,
    PluginPaused,
    PluginResumed,
    PluginSignalled,
    PluginStarted,
    RegistrationAnswered,
)
from ...trace.snapshot import Rpc
from ..part import Capability, Duration, Name, NodeAction
from ..stub_spec import Device, devices_in_full


class PluginAction(NodeAction):
    """Base of the verbs for a plugin of the story, on the node on which it is meant.

    Attributes:
        plugin: The plugin's name in the story.
        node: The node on which it runs; the only one where none is named.
    """

    section = "Plugins"

    plugin: Name

    @property
    def title(self) -> str:
        return f"{self.verb} {self.plugin}"


class ProcessAction(PluginAction):
    """Base of the verbs for a plugin's process."""

    capability = Capability.PLUGIN_PROCESSES


class StartPlugin(ProcessAction):
    """Start a plugin's process: one with ``start: manual``, or one that was stopped."""

    events = (PluginStarted,)


class StopPlugin(ProcessAction):
    """End a plugin's process, which is not started again.

    Attributes:
        signal: `TERM` as the deletion of its pod does, with KILL after the grace; or `KILL` at once.
        grace: Real time from TERM to KILL.
    """

    events = (PluginExited,)

    signal: Literal["TERM", "KILL"] = "TERM"
    grace: Annotated[Duration, Field(gt=0)] = 5.0


class KillPlugin(ProcessAction):
    """Kill a plugin's process with SIGKILL; it is started again as after a crash."""

    events = (PluginExited,)


class PausePlugin(ProcessAction):
    """Stop a plugin's process with SIGSTOP: its sockets and streams stay, and it answers nothing."""

    events = (PluginPaused,)


class ResumePlugin(ProcessAction):
    """Resume a paused plugin's process."""

    events = (PluginResumed,)


class SignalPlugin(ProcessAction):
    """Send a plugin's process a signal and leave it running; a signal that it has no handler for does nothing.

    It is the first process of a container, to which the kernel gives no signal that it does not handle.

    Source: Linux v6.1, kernel/signal.c, ``sig_task_ignored``; pid_namespaces(7).

    Attributes:
        signal: `HUP`, `USR1` or `USR2`.
    """

    events = (PluginSignalled,)

    signal: Literal["HUP", "USR1", "USR2"]


class MeasurePlugin(PluginAction):
    """Measure how many open files, threads and how much memory a plugin's processes use; see `growth`."""

    capability = Capability.MEASURE_PLUGINS
    events = (PluginMeasured,)


class CommandAction(PluginAction):
    """Base of the verbs that become a command for the stub or for a tap."""

    @property
    def command(self) -> dict[str, Any]:
        """The command as the stub and the tap read it: see `plugin.stub.behaviour` and `tap.tap`."""
        return {"command": self.verb}


class StubAction(CommandAction):
    """Base of the verbs that only a plugin with ``builtin: stub`` understands."""

    section = "The stub"


class RegisterPlugin(StubAction):
    """Let the stub call Register, `times` in a row; by default with its own resource, socket and version.

    Attributes:
        resource: That it registers; its own where it is left out.
        endpoint: The socket's name; its own where it is left out.
        version: Of the API, `v1beta1` where it is left out.
        service: The gRPC service that is called, `v1beta1.Registration` by default; `deviceplugin.Registration` was
            that of v1alpha.
        times: How many calls, one after the other.
    """

    events = (RegistrationAnswered,)

    resource: StrictStr | None = None
    endpoint: StrictStr | None = None
    version: StrictStr | None = None
    service: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_.]+$")] | None = None
    times: Annotated[StrictInt, Field(ge=1, le=1000)] = 1

    @property
    def command(self) -> dict[str, Any]:
        return {"command": "register", **self.model_dump(exclude_none=True, exclude={"plugin", "node"})}


class ListDevices(StubAction):
    """Let the stub send a new list of devices.

    Attributes:
        devices: The new list: ids, or mappings with `id`, `health` and `numa`.
    """

    events = (DevicesListed,)

    devices: tuple[Device, ...]

    @property
    def command(self) -> dict[str, Any]:
        return {"command": "list", "devices": devices_in_full(self.devices)}


class StopServer(StubAction):
    """Let the stub stop serving, with its process alive; ``registerPlugin`` lets it serve again."""


class CallAction(CommandAction):
    """Base of the verbs that a stub understands, and any other plugin with a tap."""

    section = "Calls"

    @property
    def needs_tap(self) -> bool:
        """Whether a stub does not understand it by itself."""
        return False


class AnswerRpc(CallAction):
    """Answer the next calls of an RPC in another way; without any key after `rpc`, as usual again.

    Attributes:
        rpc: A call of the kubelet: `GetDevicePluginOptions`, `ListAndWatch`, `GetPreferredAllocation`, `Allocate`,
            `PreStartContainer`; with a tap also the plugin's own, `Register`.
        error: Refuse with this text; the plugin is not called.
        empty: Answer with an empty message; ListAndWatch ends its stream at once. The plugin is not called, so a
            Register is lost.
        never: Do not answer as long as the plugin lives.
        crash: Of the stub: end its process in place of an answer, as a plugin that panics; it is started again.
        after: Real time that passes before the answer, whatever the answer is.
        devices: A list that the kubelet gets before the answer.
        twice: With a tap: make the call twice and answer with the second answer; of ListAndWatch, send each list
            twice.
        parts: With a tap: how many lists each list of ListAndWatch becomes.
        bytes: With a tap: how long each message of the answer is made, by a field that nobody knows.
        lost: With a tap: make the call, and let its answer never arrive.
        skip: How many calls are answered as usual first.
        times: How many calls are answered so; all from now on where it is left out.
    """

    rpc: Rpc
    error: StrictStr | None = None
    empty: Literal[True] | None = None
    never: Literal[True] | None = None
    crash: Literal[True] | None = None
    after: Duration = 0.0
    devices: tuple[Device, ...] | None = None
    twice: Literal[True] | None = None
    parts: Annotated[StrictInt, Field(ge=2, le=1000)] | None = None
    bytes: Annotated[StrictInt, Field(ge=1, le=2**30)] | None = None
    lost: Literal[True] | None = None
    skip: Annotated[StrictInt, Field(ge=1)] | None = None
    times: Annotated[StrictInt, Field(ge=1)] | None = None

    @property
    def title(self) -> str:
        return f"answerRpc {self.rpc.value} of plugin {self.plugin}"

    @property
    def command(self) -> dict[str, Any]:
        given = self.model_dump(exclude_none=True, exclude={"plugin", "node", "rpc", "after", "devices"})
        listed = {} if self.devices is None else {"devices": devices_in_full(self.devices)}
        return {"command": "answer", "rpc": self.rpc.value, "after_s": self.after, **given, **listed}

    @model_validator(mode="after")
    def _one_answer(self) -> AnswerRpc:
        if sum(value is not None for value in (self.error, self.empty, self.never, self.crash)) > 1:
            raise PydanticCustomError("answer", "give at most one of 'error', 'empty', 'never' and 'crash'")
        if not {"error", "empty", "never", "crash"}.isdisjoint(self.model_fields_set) and self._changes_the_answer:
            raise PydanticCustomError(
                "answer", "with 'error', 'empty', 'never' or 'crash' there is no answer to change"
            )
        if self.parts is not None and self.rpc is not Rpc.LIST_AND_WATCH:
            raise PydanticCustomError("answer", "'parts' is about the lists of ListAndWatch")
        return self

    @property
    def needs_tap(self) -> bool:
        """Whether a stub does not understand it by itself."""
        return self.rpc is Rpc.REGISTER or self._changes_the_answer

    @property
    def _changes_the_answer(self) -> bool:
        return not {"twice", "parts", "bytes", "lost"}.isdisjoint(self.model_fields_set)


class EndStream(CallAction):
    """End the ListAndWatch stream; the plugin keeps serving."""

    events = (PluginDisconnected,)
