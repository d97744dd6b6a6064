"""Whether all that can be seen of a node agrees: what is true of every kubelet, whatever happened to it.

Each rule compares two things that can be observed, and yields what differs. None looks into the kubelet, so that no
mistake of its books hides itself. The rules hold once nothing is under way any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from simkubelet.model.events import (
    DevicesListed,
    KubeletCrashed,
    KubeletStarted,
    KubeletStopped,
    PluginDisconnected,
    PluginRegistered,
)
from simkubelet.model.version import version

from ..story.expected_values import ABSENT
from ..trace.events import CheckpointChanged, CriRefused, DiskFilled, RuntimePaused, RuntimeResumed
from ..trace.snapshot import CheckpointView, Ids, NodeView, PodView, Snapshot
from ..trace.trace import Trace
from .mismatch import Mismatch, Mismatches

_KEY: Final = "consistent"
_RUNNING: Final = "Running"
_FAILED: Final = "Failed"
_BY_SOCKET: Final = version("1.37")
"""Since when a kubelet tells the plugins of a resource apart.

Source: devicemanager/manager.go, ``PluginDisconnected`` (kubernetes v1.36.0, v1.37.0).
"""


def inconsistencies(node: NodeView, snapshot: Snapshot, trace: Trace) -> Mismatches:
    """Yield what does not agree; for a stopped kubelet only devices in running containers are checked.

    - No device is held by two pods, or is in the environment of two running pods.
    - The published amounts are those of the latest lists of connected plugins, and GetAllocatableResources has these
      devices.
    - The checkpoint has what pods hold, and the healthy devices of connected plugins.
    - List of the PodResources API has what running pods hold.
    """
    pods = [pod for pod in snapshot.pods.values() if pod.node == node.name]
    spoilt = {one.node for one in trace.of(CheckpointChanged)} | {one.node for one in trace.of(DiskFilled)}
    is_checkpoint_safe = node.name not in spoilt
    if is_checkpoint_safe:
        # A kubelet that has lost its checkpoint gives the devices of running containers away.
        shared = _in_two_resources(node, trace)
        yield from _held_twice([(pod.name, _in_containers(pod, shared)) for pod in pods if pod.phase == _RUNNING])
    kubelet = _kubelet(node, trace)
    if not kubelet.is_up:
        return
    yield from _held_twice([(pod.name, pod.held()) for pod in pods])
    yield from _amounts(node, kubelet, kubelet.lists.keys() if is_checkpoint_safe else kubelet.known)
    yield from _pod_resources(pods)
    if is_checkpoint_safe:
        yield from _checkpoint(node, pods, kubelet)


@dataclass(slots=True)
class _Kubelet:
    """What the trace tells of the kubelet of a node that runs now.

    Attributes:
        is_up: Whether it serves, and its container runtime answers it: without one it does not publish its node.
        lists: Resource -> the latest list that this kubelet or one before it has got.
        known: The resources of which this kubelet has got a list.
        connected: Those of which a plugin was connected when the list came, and still is.
    """

    is_up: bool = False
    lists: dict[str, DevicesListed] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    connected: set[str] = field(default_factory=set)


def _kubelet(node: NodeView, trace: Trace) -> _Kubelet:
    found, is_paused = _Kubelet(), False
    refused: Sequence[str] = ()
    without_plugin: set[str] = set()
    orphaned: set[str] = set()
    for entry in trace:
        event = entry.event
        if getattr(event, "node", None) != node.name:
            continue
        match event:
            case KubeletStarted():
                found.is_up = True
            case KubeletStopped() | KubeletCrashed():
                found.is_up = False
                for resources in (found.known, found.connected, without_plugin, orphaned):
                    resources.clear()
            case PluginRegistered(resource=resource):
                without_plugin.discard(resource)
                orphaned.discard(resource)
            case DevicesListed(resource=resource):
                if resource in without_plugin:
                    orphaned.add(resource)
                found.lists[resource] = event
                found.known.add(resource)
                found.connected.add(resource)
            case PluginDisconnected(resource=resource):
                found.connected.discard(resource)
                without_plugin.add(resource)
            case RuntimePaused() | RuntimeResumed():
                is_paused = isinstance(event, RuntimePaused)
            case CriRefused(calls=calls):
                refused = calls
    if version(node.kubernetes) >= _BY_SOCKET:
        # The end of one plugin leaves the others of its resource.
        still = {resource for resource in found.known if trace.connected(node.name, resource) != ABSENT}
        found.connected |= still
    else:
        _forget(found, orphaned)
    found.is_up = found.is_up and not is_paused and not refused
    return found


def _forget(kubelet: _Kubelet, orphaned: Iterable[str]) -> None:
    """Leave out resources that a second plugin lists, whose stream has outlived the end of the newer one.

    Its devices count until the grace period of the ended plugin is over, then they go, whatever it lists.

    Source: devicemanager/manager.go, ``GetCapacity`` (kubernetes v1.34.4): healthyDevices and endpoints out of sync.
    """
    for resource in orphaned:
        kubelet.lists.pop(resource, None)
        kubelet.known.discard(resource)
        kubelet.connected.discard(resource)


def _in_two_resources(node: NodeView, trace: Trace) -> frozenset[str]:
    """Ids of devices that were listed for two resources, as a plugin does that registers for both."""
    listed: dict[str, set[str]] = {}
    for one in trace.of(DevicesListed):
        if one.node == node.name:
            listed.setdefault(one.resource, set()).update(one.healthy, one.unhealthy)
    times = Counter(device for ids in listed.values() for device in ids)
    return frozenset(device for device, count in times.items() if count > 1)


def _in_containers(pod: PodView, shared: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Variable -> devices that the stub has put into it for the pod's containers, but for those of two resources."""
    found: dict[str, set[str]] = {}
    for options in pod.options.values():
        for name, value in options.envs.items():
            if name.endswith("_DEVICES") and value:
                found.setdefault(name, set()).update(set(value.split(",")) - set(shared))
    return {name: tuple(sorted(ids)) for name, ids in found.items()}


