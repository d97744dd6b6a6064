"""The cells of a pod's row in a table.

Source: pkg/printers/internalversion/printers.go, ``printPod`` (kubernetes v1.34.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...objects.objects import JSON
from ...objects.pod_json import has_ended

__all__ = ["pod_cells", "row_conditions"]

_NONE: Final = "<none>"
_COMPLETED: Final = {
    "Succeeded": "The pod has completed successfully.",
    "Failed": "The pod failed.",
}


def row_conditions(pod: JSON) -> list[JSON]:
    """What a row says about a pod that has ended."""
    phase = pod.get("status", {}).get("phase")
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


class _Counts:
    """What is counted over the containers of a pod."""

    def __init__(self) -> None:
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""

    def add_restarts(self, status: JSON) -> None:
        self.restarts += status.get("restartCount", 0)
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def pod_cells(pod: JSON, age: Callable[[str | None], str]) -> list[Any]:
    """Name, ready, status, restarts, age, and the wide ones: IP, node, nominated node, readiness gates.

    `age` says how long ago a date was.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    metadata = pod["metadata"]
    conditions: dict[str, JSON] = {condition["type"]: condition for condition in status.get("conditions") or ()}
    reason = status.get("reason") or status.get("phase", "")
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    init = {container["name"]: container for container in spec.get("initContainers") or ()}
    sidecars = {name for name, container in init.items() if container.get("restartPolicy") == "Always"}
    counts, of_sidecars = _Counts(), _Counts()
    failed = _init_reason(status, len(init), sidecars, counts, of_sidecars)
    if failed is not None:
        reason = failed
    if failed is None or conditions.get("Initialized", {}).get("status") == "True":
        of_sidecars.ready = counts.ready
        counts = of_sidecars
        is_ready = conditions.get("Ready", {}).get("status") == "True"
        reason = _app_reason(status, reason, counts, is_ready=is_ready)
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif not has_ended(pod):
            reason = "Terminating"
    total = len(spec.get("containers") or ()) + len(sidecars)
    restarts = str(counts.restarts)
    if counts.restarts and counts.last_restart:
        restarts = f"{counts.restarts} ({age(counts.last_restart)} ago)"
    ips = status.get("podIPs") or [{}]
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    open_gates = sum(conditions.get(gate, {}).get("status") == "True" for gate in gates)
    return [
        metadata["name"],
        f"{counts.ready}/{total}",
        reason,
        restarts,
        age(metadata.get("creationTimestamp")),
        ips[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{open_gates}/{len(gates)}" if gates else _NONE,
    ]


def _init_reason(status: JSON, total: int, sidecars: set[str], counts: _Counts, of_sidecars: _Counts) -> str | None:
    """What a pod says while it initializes; None when that is over."""
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        counts.add_restarts(container)
        is_sidecar = container["name"] in sidecars
        if is_sidecar:
            of_sidecars.add_restarts(container)
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            counts.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            return f"Init:{_end_of(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return None


def _app_reason(status: JSON, reason: str, counts: _Counts, *, is_ready: bool) -> str:
    has_running = False
    for container in reversed(status.get("containerStatuses") or ()):
        counts.add_restarts(container)
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _end_of(terminated)
        elif container.get("ready") and state.get("running") is not None:
            has_running = True
            counts.ready += 1
    if reason == "Completed" and has_running:
        return "Running" if is_ready else "NotReady"
    return reason


def _end_of(terminated: JSON) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
