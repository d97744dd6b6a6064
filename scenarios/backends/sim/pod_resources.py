"""Asks a node's PodResources API as a monitoring agent does: over its socket, and no more often than it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import Final

import grpc

from simkubelet.apis.podresources import (
    AllocatableResourcesRequest,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    PodResourcesListerStub,
)

from ..world.pod_resources import NAMESPACE, Told, told

_PAUSE_S: Final = 0.02
"""For each call; the kubelet answers a hundred calls in a second."""
_CHANNEL_OPTIONS: Final = (("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "localhost"))


class PodResourcesAgent:
    """Calls the API of one node.

    Args:
        socket: ``pod-resources/kubelet.sock`` of the node.
        pods: Those of which Get is asked.
    """

    def __init__(self, socket: Path, pods: Collection[str]) -> None:
        self._socket = socket
        self._pods = pods
        self._next_at = 0.0

    async def ask(self) -> Told:
        """What the kubelet tells; nothing where none answers."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_at - loop.time())
        self._next_at = loop.time() + _PAUSE_S * (2 + len(self._pods))
        # A channel for each look: one that was there before a new kubelet would wait out its back-off.
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=_CHANNEL_OPTIONS) as channel:
            stub = PodResourcesListerStub(channel)
            try:
                listed = await stub.List(ListPodResourcesRequest())
                allocatable = await stub.GetAllocatableResources(AllocatableResourcesRequest())
            except grpc.aio.AioRpcError:
                return Told()
            return told(listed, allocatable, {pod: await _answer(stub.Get(_request(pod))) for pod in self._pods})


def _request(pod: str) -> GetPodResourcesRequest:
    return GetPodResourcesRequest(pod_name=pod, pod_namespace=NAMESPACE)


async def _answer(call: Awaitable[GetPodResourcesResponse]) -> GetPodResourcesResponse | str:
    """What a call brings, or the text with which it is refused."""
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        return error.details() or error.code().name
