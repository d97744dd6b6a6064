"""Watches of a cluster's API go on where the last one ended, so that nothing between two of them is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from scenarios.backends.kind.api import ClusterApi
from tests.support.patience import LIMIT_S


class ScriptedServer:
    """Answers each call with the next of its answers; a watch with none left lasts for ever."""

    def __init__(self, *watches: list[dict[str, Any]]) -> None:
        self.asked_from: list[str] = []
        self.lists = 0
        self._watches = list(watches)

    @contextlib.asynccontextmanager
    async def call_api(self, method: str, *, stream: bool = False, **options: Any) -> AsyncIterator[Any]:
        if not stream:
            self.lists += 1
        else:
            self.asked_from.append(options["params"]["resourceVersion"])
            if not self._watches:
                await asyncio.Event().wait()
        yield _Answer(self._watches.pop(0) if stream else [])


class _Answer:
    status_code = 200
    is_error = False

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events

    def json(self) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "5"}, "items": [pod("Running", "5")]}

    async def aiter_lines(self) -> AsyncIterator[str]:
        for event in self._events:
            yield json.dumps(event)


def pod(phase: str, version: str) -> dict[str, Any]:
    return {"metadata": {"uid": "u", "resourceVersion": version}, "status": {"phase": phase}}


async def watched(server: ScriptedServer, count: int) -> list[tuple[str, bool]]:
    """The first things that a watch tells: phase, and whether the pod is there."""
    told: list[tuple[str, bool]] = []
    all_told = asyncio.Event()

    def on_change(kind: str, item: Mapping[str, Any], is_there: bool) -> None:
        told.append((item["status"]["phase"], is_there))
        if len(told) == count:
            all_told.set()

    watching = asyncio.create_task(ClusterApi(server).watch("pod", on_change, "pods"))
    await asyncio.wait_for(all_told.wait(), LIMIT_S)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return told


async def test_a_watch_that_ends_is_taken_up_where_it_ended() -> None:
    server = ScriptedServer(
        [{"type": "MODIFIED", "object": pod("Running", "6")}],
        [{"type": "MODIFIED", "object": pod("Succeeded", "7")}, {"type": "DELETED", "object": pod("Succeeded", "8")}],
    )

    told = await watched(server, 4)

    assert told == [("Running", True), ("Running", True), ("Succeeded", True), ("Succeeded", False)]
    assert (server.asked_from[:2], server.lists) == (["5", "6"], 1)


async def test_a_version_that_is_too_old_is_listed_again() -> None:
    gone = {"type": "ERROR", "object": {"code": 410}}
    server = ScriptedServer([gone], [{"type": "MODIFIED", "object": pod("Failed", "6")}])

    assert await watched(server, 3) == [("Running", True), ("Running", True), ("Failed", True)]
    assert server.lists == 2
