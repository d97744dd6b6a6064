"""What a stub or a tap has reported of a plugin on a node: its calls, its registrations, its connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...trace.events import PluginCalled, RegistrationAnswered
from ...trace.trace import Record


class CallLog:
    """Kept from reports: see `plugin.stub.control` and `tap.tap`.

    Args:
        plugin: Whose.
        node: Where.
        trace: Gets the calls and the answers to registrations.

    Attributes:
        calls: RPC -> how often it was made, and Register -> how often that was answered, over all processes.
        log: All that the kubelet called of the latest process, in order.
        refusal: The answer to the latest Register call, empty where it was accepted or there was none.
        connections: How many the kubelet has.
    """

    def __init__(self, plugin: str, node: str, trace: Record) -> None:
        self._plugin = plugin
        self._node = node
        self._trace = trace
        self.calls = Counter[str]()
        self.log: list[str] = []
        self.refusal = ""
        self.connections = 0

    @property
    def view_fields(self) -> tuple[str, Mapping[str, int], tuple[str, ...], int]:
        """The last attributes of a `PluginView`."""
        return self.refusal, dict(self.calls), tuple(self.log), self.connections

    def begin_process(self) -> None:
        """Another process is the plugin from now on."""
        self.log.clear()

    def take(self, report: Mapping[str, Any]) -> bool:
        """Take a report; return whether it is about a registration that was accepted."""
        match report:
            case {"called": rpc, "devices": devices}:
                self.calls[rpc] += 1
                self.log.append(rpc)
                self._trace.append(PluginCalled(self._plugin, self._node, rpc, tuple(devices)))
            case {"registered": resource, "endpoint": endpoint, "error": error}:
                self.calls["Register"] += 1
                self.refusal = error
                self._trace.append(RegistrationAnswered(self._plugin, self._node, resource, endpoint, error))
                return not error
            case {"connections": number}:
                self.connections = number
            case {"ready": True} | {"process": _}:
                self.begin_process()
        return False
