"""What the dialects have in common: one resource of many small devices, and the API server at hand while it is served.

The kubelet's choice of devices says nothing but how many there are. Which GPU they are of is in the annotations of the
pod that is meant, and is found out when the kubelet asks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from simkubelet.apis import deviceplugin as api

from ..apiserver import ApiClient, ApiError, ServerAccess
from ..framework import Device, DeviceID, DeviceList, DevicePlugin, Health, ResourceName
from .api_objects import Node, Pod
from .gpus import Uuids

__all__ = ["Failures", "SharedGpuPlugin", "answers", "total"]


Failures: TypeAlias = Callable[[], AsyncGenerator[Uuids, None]]
"""Begins to watch GPUs; see `gpus.xid_failures`."""


class SharedGpuPlugin(DevicePlugin):
    """A resource of devices that are parts of GPUs; a dialect says how it allocates, and what at its start and end.

    Args:
        resource: Its name.
        socket_name: The plugin's socket.
        devices: Each device's id and the UUID of its GPU, with which it fails.
        failures: None where the health of GPUs does not count.
        access: To the API server.
        node_name: The plugin's own node, as the API server knows it.

    Attributes:
        api: The API server, inside `lifespan`.
        node: The plugin's own, inside `lifespan`.
        unhealthy: The UUIDs of the GPUs that have failed since the start.
    """

    api: ApiClient
    node: Node

    def __init__(
        self,
        resource: str,
        socket_name: str,
        devices: Iterable[tuple[str, str]],
        failures: Failures | None,
        access: ServerAccess,
        node_name: str,
    ) -> None:
        self.resource_name = ResourceName(resource)
        self.socket_name = socket_name
        self.unhealthy: set[str] = set()
        self._devices = tuple((DeviceID(device_id), gpu) for device_id, gpu in devices)
        self._failures = failures
        self._access = access
        self._node_name = node_name

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        """Hold a connection to the API server; see `begin` and `end`."""
        async with ApiClient(self._access) as self.api:
            self.node = Node(self.api, self._node_name)
            await self.begin()
            try:
                yield
            finally:
                await self.end()

    async def begin(self) -> None:
        """What is to be done before the plugin serves.

        Raises:
            StartError: It cannot be done now.
        """

    async def end(self) -> None:
        """What is to be done when the plugin has stopped to serve."""

    async def devices(self) -> AsyncGenerator[DeviceList, None]:
        """All devices, as soon as no failure can be missed any more, then again after each failure."""
        if self._failures is None:
            yield self.listed()
            return
        is_first = True
        async with aclosing(self._failures()) as failures:
            async for uuids in failures:
                news = uuids - self.unhealthy
                self.unhealthy |= uuids
                if uuids or is_first:
                    yield self.listed()
                if news:
                    await self.health_changed()
                elif not (uuids or is_first):
                    await self.all_quiet()
                is_first = False

    async def health_changed(self) -> None:
        """GPUs have failed that had not before."""

    async def all_quiet(self) -> None:
        """For a while no GPU has failed."""

    def listed(self) -> DeviceList:
        """The devices as they are now."""
        return tuple(
            Device(device_id, Health.UNHEALTHY if gpu in self.unhealthy else Health.HEALTHY)
            for device_id, gpu in self._devices
        )

    async def pending_pods(self) -> list[Pod]:
        """The pods that are bound to this node and do not run yet.

        Raises:
            ApiError: They could not be listed.
        """
        selector = f"spec.nodeName={self._node_name},status.phase=Pending"
        listed = await self.api.get("/api/v1/pods", fieldSelector=selector)
        return [Pod(body) for body in listed.get("items") or ()]

    async def replace(self, pod: Pod, annotations: dict[str, str]) -> ApiError | None:
        """Set annotations of a pod by a PUT of the pod as it is known here; the failure, if it fails."""
        metadata = pod.body["metadata"]
        merged = {**(metadata.get("annotations") or {}), **annotations}
        body = {"apiVersion": "v1", "kind": "Pod", **pod.body, "metadata": {**metadata, "annotations": merged}}
        try:
            await self.api.put(pod.path, body)
        except ApiError as error:
            return error
        return None


def total(requests: Sequence[Sequence[DeviceID]]) -> int:
    """How many devices the kubelet asks for."""
    return sum(len(device_ids) for device_ids in requests)


def answers(
    requests: Sequence[Sequence[DeviceID]], envs: dict[str, str], count: str, factor: int = 1
) -> list[api.ContainerAllocateResponse]:
    """An answer for each container: `envs`, and in the variable `count` how many of its devices there are."""
    return [
        api.ContainerAllocateResponse(envs={**envs, count: str(len(device_ids) * factor)}) for device_ids in requests
    ]
