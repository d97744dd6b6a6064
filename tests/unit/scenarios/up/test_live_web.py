"""The server of a live page: who is answered, what a stream sends, and which steps the buttons send."""

from __future__ import annotations

import asyncio
import html
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession

from scenarios.story.specs import GpuSpec, NodeSpec, PluginSpec
from scenarios.trace.trace import Broadcast
from scenarios.up import web
from scenarios.up.buttons import Button, groups, live_page
from scenarios.up.controls import live_action
from scenarios.up.web import MOST_STREAMS, LivePage
from simkubelet.model.errors import HostError, InputError, PluginError
from simkubelet.model.events import KubeletStarted, PodStatusUpdated
from tests.support.obeyed import is_harmless

ERRORS = {
    "input": InputError("no node 'x'"),
    "plugin": PluginError("no GPU is free"),
    "host": HostError("no disk"),
    "odd": InputError("no node '\u202e\x9b\udc80'"),
}


class World:
    """A page that is served, and a client of it."""

    def __init__(self, client: ClientSession, address: str, record: Broadcast) -> None:
        self.client = client
        self.address = address
        self.record = record

    @property
    def root(self) -> str:
        return self.address.rsplit("/", 2)[0]

    async def ask(self, path: str = "", method: str = "GET", **more: Any) -> tuple[int, str]:
        async with self.client.request(method, self.address + path, **more) as response:
            return response.status, await response.text()

    async def step(self, step: object) -> tuple[int, str]:
        return await self.ask("steps", "POST", json=step)


async def perform(step: Any) -> str:
    if isinstance(step, str):
        raise ERRORS[step]
    return f"did {json.dumps(step)}"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    record = Broadcast()
    page = LivePage("cluster 'c'", "<title>c</title>", perform)
    record.follow(page.take)
    async with page.serving(0) as address, ClientSession() as client:
        yield World(client, address, record)


@asynccontextmanager
async def stream(world: World) -> AsyncIterator[ClientResponse]:
    async with world.client.get(world.address + "events") as response:
        yield response


async def next_data(response: ClientResponse) -> Any:
    while True:
        line = (await response.content.readuntil(b"\n\n")).decode()
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))


async def test_address_with_the_token_is_the_page(world: World) -> None:
    assert await world.ask() == (200, "<title>c</title>")
    assert await world.step({"stopKubelet": {}}) == (200, 'did {"stopKubelet": {}}\n')


@pytest.mark.parametrize(
    "path",
    ["/", "/events", "/steps", "/{short}/", "/{token}x/events", "/%FF%FE/", "/?token={token}", "//{token}/"],
    ids=["none", "events", "steps", "short", "long", "no text", "in the query", "second"],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_request_without_the_token_is_refused(world: World, path: str, method: str) -> None:
    token = world.address.rsplit("/", 2)[1]
    asked = world.root + path.format(token=token, short=token[:-1])

    async with world.client.request(method, asked) as response:
        assert (response.status, "simkubelet up --web" in await response.text()) == (403, True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "localhost.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
    ],
    ids=lambda headers: " ".join(next(iter(headers.items()))),
)
@pytest.mark.parametrize(("path", "method"), [("", "GET"), ("events", "GET"), ("steps", "POST")])
async def test_foreign_page_is_refused(world: World, headers: dict[str, str], path: str, method: str) -> None:
    assert (await world.ask(path, method, headers=headers, data=b"{}"))[0] == 403


async def test_own_page_is_answered_by_both_names(world: World) -> None:
    port = world.root.rpartition(":")[2]
    for name in ("localhost", "127.0.0.1"):
        headers = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}"}
        assert (await world.ask(headers=headers))[0] == 200


async def test_page_gets_no_control_characters(world: World) -> None:
    odd = "\x1b[2J\u202e\x9b\udc80\u2028"
    async with stream(world) as response:
        world.record.append(PodStatusUpdated(odd, odd, odd, odd))
        while not (shown := await next_data(response))["moments"]:
            pass

    assert is_harmless(json.dumps(shown, ensure_ascii=False))
    assert await world.step("odd") == (400, r"no node '\u202e\x9b\udc80'" + "\n")


async def test_each_server_has_a_token_of_its_own(world: World) -> None:
    async with LivePage("other", "", perform).serving(0) as other:
        assert other.rsplit("/", 2)[1] != world.address.rsplit("/", 2)[1]
        assert len(other.rsplit("/", 2)[1]) >= 40


@pytest.mark.parametrize(
    ("kind", "status"), [("input", 400), ("plugin", 409), ("host", 500)], ids=["input", "plugin", "host"]
)
async def test_refused_step_says_why(world: World, kind: str, status: int) -> None:
    assert await world.step(kind) == (status, f"{ERRORS[kind]}\n")


