"""Devices named by what a kubelet goes by when it chooses: who holds them, and which faults they have.

A kubelet takes any of several free devices, so the ids of two traces of one story cannot be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from simkubelet.model.events import DevicesAllocated, PodRemoved, PodStatusUpdated

from .events import FaultHealed, FaultInjected
from .trace import Entry, Event


class DeviceNames:
    """The names at one moment of a trace; `follow` moves it on.

    Args:
        entries: The whole trace: the containers of one pod get their devices together, recorded in any order.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._containers: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        for entry in entries:
            match entry.event:
                case DevicesAllocated(node=node, pod=pod, container=container, devices=devices):
                    for device in _with_hardware(devices):
                        self._containers[node, device, pod].add(container)
        self._holders: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._faults: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self._ended: set[str] = set()

    def follow(self, event: Event) -> None:
        """Take the next event of the trace into account."""
        match event:
            case DevicesAllocated(node=node, pod=pod, devices=devices) if pod not in self._ended:
                # A pod that is in `_ended` was rejected, and the API server reported that before its node reported
                # what the pod had been given.
                for device in _with_hardware(devices):
                    self._holders[node, device].add(pod)
            case PodRemoved(pod=pod):
                self._release(pod)
                self._ended.discard(pod)
            case PodStatusUpdated(pod=pod, phase="Succeeded" | "Failed"):
                self._release(pod)
                self._ended.add(pod)
            case FaultInjected(node=node, gpu=gpu):
                self._faults[node, gpu] += _faults(event)
            case FaultHealed(node=node, gpu=gpu):
                self._faults.pop((node, gpu), None)

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


def _faults(injected: FaultInjected) -> list[str]:
    xid = [] if injected.xid is None else [f"xid {injected.xid}"]
    lost = ["lost"] if injected.lost else []
    return [*xid, *lost] or ["unhealthy"]
