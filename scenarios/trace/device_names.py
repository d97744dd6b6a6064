"""Devices named by what a kubelet goes by when it chooses: who holds them, and which faults they have.

A kubelet takes any of several free devices, so ids tell nothing of two traces of one story.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from simkubelet.model.events import DevicesAllocated, PodRemoved, PodStatusUpdated

from .events import FaultHealed, FaultInjected
from .trace import Event


class DeviceNames:
    """The names at one moment of a trace; `heed` moves it on.

    Args:
        events: The whole trace: the containers of one pod get their devices together, told in any order.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._containers: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for event in events:
            if event.kind == DevicesAllocated.kind:
                node, pod, container = (event.fields[key] for key in ("node", "pod", "container"))
                for device in _with_hardware(event.fields["devices"]):
                    self._containers[node, device, pod].add(container)
        self._holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._faults: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._ended: set[str] = set()

    def heed(self, event: Event) -> None:
        """Take note of an event."""
        fields = event.fields
        match event.kind:
            case DevicesAllocated.kind:
                # An API server may tell that a pod was refused before its node tells what it had been given.
                if fields["pod"] not in self._ended:
                    for device in _with_hardware(fields["devices"]):
                        self._holders[fields["node"], device].add(fields["pod"])
            case PodRemoved.kind:
                self._release(fields["pod"])
                self._ended.discard(fields["pod"])
            case PodStatusUpdated.kind if fields["phase"] in ("Succeeded", "Failed"):
                self._release(fields["pod"])
                self._ended.add(fields["pod"])
            case FaultInjected.kind:
                self._faults[fields["node"], fields["gpu"]] += _faults(fields)
            case FaultHealed.kind:
                self._faults.pop((fields["node"], fields["gpu"]), None)

    def name(self, node: str, device: str, pod: str = "", container: str = "") -> str:
        """What a device is to a container of a pod: ``<other/main, xid 79>``, or ``<free>``.

        The container itself is left out, whether or not it has the device by now.
        """
        pods = {*self._holders[node, device], pod}
        holders = {f"{one}/{each}" for one in pods for each in self._containers[node, device, one]}
        faults = self._faults[node, hardware_of(device)]
        return "<" + ", ".join([*sorted(holders - {f"{pod}/{container}"}), *faults] or ["free"]) + ">"

    def _release(self, pod: str) -> None:
        for pods in self._holders.values():
            pods.discard(pod)


def hardware_of(device: str) -> str:
    """What a device is a replica of; any other is its own."""
    return device.partition("::")[0]


def _with_hardware(devices: Iterable[str]) -> set[str]:
    return {name for device in devices for name in (device, hardware_of(device))}


def _faults(injected: Mapping[str, Any]) -> list[str]:
    xid = [] if injected["xid"] is None else [f"xid {injected['xid']}"]
    lost = ["lost"] if injected["lost"] else []
    return [*xid, *lost] or ["unhealthy"]