async def test_what_is_no_step_is_refused(world: World) -> None:
    json_type = {"Content-Type": "application/json"}
    assert (await world.ask("steps", "POST", data=b"{", headers=json_type))[0] == 400
    assert (await world.ask("steps", "POST", data=b"\xff", headers=json_type))[0] == 400
    assert (await world.ask("steps", "POST", data=b"[" * 16_000, headers=json_type))[0] == 400
    assert (await world.ask("steps", "POST", data=b"{}"))[0] == 415
    assert (await world.ask("steps", "POST", data=b"1" * 20_000, headers=json_type))[0] == 413
    assert (await world.ask("steps"))[0] == 404
    assert (await world.ask("other"))[0] == 404


async def test_stream_sends_the_whole_timeline_after_each_change(world: World) -> None:
    world.record.append(KubeletStarted("node-1", "v1.34.4"))
    async with stream(world) as events:
        assert len((await next_data(events))["moments"]) == 1

        for number in range(web.MOST_MESSAGES + 10):
            world.record.append(PodStatusUpdated("pod", "Running", "", f"number {number}"))

        data = await next_data(events)
        assert (len(data["moments"]), data["leftOut"]) == (web.MOST_MESSAGES, 11)
        assert data["lasting"][0][:2] == [[lane[2] for lane in data["lanes"]].index("kubelet on node-1"), "state"]


async def test_quiet_stream_shows_that_it_is_alive(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_IDLE_S", 0.01)
    async with stream(world) as events:
        await next_data(events)
        assert await events.content.readuntil(b"\n\n") == b":\n\n"


async def test_streams_are_limited_and_closed_ones_make_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "_IDLE_S", 0.01)
    open_ones = [await world.client.get(world.address + "events") for _ in range(MOST_STREAMS)]
    assert (await world.ask("events"))[0] == 503

    for one in open_ones:
        one.close()

    while True:
        async with stream(world) as events:
            if events.status == 200:
                break


async def test_port_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--web {port}: cannot be used: .*; choose another port"):
            async with LivePage("c", "", perform).serving(port):
                pass


async def test_server_ends_with_its_streams_and_steps() -> None:
    begun = asyncio.Event()

    async def slow(step: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with ClientSession() as client:
        async with LivePage("c", "", slow).serving(0) as address:
            events = await client.get(address + "events")
            step = asyncio.ensure_future(client.post(address + "steps", json={}))
            await begun.wait()
        await asyncio.wait([step])
        with pytest.raises(OSError, match=r"."):
            await client.get(address)
        events.close()


def all_buttons() -> list[Button]:
    return [button for group in groups(2, ["nvidia"]) for button in group.buttons]


@pytest.mark.parametrize("button", all_buttons(), ids=lambda button: f"{button.label} {button.verb}")
def test_button_is_a_step_for_a_live_cluster(button: Button) -> None:
    values = {"gpu": {"free": True}, "xid": 79, "plugin": "nvidia"}
    given = {"node": "node-1", **button.given, **{name: values[name] for name in button.fields}}

    assert live_action({button.verb: given}).verb == button.verb


def test_page_has_only_buttons_for_what_the_nodes_have() -> None:
    bare = live_page("c", [NodeSpec(name="node-1")], [])
    node, plugin = NodeSpec(name="n", gpus=GpuSpec(profile="t4", count=2)), PluginSpec(name="p", builtin="nvidia")
    full = live_page("c", [node], [plugin])

    def verbs(page: str) -> set[str]:
        return set(re.findall(r'data-verb="(\w+)"', page))

    assert verbs(full) == {button.verb for button in all_buttons()}
    assert not any("Plugin" in verb or "Nvml" in verb or verb in ("fail", "heal") for verb in verbs(bare))
    given = [json.loads(html.unescape(text)) for text in re.findall(r'data-given="([^"]*)"', full)]
    assert {"to": "corrupt"} in given


def test_page_names_nothing_outside_itself() -> None:
    page = live_page("c", [NodeSpec(name="node-1")], [])

    assert re.findall(r"(?:src|href)=|url\(|@import|https?://(?!www\.w3\.org)", page) == []
    assert "default-src 'none'; base-uri 'none'; form-action 'none'" in page


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ([], "no step: expected a mapping"),
        ({"explode": {}}, "no step: explode: unknown key"),
        ({"fail": {"gpu": 0}}, "no step: fail: says nothing about the fault"),
        ({"advance": "10s"}, "'advance' cannot be done to a running cluster"),
        ({"runCommand": {"command": ["true"]}}, "'runCommand' cannot be done to a running cluster"),
        ({"createFile": {"path": "/etc/x"}}, "'createFile' cannot be done to a running cluster"),
    ],
    ids=["list", "unknown", "incomplete", "time", "command", "file"],
)
def test_what_is_no_step_for_a_live_cluster_is_refused(step: object, complaint: str) -> None:
    with pytest.raises(InputError, match=re.escape(complaint)):
        live_action(step)
