from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from simkubelet.model.clock import ManualClock
from simkubelet.model.pod import PodUID
from simkubelet.remote import ApiClient, ServerAccess, references
from simkubelet.remote.references import References
from tests.support.patience import until

JSON = dict[str, Any]
FILES = 40


class Server(ApiClient):
    """A server with every config map, whose value is how often it was read."""

    def __init__(self) -> None:
        super().__init__(ServerAccess("http://nowhere"))
        self.watches = self.lists = self.most_lists = 0
        self.reads: dict[str, int] = {}

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> JSON:
        self.lists += 1
        self.most_lists = max(self.lists, self.most_lists)
        # Others come meanwhile.
        await asyncio.sleep(0)
        self.lists -= 1
        assert query is not None
        name = query["fieldSelector"].removeprefix("metadata.name=")
        times = self.reads[name] = self.reads.get(name, 0) + 1
        found = {"metadata": {"name": name, "resourceVersion": "1"}, "data": {"times": str(times)}}
        return {"items": [found], "metadata": {"resourceVersion": "1"}}

    async def watch(self, path: str, query: Mapping[str, str], within_s: float) -> AsyncGenerator[JSON, None]:
        self.watches += 1
        try:
            await asyncio.get_running_loop().create_future()
            yield {}
        finally:
            self.watches -= 1


async def test_pod_with_many_references_takes_a_part_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (FILES, FILES))
    names = [f"settings-{number}" for number in range(100)]
    sources = [{"configMapRef": {"name": name}} for name in names]
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "main", "envFrom": sources}]}}
    server, clock, shown = Server(), ManualClock(), list[str]()

    async with asyncio.TaskGroup() as tasks:
        held = References(server, tasks, clock, lambda text: None)
        held.hold(PodUID("pod"), pod, lambda: shown.append("pod"))
        await until(lambda: shown == ["pod"])
        watched = server.watches

        await clock.advance(references._PERIOD_S)
        await until(lambda: sum(server.reads.values()) == len(names) + len(names) - watched)
        last = held.read("configmaps", "default", names[-1])
        held.release(PodUID("pod"))

    assert watched == FILES // 4
    assert server.most_lists == references._LISTS
    assert server.watches == 0
    assert last is not None
    assert last["data"] == {"times": "2"}
