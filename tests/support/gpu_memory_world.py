"""A cluster of one node behind a real API server, for plugins that share GPUs by annotations of pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plugin.apiserver import JSON, ApiClient, ApiError, ServerAccess
from plugin.framework import DeviceID
from plugin.gpumemory.shared_gpu import SharedGpuPlugin
from simkubelet.cluster import Objects, WallTime
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.clock import ManualClock
from tests.support.patience import LIMIT_S

NODE = "/api/v1/nodes/node-1"
PODS = "/api/v1/namespaces/default/pods"


class NoLogs:
    """No container has written anything."""

    async def read(self, *_: Any) -> AsyncGenerator[bytes, None]:
        return
        yield


class World:
    """A cluster of one node.

    `failures` are (method, part of the path, how many calls it concerns, status, text); the calls of a plugin that fit
    fail so, in this order. `calls` are all that a plugin made, with method and path.
    """

    def __init__(self, client: ApiClient, access: ServerAccess, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.access = access
        self._monkeypatch = monkeypatch
        self._called = asyncio.Event()
        self._answered: set[tuple[str, str]] = set()
        self.failures: list[tuple[str, str, int, int | None, str]] = []
        self.calls: list[tuple[str, str]] = []

    async def add_pod(
        self,
        name: str,
        limits: Mapping[str, int] | list[Mapping[str, int]],
        annotations: Mapping[str, str] | None = None,
        *,
        node: str = "node-1",
        phase: str = "Pending",
        env: Mapping[str, str] | None = None,
    ) -> None:
        """A pod with a container for each entry of `limits`."""
        each = limits if isinstance(limits, list) else [limits]
        containers = [
            {
                "name": f"c{number}",
                "image": "i",
                "resources": {"limits": {resource: str(amount) for resource, amount in one.items()}},
                "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
            }
            for number, one in enumerate(each)
        ]
        metadata = {"name": name, "annotations": dict(annotations or {})}
        spec = {"containers": containers, **({"nodeName": node} if node else {})}
        await self.client._call("POST", PODS, body={"metadata": metadata, "spec": spec})
        if phase != "Pending":
            await self.client.patch(f"{PODS}/{name}/status", {"status": {"phase": phase}})

    async def annotations(self, name: str) -> dict[str, str]:
        """Of a pod."""
        return dict((await self.client.get(f"{PODS}/{name}"))["metadata"].get("annotations") or {})

    async def node_annotations(self) -> dict[str, str]:
        return dict((await self.client.get(NODE))["metadata"].get("annotations") or {})

    async def capacity(self) -> dict[str, str]:
        """The node's extended resources."""
        status = (await self.client.get(NODE))["status"]
        assert {key: value for key, value in status["allocatable"].items() if "/" in key} == {
            key: value for key, value in status["capacity"].items() if "/" in key
        }
        return {key: value for key, value in status["capacity"].items() if "/" in key}

    async def change_node(self, **metadata: Any) -> None:
        await self.client.patch(NODE, {"metadata": metadata})

    def environment(self, folder: Path) -> dict[str, str]:
        """What a plugin's process needs to come in; a kubeconfig is written into the folder."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.access.url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "current-context": "c",
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return {"KUBECONFIG": str(path), "NODE_NAME": "node-1"}

    async def until_called(self, method: str, path: str) -> None:
        """Wait for the answer to a call of a plugin."""
        async with asyncio.timeout(LIMIT_S):
            while (method, path) not in self._answered:
                self._called.clear()
                await self._called.wait()

    @asynccontextmanager
    async def living(self, plugin: SharedGpuPlugin) -> AsyncIterator[None]:
        """A plugin inside its lifespan, whose calls are recorded and may fail."""
        call = ApiClient._call

        async def troubled(client: ApiClient, method: str, path: str, **options: Any) -> JSON:
            if client is self.client:
                return await call(client, method, path, **options)
            self.calls.append((method, path))
            for number, (verb, part, times, status, text) in enumerate(self.failures):
                if verb == method and part in path:
                    self.failures[number] = (verb, part, times - 1, status, text)
                    self.failures = [failure for failure in self.failures if failure[2]]
                    raise ApiError(text, status)
            answer = await call(client, method, path, **options)
            self._answered.add((method, path))
            self._called.set()
            return answer

        with self._monkeypatch.context() as patched:
            patched.setattr(ApiClient, "_call", troubled)
            async with plugin.lifespan():
                yield


@asynccontextmanager
async def gpu_memory_world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The world of one test."""
    objects = Objects(WallTime(ManualClock()))
    server = ApiServer(objects, all_strategies(objects), logs=NoLogs(), plain=True)
    NamespaceController(server.registry, "").ensure_namespaces()
    await server.start()
    access = ServerAccess(server.url)
    try:
        async with ApiClient(access) as client:
            await client._call("POST", "/api/v1/nodes", body={"metadata": {"name": "node-1"}})
            amounts = {"cpu": "4", "pods": "110"}
            await client.patch(f"{NODE}/status", {"status": {"capacity": amounts, "allocatable": amounts}})
            yield World(client, access, monkeypatch)
    finally:
        await server.stop()


def ids(*counts: int) -> list[list[DeviceID]]:
    """What the kubelet asks for: a container for each number."""
    return [[DeviceID(f"any-{number}") for number in range(count)] for count in counts]
