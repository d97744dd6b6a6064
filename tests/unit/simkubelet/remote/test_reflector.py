from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from simkubelet.model.clock import ManualClock
from simkubelet.remote import ApiClient, ApiError, ServerAccess, reflector
from simkubelet.remote.reflector import Reflector
from tests.support.patience import LIMIT_S

JSON = dict[str, Any]


def item(name: str, version: int) -> JSON:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def event(type_: str, name: str, version: int) -> JSON:
    return {"type": type_, "object": item(name, version)}


class ScriptedClient(ApiClient):
    """A server that answers as a test says, and then never again.

    Attributes:
        asked: what it was asked: the version that a watch begins at, or "list".
    """

    def __init__(self, *answers: JSON | Sequence[JSON] | ApiError) -> None:
        super().__init__(ServerAccess("http://nowhere"))
        self.asked: list[str] = []
        self.is_silent = asyncio.Event()
        self._answers = list(answers)

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> JSON:
        self.asked.append((query or {}).get("continue", "list"))
        answer = await self._next()
        assert isinstance(answer, dict)
        return answer

    async def watch(self, path: str, query: Mapping[str, str], within_s: float) -> AsyncGenerator[JSON, None]:
        self.asked.append(query["resourceVersion"])
        for one in await self._next():
            yield one

    async def _next(self) -> Any:
        if not self._answers:
            self.is_silent.set()
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


class Followed:
    """What a follower has."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.lists = 0

    def replaced(self, items: Sequence[JSON]) -> bool:
        self.lists += 1
        self.names = [name for one in items if (name := one["metadata"]["name"]) != "odd"]
        return len(self.names) == len(items)

    def changed(self, item: JSON) -> bool:
        if item["metadata"]["name"] not in self.names:
            self.names.append(item["metadata"]["name"])
        return item["metadata"]["name"] != "odd"

    def deleted(self, item: JSON) -> None:
        self.names.remove(item["metadata"]["name"])


async def follow(*answers: JSON | Sequence[JSON] | ApiError) -> tuple[ScriptedClient, Followed, list[str]]:
    """Follow until the script is over, with all pauses passing at once."""
    client, followed, complaints, clock = ScriptedClient(*answers), Followed(), list[str](), ManualClock()
    following = Reflector(client, "/api/v1/pods", {}, followed, clock, complaints.append)
    running = asyncio.create_task(following.run())
    async with asyncio.timeout(LIMIT_S):
        while not client.is_silent.is_set():
            await clock.advance(60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return client, followed, complaints


def listed(version: int, *names: str, more: str = "") -> JSON:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"metadata": metadata, "items": [item(name, version) for name in names]}


GONE = ApiError(410, "Expired", "too old resource version")
AWAY = ApiError(0, "Unreachable", "connection refused")


async def test_next_watch_continues_after_the_last_event() -> None:
    client, followed, _ = await follow(listed(5, "a"), [event("ADDED", "b", 7)], [event("DELETED", "a", 9)])

    assert client.asked == ["list", "5", "7", "9"]
    assert followed.names == ["b"]


async def test_next_watch_continues_after_a_bookmark() -> None:
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    client, followed, _ = await follow(listed(5, "a"), [bookmark])

    assert client.asked == ["list", "5", "40"]
    assert followed.names == ["a"]


async def test_list_comes_in_pages_at_once() -> None:
    client, followed, _ = await follow(listed(5, "a", more="token"), listed(5, "b"))

    assert client.asked == ["list", "token", "5"]
    assert (followed.names, followed.lists) == (["a", "b"], 1)


@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(GONE, id="refused"),
        pytest.param([{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}], id="within the watch"),
    ],
)
async def test_forgotten_version_is_listed_again(forgotten: ApiError | Sequence[JSON]) -> None:
    client, followed, complaints = await follow(listed(5, "a"), forgotten, listed(90, "b"))

    assert client.asked == ["list", "5", "list", "90"]
    assert followed.names == ["b"]
    assert complaints == []


async def test_lost_server_is_asked_for_what_came_meanwhile() -> None:
    client, followed, complaints = await follow(listed(5, "a"), AWAY, AWAY, [event("ADDED", "b", 8)])

    assert client.asked == ["list", "5", "5", "5", "8"]
    assert (followed.names, followed.lists, complaints) == (["a", "b"], 1, [])


async def test_refusal_is_complained_of_once() -> None:
    refusal = ApiError(403, "Forbidden", "pods is forbidden")
    _, followed, complaints = await follow(refusal, refusal, listed(5, "a"))

    assert (followed.names, complaints) == (["a"], ["pods is forbidden"])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"metadata": [], "items": []}, id="metadata that is a list"),
        pytest.param({"metadata": {"resourceVersion": 5}, "items": []}, id="version that is a number"),
        pytest.param({"items": []}, id="no version"),
        pytest.param({**listed(5), "items": 5}, id="items that are a number"),
        pytest.param({**listed(5), "items": [None]}, id="item that is null"),
        pytest.param({**listed(5), "items": [{"metadata": {}}]}, id="item without a name"),
    ],
)
async def test_answer_that_is_no_list_is_complained_of_and_asked_for_again(answer: JSON) -> None:
    client, followed, complaints = await follow(answer, answer, listed(6, "a"))

    assert (client.asked, followed.names, len(complaints)) == (["list", "list", "list", "6"], ["a"], 1)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({}, id="empty"),
        pytest.param({"type": 5, "object": item("b", 6)}, id="type that is a number"),
        pytest.param({"type": "ADDED", "object": None}, id="no object"),
        pytest.param({"type": "ADDED", "object": {}}, id="object without metadata"),
        pytest.param({"type": "BOOKMARK", "object": {"metadata": None}}, id="bookmark without metadata"),
        pytest.param({"type": "ADDED", "object": {"metadata": {"resourceVersion": [6]}}}, id="version that is a list"),
        pytest.param({"type": "ERROR", "object": "gone"}, id="error that is a text"),
    ],
)
async def test_list_is_read_again_after_an_event_that_no_server_sends(odd: JSON) -> None:
    lists = [listed(5, "a"), listed(6, "a"), listed(7, "a")]
    client, followed, complaints = await follow(lists[0], [odd], lists[1], [odd], lists[2], [event("ADDED", "c", 8)])

    assert (client.asked, followed.names) == (["list", "5", "list", "6", "list", "7", "8"], ["a", "c"])
    assert len(complaints) == 1


async def test_list_is_read_again_after_an_object_that_cannot_be_taken() -> None:
    client, followed, complaints = await follow(listed(5, "a"), [event("ADDED", "odd", 6)], listed(7, "b"), [])

    assert (client.asked, followed.names, complaints) == (["list", "5", "list", "7", "7"], ["b"], [])


async def test_list_with_an_object_that_cannot_be_taken_is_read_again_after_a_watch() -> None:
    events = [event("ADDED", "c", 6)]
    client, followed, _ = await follow(listed(5, "a", "odd"), events, listed(7, "a", "b"), [])

    assert (client.asked, followed.names, followed.lists) == (["list", "5", "list", "7", "7"], ["a", "b"], 2)


async def test_list_without_an_end_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_MOST_PAGES", 3)
    client, followed, complaints = await follow(*[listed(5, "a", more="token")] * 3, listed(6, "b"))

    assert (client.asked, followed.names) == (["list", "token", "token", "list", "6"], ["b"])
    assert complaints == ["a list of /api/v1/pods has more than 3 pages"]
