"""Asks a kubelet's PodResources API; the answer is plain data that may travel as JSON: the same in every world."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import Message

from simkubelet.apis.grpcwire.client import ClientConnection, RpcError
from simkubelet.apis.podresources import (
    AllocatableResourcesRequest,
    AllocatableResourcesResponse,
    ContainerDevices,
    GetPodResourcesRequest,
    GetPodResourcesResponse,
    ListPodResourcesRequest,
    ListPodResourcesResponse,
    PodResources,
)

from ...trace.snapshot import PlacedIds, together

M = TypeVar("M", bound=Message)

NAMESPACE: Final = "default"
"""Of a story's pods."""
_SERVICE: Final = "/v1.PodResourcesLister"
_LIMIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class PodResourcesAnswers:
    """The answers of a kubelet; empty where none answers.

    Attributes:
        pods: Pod -> container -> devices, as List has them.
        allocatable: Those that pods may get at all.
        get: Pod -> the devices of its containers, or the text of an error, for pods that were asked for.
    """

    pods: Mapping[str, Mapping[str, PlacedIds]] = field(default_factory=dict)
    allocatable: PlacedIds = field(default_factory=dict)
    get: Mapping[str, PlacedIds | str] = field(default_factory=dict)


class PodResourcesClient:
    """Asks the kubelet on a socket; its connection is kept for as long as that kubelet runs, or until `close`."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        self._connection: ClientConnection | None = None

    async def ask(self, pods: Collection[str]) -> PodResourcesAnswers:
        """Ask List, GetAllocatableResources, and Get of some pods; return nothing where no kubelet answers."""
        kept = self._connection
        try:
            if kept is not None and kept.is_usable:
                return await _ask(kept, pods)
        except RpcError:
            if kept is not None and kept.is_usable:
                return PodResourcesAnswers()
        # The kubelet of the last time has gone, and there may be another.
        self.close()
        self._connection = ClientConnection(self._socket)
        try:
            await self._connection.open()
            return await _ask(self._connection, pods)
        except RpcError:
            return PodResourcesAnswers()

    def close(self) -> None:
        """End the connection; may be called twice."""
        if self._connection is not None:
            self._connection.close()


async def _ask(connection: ClientConnection, pods: Collection[str]) -> PodResourcesAnswers:
    listed = await _call(connection, "List", ListPodResourcesRequest(), ListPodResourcesResponse)
    allocatable = await _call(
        connection, "GetAllocatableResources", AllocatableResourcesRequest(), AllocatableResourcesResponse
    )
    return answers_of(listed, allocatable, {pod: await _get(connection, pod) for pod in pods})


async def _get(connection: ClientConnection, pod: str) -> GetPodResourcesResponse | str:
    """Return what Get answers, or the text with which it is refused."""
    request = GetPodResourcesRequest(pod_name=pod, pod_namespace=NAMESPACE)
    try:
        return await _call(connection, "Get", request, GetPodResourcesResponse)
    except RpcError as error:
        return error.text


async def _call(connection: ClientConnection, method: str, request: Message, answer: type[M]) -> M:
    received = await connection.call(f"{_SERVICE}/{method}", request.SerializeToString(), _LIMIT_S)
    return answer.FromString(received)


def answers_of(
    listed: ListPodResourcesResponse,
    allocatable: AllocatableResourcesResponse,
    got: Mapping[str, GetPodResourcesResponse | str],
) -> PodResourcesAnswers:
    """The answers to a List, a GetAllocatableResources and some Gets; of a Get that failed the text of the error."""
    return PodResourcesAnswers(
        {_key(pod): _containers(pod) for pod in listed.pod_resources},
        _placed(allocatable.devices),
        {
            pod: answer if isinstance(answer, str) else together(_containers(answer.pod_resources).values())
            for pod, answer in got.items()
        },
    )


def _key(pod: PodResources) -> str:
    return pod.name if pod.namespace == NAMESPACE else f"{pod.namespace}/{pod.name}"


def _containers(pod: PodResources) -> dict[str, PlacedIds]:
    return {container.name: _placed(container.devices) for container in pod.containers}


def _placed(entries: Iterable[ContainerDevices]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Devices with their NUMA nodes; the kubelet names a device once for each."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for entry in entries:
        devices = found.setdefault(entry.resource_name, {})
        for device in entry.device_ids:
            nodes = {*devices.get(device, ()), *(node.ID for node in entry.topology.nodes)}
            devices[device] = tuple(sorted(nodes))
    return found
