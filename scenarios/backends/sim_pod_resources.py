"""Asks a node's PodResources API as a monitoring agent does: over its socket, and no more often than it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import grpc

from simkubelet.apis.podresources import (
    AllocatableResourcesRequest,
    ContainerDevices,
    ListPodResourcesRequest,
    PodResources,
    PodResourcesListerStub,
)

_PAUSE_S: Final = 0.04
"""Between two looks, of two calls each; the kubelet answers a hundred calls in a second."""
_CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))

DeviceIds: TypeAlias = Mapping[str, tuple[str, ...]]
"""Resource -> sorted device ids."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a kubelet tells: the devices of each pod, of all its containers, and those that pods may get at all."""

    pods: Mapping[str, DeviceIds] = field(default_factory=dict)
    allocatable: DeviceIds = field(default_factory=dict)


class PodResourcesAgent:
    """Calls List and GetAllocatableResources on one node.

    Args:
        socket: ``pod-resources/kubelet.sock`` of the node.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._next_at = 0.0

    async def ask(self) -> Told:
        """What the kubelet tells; nothing where none answers."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_at - loop.time())
        self._next_at = loop.time() + _PAUSE_S
        # A channel for each look: one that was there before a new kubelet would wait out its back-off.
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_CHANNEL_OPTIONS) as channel:
            stub = PodResourcesListerStub(channel)
            try:
                listed = await stub.List(ListPodResourcesRequest())
                allocatable = await stub.GetAllocatableResources(AllocatableResourcesRequest())
            except grpc.aio.AioRpcError:
                return Told()
        pods = {
            _key(pod): _ids(entry for one in pod.containers for entry in one.devices) for pod in listed.pod_resources
        }
        return Told(pods, _ids(allocatable.devices))


def _key(pod: PodResources) -> str:
    return pod.name if pod.namespace == "default" else f"{pod.namespace}/{pod.name}"


def _ids(entries: Iterable[ContainerDevices]) -> DeviceIds:
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: tuple(sorted(ids)) for resource, ids in found.items()}
