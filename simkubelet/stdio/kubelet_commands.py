"""Commands about the device manager as a whole: its start and stop, its settings, its time, its state."""

from __future__ import annotations

import resource as process
import time
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Final

from ..devices.pod_devices import DeviceID
from ..model.resources import ResourceName
from ..monitoring.kubelet_http import HAS_DEVICE_PLUGIN_CHECK
from .node import Node
from .request import Fields
from .session import Answer, CommandFailedError, CommandTable, set_gate

__all__ = ["commands"]

commands: Final = CommandTable[Node]()

_SETTINGS: Final = (
    "sources_ready",
    "running",
    "topology_policy",
    "topology_scope",
    "topology_options",
    "numa",
    "distances",
)


@commands.add(*_SETTINGS, needs_manager=False)
async def do_start(node: Node, fields: Fields) -> Answer:
    """Read the checkpoint and serve kubelet.sock; what is left out stays as it was at the last start."""
    settings = node.settings.changed(fields)
    if node.is_running:
        raise CommandFailedError("a manager runs already: stop it first, or restart")
    node.settings = settings
    await node.start()
    return {}


@commands.add(*_SETTINGS, needs_manager=False)
async def do_restart(node: Node, fields: Fields) -> Answer:
    """Stop the device manager, if one runs, and start the next one on what the folder holds."""
    settings = node.settings.changed(fields)
    begun = time.monotonic_ns()
    await node.stop()
    stopped = time.monotonic_ns()
    node.settings = settings
    await node.start()
    return {"stop_us": (stopped - begun) // 1000, "start_us": (time.monotonic_ns() - stopped) // 1000}


@commands.add()
async def do_stop(node: Node, fields: Fields) -> Answer:
    """Disconnect every plugin and stop serving."""
    await node.stop()
    return {}


@commands.add()
async def do_abandon(node: Node, fields: Fields) -> Answer:
    """End as a killed kubelet does: connections break, the socket's file stays."""
    await node.abandon()
    return {}


@commands.add("name", "value", needs_manager=False)
async def do_set_gate(node: Node, fields: Fields) -> Answer:
    """Set a feature gate of the kubelet, for the next start."""
    set_gate(node.gates, node.version, fields)
    return {}


@commands.add("value", needs_manager=False)
async def do_set_sources_ready(node: Node, fields: Fields) -> Answer:
    """Say whether all pods of the node have been seen."""
    node.set_sources_ready(fields.flag("value"))
    return {}


@commands.add("resource", "seconds")
async def do_age_endpoint(node: Node, fields: Fields) -> Answer:
    """Let a resource's plugin have been gone for so many seconds longer."""
    name, seconds = ResourceName(fields.text("resource")), fields.number("seconds")
    registered = node.manager.devices.endpoints.get(name)
    if registered is None:
        raise CommandFailedError(f"no endpoint of {name}")
    if registered.endpoint.stop_time is None:
        raise CommandFailedError(f"the endpoint of {name} is not stopped")
    registered.endpoint.stop_time -= seconds
    node.changed.notify()
    return {}


@commands.add()
async def do_should_reset(node: Node, fields: Fields) -> Answer:
    """Whether the node looks newly made, so that its extended resources are to be zeroed."""
    return {"value": node.folder.is_of_a_new_node()}


@commands.add()
async def do_health(node: Node, fields: Fields) -> Answer:
    """What the check device-plugin of /healthz says."""
    if not HAS_DEVICE_PLUGIN_CHECK.at(node.version):
        raise CommandFailedError("this Kubernetes has no check of the device manager: it came in 1.32")
    reason = node.manager.registration.failure
    return {"name": "device-plugin", "healthy": reason is None} | ({"reason": reason} if reason else {})


@commands.add()
async def do_dump(node: Node, fields: Fields) -> Answer:
    """The device manager's books: devices by health, allocated ones, endpoints, open connections."""
    books, allocator = node.manager.devices, node.manager.allocator
    endpoints = {
        name: {
            "stopped": known.endpoint.is_stopped,
            "opts": "nil" if known.options is None else str(known.options.pre_start_required).lower(),
            "prestart": known.options is not None and known.options.pre_start_required,
            "preferred": known.options is not None and known.options.get_preferred_allocation_available,
        }
        for name, known in books.endpoints.items()
    }
    return {
        "endpoints": endpoints,
        "clients": sorted(node.manager.registration.connected()),
        "healthyDevices": _sorted(books.healthy),
        "unhealthyDevices": _sorted(books.unhealthy),
        "allocatedDevices": _sorted(books.allocated),
        "devicesToReuse": {uid: _sorted(allocator.reusable(uid)) for uid in allocator.pods_with_reusable()},
    }


@commands.add(needs_manager=False)
async def do_now(node: Node, fields: Fields) -> Answer:
    """Nothing but the time, in the field t that all answers have."""
    return {}


@commands.add(needs_manager=False)
async def do_stats(node: Node, fields: Fields) -> Answer:
    """CPU time in milliseconds and memory in KiB of this process."""
    used = process.getrusage(process.RUSAGE_SELF)
    return {
        "cpu_ms": (used.ru_utime + used.ru_stime) * 1000,
        "rss_kib": _status_kib("VmRSS:"),
        "rss_peak_kib": _status_kib("VmHWM:"),
    }


def _status_kib(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(key)), 0)


def _sorted(sets: Mapping[ResourceName, Set[DeviceID]]) -> dict[ResourceName, list[DeviceID]]:
    return {name: sorted(devices) for name, devices in sets.items()}
