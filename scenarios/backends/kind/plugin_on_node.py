"""A plugin on one node of a cluster: its starts and ends, as its pod shows them, and its calls, by a stub or a tap."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from ...story.specs import PluginSpec
from ...trace.events import PluginExited, PluginStarted
from ...trace.snapshot import PluginState, PluginView
from ...trace.trace import Trace
from ..world.plugin_reports import CallLog
from .api import Object
from .daemon_set import mark_of
from .node import KindNode


class PluginOnNode:
    """What has been reported about a plugin.

    Args:
        spec: The plugin.
        node: Where it runs.
        tells: Whether it tells its registrations itself.
        trace: Gets what happens.

    Attributes:
        is_wanted: Whether the story wants it to run.
        registrations: How often it has registered.
    """

    def __init__(self, spec: PluginSpec, node: KindNode, tells: bool, trace: Trace) -> None:
        self.spec = spec
        self.node = node
        self.tells = tells
        self.is_wanted = spec.start == "with-node"
        self.registrations = 0
        self._trace = trace
        self._starts = 0
        self._ended = 0
        self._pod = ""
        self._earlier_pods: set[str] = set()
        self._starts_before = 0
        self._state = PluginState.STOPPED
        self._call_log = CallLog(spec.name, node.name, trace)

    @property
    def view(self) -> PluginView:
        """For the story's observations."""
        restarts = max(self._starts - 1, 0)
        told = self._call_log.view_fields
        return PluginView(self.spec.name, self.node.name, self._state, restarts, self.registrations, *told)

    @property
    def has_ended(self) -> bool:
        """Whether no process of it is known to run."""
        return self._ended == self._starts

    @property
    def mark(self) -> str:
        """By what its processes are found."""
        return mark_of(self.spec.name)

    def seen_pod(self, pod: Object, is_there: bool) -> None:
        """Take what its pod tells."""
        statuses = pod.get("status", {}).get("containerStatuses", ())
        uid = pod["metadata"]["uid"]
        if uid != self._pod:
            # An earlier one may still be ending beside its successor.
            if not statuses or not is_there or uid in self._earlier_pods:
                return
            self._earlier_pods.add(self._pod)
            self._pod, self._starts_before = uid, self._starts
        if not is_there:
            self._state = PluginState.STOPPED
            self._end(None)
        elif not statuses:
            # A pod that its node rejects after a reboot has none any more.
            self._state = PluginState.STOPPED
            self._end({"exitCode": 137})
        else:
            self._seen_container(statuses[0])

    def seen_report(self, report: Mapping[str, Any]) -> None:
        """Take what a stub or a tap reports about calls."""
        self.registrations += self._call_log.take(report) and self.tells

    def _seen_container(self, status: Mapping[str, Any]) -> None:
        state, last = status["state"], status.get("lastState", {})
        terminated = state.get("terminated") or last.get("terminated")
        has_begun = "waiting" not in state or bool(last)
        while self._starts < self._starts_before + status["restartCount"] + has_begun:
            self._end(terminated)
            self._starts += 1
            self._trace.append(PluginStarted(self.spec.name, self.node.name, self._starts))
        if "running" in state:
            self._state = PluginState.RUNNING
        else:
            self._state = PluginState.WAITING
            self._end(terminated)

    def _end(self, terminated: Mapping[str, Any] | None) -> None:
        while self._ended < self._starts:
            self._ended += 1
            status = _status(terminated) if terminated else 0
            self._trace.append(PluginExited(self.spec.name, self.node.name, status, ""))


def _status(terminated: Mapping[str, Any]) -> int:
    """How a process ended, negative for a signal; of one that went with its node the runtime knows nothing."""
    if terminated.get("reason") in ("Unknown", "ContainerStatusUnknown"):
        return -signal.SIGKILL
    code: int = terminated["exitCode"]
    return 128 - code if code > 128 else code
