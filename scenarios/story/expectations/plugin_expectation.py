"""What a story may expect of a plugin on a node."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from ...trace.snapshot import PluginState
from ..part import Count, Name
from ..tap_answer import Rpc
from .expectation import Expectation


class PluginExpectation(Expectation):
    """A plugin on a node, as its supervisor sees it.

    Attributes:
        plugin: The plugin's name.
        node: Where it runs; the only node where none is named.
        state: `running`, `waiting` (for its restart), `stopped` or `exited`.
        restarts: Starts after the first one.
        registrations: How often Register was accepted.
        refusal: The answer to the latest Register call, empty where it was accepted; of the stub, or with a tap.
        calls: RPC -> how often the kubelet made it, and Register -> how often that was answered; of the stub, or with
            a tap.
        call_log: All calls that the kubelet has made to the plugin's latest process, in their order; of the stub, or
            with a tap.
        connections: How many connections the kubelet has to the plugin's sockets; with a tap.
    """

    subject_key = "plugin"

    plugin: Name
    node: Name | None = None
    state: PluginState | None = None
    restarts: Count | None = None
    registrations: Count | None = None
    refusal: StrictStr | None = None
    calls: Mapping[Rpc, Count] = Field(default_factory=dict)
    call_log: tuple[Rpc, ...] = ()
    connections: Count | None = None

    @model_validator(mode="after")
    def _logs_calls_of_the_kubelet(self) -> PluginExpectation:
        if Rpc.REGISTER in self.call_log:
            raise PydanticCustomError("log", "'callLog' has the calls of the kubelet; Register is the plugin's")
        return self
