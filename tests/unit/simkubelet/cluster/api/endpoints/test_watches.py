"""Watches over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

import aiohttp
import kubernetes
import pytest
from faker import Faker
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from simkubelet.cluster.api.decoding.decoding import PROTOBUF
from simkubelet.cluster.api.endpoints.selectors import Selection
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.endpoints.views import Events, View
from simkubelet.cluster.api.endpoints.watches import BOOKMARK, Watches, WatchOptions
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.objects.objects import JSON, Key, Objects, WallTime, Written
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DEFAULT, version
from tests.support.patience import LIMIT_S, until

from ..conftest import CONFIG_MAPS, PODS, Client, config_map, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_watch_without_version_begins_with_what_is_there(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("there"))
    async with client.watch(CONFIG_MAPS) as watch:
        type_, obj = await watch.next()
    assert (type_, obj["kind"], obj["metadata"]["name"]) == ("ADDED", "ConfigMap", "there")


async def test_watch_from_a_list_shows_only_what_came_after(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("before"))
    listed = await client.get(CONFIG_MAPS)
    async with client.watch(CONFIG_MAPS, resourceVersion=listed.body["metadata"]["resourceVersion"]) as watch:
        await client.post(CONFIG_MAPS, config_map("after"))
        await client.send("DELETE", f"{CONFIG_MAPS}/before")
        events = [await watch.next() for _ in range(2)]
    assert [(type_, obj["metadata"]["name"]) for type_, obj in events] == [("ADDED", "after"), ("DELETED", "before")]


async def test_object_that_leaves_a_selection_is_deleted_with_its_last_state_within(client: Client) -> None:
    await client.post(PODS, pod("moving", labels={"app": "one"}))
    async with client.watch(PODS, labelSelector="app=one") as watch:
        await watch.next()
        path = f"{PODS}/moving"
        left = await client.patch(path, {"metadata": {"labels": {"app": "two"}}}, "merge-patch+json")
        await client.patch(path, {"metadata": {"labels": {"app": "one"}}}, "merge-patch+json")
        gone, back = await watch.next(), await watch.next()
    assert (gone[0], gone[1]["metadata"]["labels"]) == ("DELETED", {"app": "one"})
    assert gone[1]["metadata"]["resourceVersion"] == left.body["metadata"]["resourceVersion"]
    assert (back[0], back[1]["metadata"]["labels"]) == ("ADDED", {"app": "one"})


@pytest.mark.slow
async def test_version_that_is_forgotten_is_answered_with_an_expired_event(
    client: Client, objects: Objects, clock: ManualClock
) -> None:
    await forget(objects, clock)
    async with client.watch(CONFIG_MAPS, resourceVersion="3") as watch:
        ((type_, status),) = await watch.rest()
    assert (type_, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"] == f"too old resource version: 3 ({objects.oldest('configmaps')})"


@pytest.mark.slow
async def test_official_client_gets_410_for_a_version_that_is_forgotten(
    server: ApiServer, objects: Objects, clock: ManualClock
) -> None:
    await forget(objects, clock)
    configuration = kubernetes.client.Configuration(host=server.url)
    core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    events = kubernetes.watch.Watch().stream(core.list_namespaced_config_map, "default", resource_version="3")

    with pytest.raises(kubernetes.client.ApiException, match="too old resource version: 3") as refused:
        await asyncio.to_thread(next, events)

    assert refused.value.status == 410


async def test_initial_events_end_with_a_bookmark_that_says_so(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("there"))
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with client.watch(CONFIG_MAPS, **options) as watch:
        added, bookmark = await watch.next(), await watch.next()
    assert added[0] == "ADDED"
    assert bookmark[0] == "BOOKMARK"
    assert bookmark[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_need_a_version_match(client: Client) -> None:
    answer = await client.get(CONFIG_MAPS, params={"watch": "1", "sendInitialEvents": "true"})
    assert answer.code == 422
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in answer.body["message"]


async def test_one_bookmark_comes_two_seconds_before_a_watch_ends(objects: Objects) -> None:
    kind = kind_named("configmaps")
    obj = objects.create(Key("configmaps", "default", "a"), {})
    events = Watches(objects).watch(kind, Selection(kind, None), WatchOptions(bookmarks=True), 2.01)
    assert (await anext(events))[0] == "ADDED"

    type_, bookmark = await asyncio.wait_for(anext(events), LIMIT_S)
    awaited = asyncio.ensure_future(anext(events))
    objects.create(Key("configmaps", "default", "b"), {})

    assert (type_, bookmark["metadata"]) == (BOOKMARK, {"resourceVersion": obj["metadata"]["resourceVersion"]})
    assert (await awaited)[0] == "ADDED"


@pytest.mark.slow
async def test_watch_ends_at_its_timeout(client: Client) -> None:
    async with client.watch(CONFIG_MAPS, timeoutSeconds="1") as watch:
        assert await watch.rest() == []


async def test_stopping_server_ends_its_watches_and_leaves_nothing(server: ApiServer) -> None:
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession(server.url) as session:
        watches = [await session.get(PODS, params={"watch": "1"}) for _ in range(5)]
        await server.stop()
        assert [await watch.text() for watch in watches] == [""] * 5
    left = [task for task in asyncio.all_tasks() - before if "aiohttp" in repr(task)]
    assert left == []


async def test_watch_of_a_client_that_goes_away_is_freed(server: ApiServer) -> None:
    before = asyncio.all_tasks()
    async with aiohttp.ClientSession(server.url) as session:
        response = await session.get(PODS, params={"watch": "1"})
        assert asyncio.all_tasks() - before
        response.close()
    await until(lambda: not asyncio.all_tasks() - before)


@pytest.mark.slow
async def test_client_that_does_not_read_costs_no_memory(
    server: ApiServer, client: Client, objects: Objects, clock: ManualClock, faker: Faker
) -> None:
    async with client.watch(CONFIG_MAPS) as watch:
        text = faker.pystr(min_chars=20_000, max_chars=20_000)
        key = Key("configmaps", "default", "large")
        objects.create(key, {"data": {"text": ""}})
        for number in range(2500):
            objects.replace(key, {**objects.get(key), "data": {"text": f"{number} {text}"}})  # type: ignore[dict-item]
            if number % 50 == 0:
                await clock.advance(10)
        events = [await watch.next()]
        while events[-1][0] != "ERROR" and "2499 " not in events[-1][1].get("data", {}).get("text", ""):
            events.append(await watch.next())
    assert events[-1][1].get("reason") == "Expired"


async def test_waiting_watch_outlives_any_number_of_writes_to_others(objects: Objects, clock: ManualClock) -> None:
    kind = kind_named("configmaps")
    events = Watches(objects).watch(kind, Selection(kind, "other"), WatchOptions(since=objects.version), 60)
    awaited = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    await forget(objects, clock)
    assert not awaited.done()

    objects.create(Key("configmaps", "other", "a"), {})

    type_, obj = await awaited
    assert (type_, obj["metadata"]["namespace"]) == ("ADDED", "other")
    await events.aclose()


@pytest.mark.parametrize(
    ("namespace", "labels", "fields", "is_woken"),
    [
        ("default", "", "", True),
        ("other", "", "", False),
        (None, "", "metadata.name=c", True),
        (None, "", "metadata.name=d", False),
        (None, "", "metadata.name!=c", False),
        (None, "app=x", "", True),
        (None, "app=y", "", False),
    ],
)
async def test_write_wakes_the_watches_that_it_concerns(
    objects: Objects, namespace: str | None, labels: str, fields: str, is_woken: bool
) -> None:
    kind = kind_named("configmaps")
    selection = Selection(kind, namespace, labels, fields)
    events = Watches(objects).watch(kind, selection, WatchOptions(since=objects.version), 60)
    awaited = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    reads = count_reads(objects)

    objects.create(Key("configmaps", "default", "c"), {"metadata": {"labels": {"app": "x"}}})
    await asyncio.sleep(0)

    assert (awaited.done(), bool(reads)) == (is_woken, is_woken)
    awaited.cancel()
    with suppress(asyncio.CancelledError):
        await awaited
    await events.aclose()


def count_reads(objects: Objects) -> list[int]:
    """The versions from which the history is read from now on."""
    reads: list[int] = []
    since = objects.since

    def counted(version: int, kind: str) -> list[Written]:
        reads.append(version)
        return since(version, kind)

    objects.since = counted  # type: ignore[method-assign]
    return reads


async def test_write_at_the_moment_of_a_bookmark_is_seen(objects: Objects) -> None:
    kind = kind_named("configmaps")
    loop = asyncio.get_running_loop()
    events = Watches(objects).watch(kind, Selection(kind, None), WatchOptions(since=objects.version, bookmarks=True), 3)
    awaited = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    # The bookmark's timer has fired, the watch has not run yet.
    loop.call_at(loop.time() + 1, lambda: loop.call_soon(objects.create, Key("configmaps", "default", "a"), {}))

    found = [await awaited, await anext(events)]

    assert sorted(type_ for type_, _ in found) == ["ADDED", "BOOKMARK"]
    await events.aclose()


async def test_table_of_a_watch_has_its_columns_in_the_first_event_only(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("one"))
    await client.post(CONFIG_MAPS, config_map("two"))
    async with client.watch(CONFIG_MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json") as watch:
        tables = [(await watch.next())[1] for _ in range(2)]
    assert [table["kind"] for table in tables] == ["Table", "Table"]
    assert [table["columnDefinitions"] is None for table in tables] == [False, True]


Step = tuple[str, str, str]


@given(
    st.lists(st.tuples(st.sampled_from(["write", "remove"]), st.sampled_from("abc"), st.sampled_from(["x", "y"]))),
    st.integers(0, 30),
    st.sampled_from([(None, "app=x", ""), ("default", "", ""), (None, "", "metadata.name=a"), ("other", "", "")]),
    st.integers(1, 5),
)
async def test_list_and_watch_from_it_give_the_state(
    steps: list[Step], begin: int, selected: tuple[str | None, str, str], at_once: int
) -> None:
    objects = Objects(WallTime(ManualClock()))
    selection = Selection(kind_named("configmaps"), *selected)
    play(objects, steps[:begin])
    state = {obj["metadata"]["name"]: obj for obj in objects.all_of("configmaps") if selection.matches(obj)}
    options = WatchOptions(since=objects.version, send_initial_events=False)
    events = Watches(objects).watch(kind_named("configmaps"), selection, options, 60)
    reader = Reader(events)
    for at in range(begin, len(steps), at_once):
        await reader.read()
        play(objects, steps[at : at + at_once])
    await reader.read()
    expected = {obj["metadata"]["name"]: obj for obj in objects.all_of("configmaps") if selection.matches(obj)}
    for type_, obj in reader.found:
        name = obj["metadata"]["name"]
        if type_ == "DELETED":
            del state[name]
        else:
            assert (name in state) == (type_ == "MODIFIED")
            state[name] = obj
    assert state == expected
    await reader.close()


def play(objects: Objects, steps: Iterable[Step]) -> None:
    for verb, name, app in steps:
        key = Key("configmaps", "default", name)
        before = objects.get(key)
        if verb == "remove":
            if before is not None:
                objects.remove(key)
        elif before is None:
            objects.create(key, {"metadata": {"labels": {"app": app}}})
        else:
            objects.replace(key, {**before, "metadata": {**before["metadata"], "labels": {"app": app}}})


async def forget(objects: Objects, clock: ManualClock) -> None:
    """Write so much that what was written to ConfigMaps before is forgotten."""
    objects.create(Key("configmaps", "default", "old"), {})
    await clock.advance(76)
    for number in range(1100):
        objects.create(Key("configmaps", "default", f"c{number}"), {})


class Reader:
    """Reads a watch as far as it goes, and then waits with it."""

    def __init__(self, events: AsyncGenerator[tuple[str, JSON], None]) -> None:
        self.found: list[tuple[str, JSON]] = []
        self._events = events
        self._step = asyncio.ensure_future(anext(events))

    async def read(self) -> None:
        """Take the events that come without anything happening."""
        await self._let_it_run()
        while self._step.done():
            self.found.append(self._step.result())
            self._step = asyncio.ensure_future(anext(self._events))
            await self._let_it_run()

    async def close(self) -> None:
        self._step.cancel()
        with suppress(asyncio.CancelledError):
            await self._step
        await self._events.aclose()

    async def _let_it_run(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)


async def test_slow_reader_has_no_copy_of_a_large_event(server: ApiServer, objects: Objects, faker: Faker) -> None:
    url = URL(server.url)
    assert url.host
    # It takes next to nothing.
    _, writer = await asyncio.open_connection(url.host, url.port, limit=1024)
    writer.write(f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n\r\n".encode())
    connections = server._listener._connections._connections
    await until(lambda: len(connections) == 1)
    (connection,) = connections.values()
    for number in range(20):
        text = faker.pystr(min_chars=1 << 20, max_chars=1 << 20)
        objects.create(Key("configmaps", "default", f"large-{number}"), {"data": {"text": text}})
    transport = connection._transport
    assert isinstance(transport, asyncio.Transport)
    await until(lambda: transport.get_write_buffer_size() > 0)

    assert transport.get_write_buffer_size() < 256 * 1024
    writer.transport.abort()


def test_watches_share_the_bytes_of_an_event(objects: Objects) -> None:
    obj = objects.create(Key("configmaps", "default", "one"), {"data": {}})
    kind, events = kind_named("configmaps"), Events()
    views = [View(kind, accept, "", objects.wall_time, version(DEFAULT)) for accept in ("", "", PROTOBUF, TABLE)]

    first, second, protobuf, table = (events.encoded(view, "ADDED", obj) for view in views)
    modified = events.encoded(views[0], "MODIFIED", obj)

    assert first is second
    assert [one == view.encoded_event("ADDED", obj) for one, view in zip((first, protobuf), views[::2], strict=True)]
    assert len({first, protobuf, table, modified}) == 4


def test_bytes_of_old_events_are_forgotten(objects: Objects) -> None:
    view, events = View(kind_named("configmaps"), "", "", objects.wall_time, version(DEFAULT)), Events()
    text = "x" * (1 << 20)

    for number in range(20):
        events.encoded(view, "ADDED", {"metadata": {"name": str(number)}, "data": {"text": text}})

    assert events._bytes == sum(len(event) for _, event in events._latest.values()) < 5 << 20
