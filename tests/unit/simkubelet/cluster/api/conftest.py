"""An API server of each test's own, without TLS, and a client to it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from simkubelet.cluster.api.endpoints.request import LogOptions
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.registry.registry import Registry
from simkubelet.cluster.api.registry.strategy import Strategy, keep_status
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.cluster.strategies.table import basic_strategies
from simkubelet.model.clock import ManualClock
from tests.support.patience import LIMIT_S

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


class WithStatus(Strategy):
    """The rules of a kind whose status is written at ``/status`` and nowhere else, and whose spec has a generation."""

    def prepare_for_create(self, new: JSON) -> None:
        new.pop("status", None)
        new["metadata"]["generation"] = 1

    def prepare_for_update(self, new: JSON, old: JSON) -> None:
        keep_status(new, old)
        changed = new.get("spec") != old.get("spec")
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + changed


class GracefulPods(WithStatus):
    """Pods that take the grace that is asked for."""

    def grace_s(self, obj: JSON, requested: int | None) -> int | None:
        return 30 if requested is None else requested


class ScriptedLogs:
    """Logs that say what was asked, and go on until `more` is filled when they are followed."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, LogOptions]] = []
        self.more: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self, pod: JSON, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        self.asked.append((container, options))
        yield b"first line\n"
        while options.follow:
            yield await self.more.get()


@dataclass
class Answer:
    """What a server answered."""

    code: int
    body: Any
    headers: Mapping[str, str]


class Client:
    """Speaks to a server as a client library does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        data = body if body is None or isinstance(body, bytes | io.BytesIO) else json.dumps(body)
        headers = {"Content-Type": options.pop("type_", "application/json"), **options.pop("headers", {})}
        async with self._session.request(method, path, data=data, headers=headers, **options) as response:
            content = await response.read()
            match response.content_type:
                case "application/json":
                    return Answer(response.status, json.loads(content), response.headers)
                case "application/vnd.kubernetes.protobuf":
                    return Answer(response.status, content, response.headers)
                case _:
                    return Answer(response.status, content.decode(), response.headers)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.send("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.send("POST", path, body, **options)

    async def patch(self, path: str, body: Any, kind: str, **options: Any) -> Answer:
        return await self.send("PATCH", path, body, type_=f"application/{kind}", **options)

    @asynccontextmanager
    async def watch(self, path: str, accept: str = "*/*", **query: str) -> AsyncIterator[Watch]:
        async with self.stream(path, accept, watch="1", **query) as response:
            yield Watch(response)

    @asynccontextmanager
    async def stream(self, path: str, accept: str = "*/*", **query: str) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.get(path, params=query, headers={"Accept": accept}) as response:
            assert response.status == 200
            yield response


class Watch:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self) -> tuple[str, Any]:
        """The next event; fails when none comes."""
        line = await asyncio.wait_for(self.response.content.readline(), LIMIT_S)
        event = json.loads(line)
        return event["type"], event["object"]

    async def rest(self) -> list[tuple[str, Any]]:
        """All events until the end."""
        text = await asyncio.wait_for(self.response.text(), LIMIT_S)
        return [(event["type"], event["object"]) for event in map(json.loads, text.splitlines())]


def pod(name: str, **fields: Any) -> JSON:
    """A manifest; fields are those of the metadata."""
    containers = [{"name": "main", "image": "example"}]
    return {"metadata": {"name": name, **fields}, "spec": {"containers": containers}}


def config_map(name: str, **data: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def objects(clock: ManualClock) -> Objects:
    """The objects of a cluster whose clock begins with a whole second."""
    return Objects(WallTime(clock, datetime(2026, 1, 1, tzinfo=UTC)))


@pytest.fixture
def rules() -> Mapping[str, Strategy]:
    return {**basic_strategies(), "pods": GracefulPods(), "nodes": WithStatus()}


@pytest.fixture
def registry(objects: Objects, rules: Mapping[str, Strategy]) -> Registry:
    registry = Registry(objects, rules)
    NamespaceController(registry).ensure_namespaces()
    return registry


@pytest.fixture
def logs() -> ScriptedLogs:
    return ScriptedLogs()


@pytest.fixture
async def server(objects: Objects, rules: Mapping[str, Strategy], logs: ScriptedLogs) -> AsyncIterator[ApiServer]:
    server = ApiServer(objects, rules, logs=logs, plain=True)
    NamespaceController(server.registry).ensure_namespaces()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(server.url) as session:
        yield Client(session)