def _held_twice(holders: Sequence[tuple[str, Ids]]) -> Mismatches:
    holder_of: dict[tuple[str, str], str] = {}
    for pod, held in holders:
        for resource, ids in held.items():
            for device in ids:
                other = holder_of.setdefault((resource, device), pod)
                if other != pod:
                    yield Mismatch((_KEY,), f"{resource} {device} in one pod", f"in {other} and in {pod}")


def _amounts(node: NodeView, kubelet: _Kubelet, resources: Collection[str]) -> Mismatches:
    """Compare the amounts of resources; of one that a kubelet knows nothing of it publishes what was there before."""
    for resource in sorted(resources):
        listed, is_connected = kubelet.lists[resource], resource in kubelet.connected
        healthy = sorted(set(listed.healthy)) if is_connected else []
        published = node.allocatable.get(resource, 0)
        if published != len(healthy):
            yield Mismatch((_KEY,), f"{resource}: {len(healthy)} allocatable, as listed", f"{published} published")
        total, capacity = len(set(listed.healthy)) + len(set(listed.unhealthy)), node.capacity.get(resource, 0)
        if is_connected and capacity != total:
            yield Mismatch((_KEY,), f"{resource}: capacity of {total}, as listed", f"{capacity} published")
        devices = sorted(node.pod_resources.get(resource, {}))
        if devices != healthy:
            yield Mismatch((_KEY,), f"{resource}: GetAllocatableResources of {_names(healthy)}", _names(devices))
    for resource, amount in node.allocatable.items():
        if amount > (capacity := node.capacity.get(resource, 0)):
            yield Mismatch((_KEY,), f"{resource}: at most its capacity of {capacity} allocatable", str(amount))


def _pod_resources(pods: Sequence[PodView]) -> Mismatches:
    for pod in pods:
        if pod.phase != _RUNNING:
            continue
        if pod.pod_resources is None:
            yield Mismatch((_KEY,), f"pod {pod.name} in List of the PodResources API", ABSENT)
            continue
        # Init containers that have ended are not listed.
        for container in sorted(pod.pod_resources):
            held = {name: sorted(ids) for name, ids in pod.devices.get(container, {}).items() if ids}
            listed = {name: sorted(ids) for name, ids in pod.pod_resources.get(container, {}).items() if ids}
            if held != listed:
                what = f"List of the PodResources API: {held or 'nothing'} in {pod.name}/{container}"
                yield Mismatch((_KEY,), what, str(listed or "nothing"))


def _checkpoint(node: NodeView, pods: Sequence[PodView], kubelet: _Kubelet) -> Mismatches:
    """Compare what is written; a rejected pod may hold devices of one resource, as another one had none for it.

    Source: devicemanager/manager.go, ``allocateContainerResources`` (kubernetes v1.34.4), which writes at its end only.
    """
    held = dict(_held_by_container([pod for pod in pods if pod.phase != _FAILED]))
    if not isinstance(node.checkpoint, CheckpointView):
        if held:
            yield Mismatch((_KEY,), f"a checkpoint with {_where(held)}", node.checkpoint)
        return
    for (pod, container), devices in held.items():
        written = {name: tuple(ids) for name, ids in node.checkpoint.pods.get(pod, {}).get(container, {}).items()}
        if written != devices:
            yield Mismatch((_KEY,), f"checkpoint: {devices} in {pod}/{container}", str(written or "nothing"))
    # The end of a plugin is not written.
    for resource in sorted(kubelet.connected):
        healthy = sorted(set(kubelet.lists[resource].healthy))
        registered = sorted(node.checkpoint.registered.get(resource, ()))
        if healthy != registered:
            yield Mismatch((_KEY,), f"checkpoint: {resource} registered with {_names(healthy)}", _names(registered))


def _held_by_container(pods: Sequence[PodView]) -> Iterator[tuple[tuple[str, str], dict[str, tuple[str, ...]]]]:
    for pod in pods:
        for container, resources in pod.devices.items():
            if devices := {name: tuple(ids) for name, ids in resources.items() if ids}:
                yield (pod.name, container), devices


def _where(held: Mapping[tuple[str, str], object]) -> str:
    return ", ".join(f"{pod}/{container}" for pod, container in held)


def _names(ids: Sequence[str]) -> str:
    return ", ".join(ids) or "none"
