"""Requests that are large, deep, slow or without sense: each has one clear answer, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from simkubelet._internal import http_listener
from simkubelet.cluster.api.endpoints import selectors, writing
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.errors import FieldError
from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.objects.objects import JSON, Key, Objects
from simkubelet.cluster.strategies.table import all_strategies
from tests.support.patience import LIMIT_S

from ..conftest import CONFIG_MAPS, Client, ScriptedLogs, config_map

DEPTHS = (150, 190, 400, 900, 5_000)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def nested(depth: int, begin: str, end: str) -> str:
    return f"{begin * depth}1{end * depth}"


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]")], ids=["objects", "lists"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("merge-patch+json", '{"metadata": {"managedFields": [{"fieldsV1": %s}]}}'),
        ("merge-patch+json", '{"data": {"a": %s}}'),
        ("strategic-merge-patch+json", '{"other": %s}'),
        ("strategic-merge-patch+json", '{"metadata": {"managedFields": [{"fieldsV1": %s}]}}'),
        ("json-patch+json", '[{"op": "add", "path": "/other", "value": %s}]'),
        ("apply-patch+yaml", '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "other": %s}'),
    ],
)
async def test_deep_patch_is_taken_or_refused_in_words(
    client: Client, kind: str, body: str, begin: str, end: str, depth: int
) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))

    patch = (body % nested(depth, begin, end)).encode()
    answer = await client.patch(f"{CONFIG_MAPS}/c", patch, kind, params={"fieldManager": "me"})

    assert isinstance(answer.body, dict)
    if depth > 200:
        assert (answer.code, "exceeded max depth" in answer.body["message"]) == (400, True)


async def test_patch_that_makes_an_object_deep_is_refused(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    deepened = [{"op": "move", "from": "/x", "path": "/y"}, {"op": "add", "path": "/x", "value": {}}]
    deepened.append({"op": "move", "from": "/y", "path": "/x/y"})
    patch = [{"op": "add", "path": "/x", "value": {}}, *deepened * 400]

    answer = await client.patch(f"{CONFIG_MAPS}/c", patch, "json-patch+json")

    assert answer.code == 422


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "copy", "from": "/x", "path": "/x/y"}] * 300, id="a copy in itself"),
        pytest.param([{"op": "add", "path": "/x" + "/y" * n, "value": {}} for n in range(1, 300)], id="one by one"),
        pytest.param([{"op": "add", "path": 5, "value": {}}], id="number as a path"),
        pytest.param([{"op": "copy", "from": ["x"], "path": "/y"}], id="list as a path"),
        pytest.param([{"op": ["add"], "path": "/y", "value": 1}], id="list as an operation"),
        pytest.param([[]], id="list"),
        pytest.param([None], id="null"),
    ],
)
async def test_operations_that_make_no_object_are_refused(client: Client, operations: list[object]) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))

    patch = [{"op": "add", "path": "/x", "value": {}}, *operations]
    answer = await client.patch(f"{CONFIG_MAPS}/c", patch, "json-patch+json")

    assert answer.code == 422


async def test_json_patch_has_at_most_ten_thousand_operations(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    operation = {"op": "add", "path": "/data", "value": {}}

    taken = await client.patch(f"{CONFIG_MAPS}/c", [operation] * 10_000, "json-patch+json")
    refused = await client.patch(f"{CONFIG_MAPS}/c", [operation] * 10_001, "json-patch+json")

    assert (taken.code, refused.code, refused.body["reason"]) == (200, 413, "RequestEntityTooLarge")
    assert refused.body["message"] == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


async def test_copies_of_a_json_patch_are_limited(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c", a="x" * 1_000))
    copies = [{"op": "copy", "from": "/data", "path": f"/data/copy{n}"} for n in range(40)]

    assert (await client.patch(f"{CONFIG_MAPS}/c", copies, "json-patch+json")).code == 422


@pytest.mark.parametrize(
    "text",
    ["[1]", '"x"', '{"apiVersion": "v1", "metadata": 5, "data": []}', nested(900, "[", "]"), "1" * 5_000, "{"],
    ids=["list", "text", "types", "deep", "long number", "no JSON"],
)
async def test_last_applied_of_any_text_takes_over_nothing(client: Client, text: str) -> None:
    made = config_map("c", a="1")
    made["metadata"]["annotations"] = {LAST_APPLIED: text}
    await client.post(CONFIG_MAPS, made)

    applied = config_map("c", a="2")
    answer = await client.patch(f"{CONFIG_MAPS}/c", applied, "apply-patch+yaml", params={"fieldManager": "kubectl"})

    assert (answer.code, answer.body["reason"]) == (409, "Conflict")


async def test_warnings_about_many_fields_are_truncated(client: Client) -> None:
    body: JSON = {**config_map("c"), **{f"field{n}{'x' * 300}": 1 for n in range(1_000)}}

    answer = await client.post(CONFIG_MAPS, body)

    warnings = answer.headers.getall("Warning")  # type: ignore[attr-defined]
    assert answer.code == 201
    assert len(warnings) == 16
    assert {len(warning) for warning in warnings} == {len('299 - ""') + 256 + len("\\")}


@pytest.mark.parametrize("separator", [";a=b", ';a="', "; ", ";a*0=b"])
@pytest.mark.parametrize("verb", ["POST", "PATCH"])
async def test_parameters_of_a_media_type_are_not_read(
    client: Client, verb: str, separator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(raw: str) -> tuple[str, Mapping[str, str]]:
        assert len(raw) < 100, "aiohttp reads them in quadratic time"
        return raw, {}

    monkeypatch.setattr("aiohttp.helpers.parse_content_type", read)
    await client.post(CONFIG_MAPS, config_map("d"))
    type_ = ("application/json" if verb == "POST" else "merge-patch+json") + separator * 2_000

    if verb == "POST":
        answer = await client.post(CONFIG_MAPS, json.dumps(config_map("c")).encode(), type_=type_)
    else:
        answer = await client.patch(f"{CONFIG_MAPS}/d", {"data": {"a": "1"}}, type_)

    assert answer.code == (201 if verb == "POST" else 200)


@pytest.fixture
def in_loop(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each of the following was done in the event loop: what changed in an object, what a selector says."""
    noted: list[bool] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            noted.append(threading.current_thread() is threading.main_thread())
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(writing, "applied", noting(writing.applied))
    monkeypatch.setattr(writing, "track_update", noting(writing.track_update))
    monkeypatch.setattr(selectors, "parse_labels", noting(selectors.parse_labels))
    return noted


@pytest.mark.parametrize(
    ("data", "is_done_in_loop"), [({"a": "x"}, True), ({"a": "x" * 300_000}, False)], ids=["small", "large"]
)
async def test_large_objects_are_changed_beside_the_event_loop(
    client: Client, in_loop: list[bool], data: dict[str, str], is_done_in_loop: bool
) -> None:
    await client.post(CONFIG_MAPS, config_map("c", **data))
    await client.patch(f"{CONFIG_MAPS}/c", {"data": {"b": "1"}}, "merge-patch+json")
    answer = await client.send("PUT", f"{CONFIG_MAPS}/c", config_map("c", **data, c="2"))

    assert set(answer.body["data"]) == {"a", "c"}
    assert in_loop == [is_done_in_loop] * 3


@pytest.mark.parametrize(("text", "is_done_in_loop"), [("x", True), ("x" * 30_000, False)], ids=["small", "large"])
async def test_large_configurations_are_applied_beside_the_event_loop(
    client: Client, in_loop: list[bool], text: str, is_done_in_loop: bool
) -> None:
    for value in (text, text[:-1] + "y"):
        answer = await client.patch(
            f"{CONFIG_MAPS}/c", config_map("c", a=value), "apply-patch+yaml", params={"fieldManager": "me"}
        )
        assert answer.body["data"] == {"a": value}

    assert in_loop == [is_done_in_loop] * 2


@pytest.mark.parametrize(
    ("of_alone", "text", "is_done_in_loop"),
    [(True, "x", True), (True, "x" * 30_000, False), (False, "x" * 30_000, True)],
    ids=["small", "large", "large, of a kind that looks at others"],
)
async def test_large_objects_are_validated_beside_the_event_loop(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    rules: Mapping[str, Strategy],
    of_alone: bool,
    text: str,
    is_done_in_loop: bool,
) -> None:
    noted: list[bool] = []

    def validate(strategy: Strategy, new: JSON) -> list[FieldError]:
        noted.append(threading.current_thread() is threading.main_thread())
        return [] if "a" in new["data"] else [FieldError.required("data.a")]

    of_config_maps = type(rules["configmaps"])
    monkeypatch.setattr(of_config_maps, "validates_alone", of_alone)
    monkeypatch.setattr(of_config_maps, "validate", validate)

    codes = [(await client.post(CONFIG_MAPS, config_map("c", **{name: text}))).code for name in "ba"]
    codes += [(await client.send("PUT", f"{CONFIG_MAPS}/c", config_map("c", **{name: text}))).code for name in "ba"]

    assert codes == [422, 201, 422, 200]
    assert noted == [is_done_in_loop] * 4


def test_kinds_of_large_objects_are_validated_alone(objects: Objects) -> None:
    kinds = {str(kind) for kind, strategy in all_strategies(objects).items() if strategy.validates_alone}

    assert kinds >= {"configmaps", "nodes", "pods", "secrets"}
    assert kinds >= {f"{name}.resource.k8s.io" for name in ("deviceclasses", "resourceclaims", "resourceslices")}


async def test_namespace_that_goes_while_an_object_is_validated_gets_none(
    client: Client, objects: Objects, monkeypatch: pytest.MonkeyPatch, rules: Mapping[str, Strategy]
) -> None:
    def validate(strategy: Strategy, new: JSON) -> list[FieldError]:
        objects.remove(Key("namespaces", "", "default"))
        return []

    monkeypatch.setattr(type(rules["configmaps"]), "validate", validate)

    answer = await client.post(CONFIG_MAPS, config_map("c"))

    assert (answer.code, answer.body["message"]) == (404, 'namespaces "default" not found')


async def test_change_is_made_again_where_its_object_was_written_meanwhile(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c", a="x" * 300_000))

    patches = [{"data": {f"b{number}": "1"}} for number in range(12)]
    await asyncio.gather(*(client.patch(f"{CONFIG_MAPS}/c", each, "merge-patch+json") for each in patches))

    stored = (await client.get(f"{CONFIG_MAPS}/c")).body
    assert set(stored["data"]) == {"a", *(f"b{number}" for number in range(12))}


@pytest.mark.parametrize(("count", "is_read_in_loop"), [(2, True), (20_000, False)], ids=["short", "long"])
async def test_long_selectors_are_read_beside_the_event_loop(
    client: Client, in_loop: list[bool], count: int, is_read_in_loop: bool
) -> None:
    selector = ",".join(f"!k{number}" for number in range(count))

    answers = [await client.get(CONFIG_MAPS, params={"labelSelector": selector})]
    answers.append(await client.send("DELETE", CONFIG_MAPS, params={"labelSelector": selector}))

    assert [answer.code for answer in answers] == [200, 200]
    assert in_loop == [is_read_in_loop] * 2


async def test_others_are_served_while_a_large_body_is_read(client: Client) -> None:
    body = b"[" + b"a," * 30_000 + b"a]"
    slow = asyncio.create_task(client.post(CONFIG_MAPS, body, type_="application/yaml"))
    await asyncio.sleep(0)

    answers = [await client.get("/version") for _ in range(3)]

    assert not slow.done()
    assert {answer.code for answer in answers} == {200}
    assert (await slow).code == 400


async def test_connection_without_a_request_is_closed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "_HEAD_S", 0.05)
    port = int(server.url.rpartition(":")[2])
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: loc"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)

        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""
        writer.close()


async def test_connections_that_do_no_handshake_leave_nothing(objects: Objects, logs: ScriptedLogs) -> None:
    server = ApiServer(objects, {}, logs=logs)
    await server.start()
    port = int(server.url.rpartition(":")[2])
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(LIMIT_S):
            await reader.read()
        writer.close()
    gc.collect()

    assert not [one for one in gc.get_objects() if isinstance(one, http_listener._Connection)]
    await server.stop()


async def test_connections_leave_files_for_the_nodes(
    objects: Objects, logs: ScriptedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server takes a quarter of the files that its process may open; the next clients can connect again later."""
    monkeypatch.setattr(http_listener.resource, "getrlimit", lambda _: (12, 12))
    server = ApiServer(objects, {}, logs=logs, plain=True)
    await server.start()
    port = int(server.url.rpartition(":")[2])

    kept = list[asyncio.StreamWriter]()

    async def is_answered() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        kept.append(writer)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionError):
            return await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        return False

    async with asyncio.timeout(LIMIT_S):
        assert [await is_answered() for _ in range(4)] == [True, True, True, False]
        kept[0].close()
        while not await is_answered():
            pass
    for writer in kept:
        writer.close()
    await server.stop()


async def test_body_that_does_not_come_is_a_timeout(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_BODY_S", 0.05)
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{{".encode())

    async with asyncio.timeout(LIMIT_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        status: Any = json.loads(await reader.readexactly(length))
    writer.close()

    assert (status["code"], status["reason"]) == (504, "Timeout")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_compressed_body_is_taken_as_it_comes(client: Client, encoding: str) -> None:
    spaces = gzip.compress(b" " * 8_000_000)

    answer = await client.send("POST", CONFIG_MAPS, spaces, headers={"Content-Encoding": encoding})

    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


async def test_slashes_of_a_path_are_no_work(server: ApiServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a/" * 1_500_000))

    async with asyncio.timeout(LIMIT_S):
        assert (await reader.readline()).startswith(b"HTTP/1.1 431 ")
    writer.close()


@pytest.mark.parametrize(
    ("first", "more"),
    [
        pytest.param(
            b"GET /version HTTP/1.1\r\nHost: localhost\r\n", b"x: " + b"y" * 1_000_000 + b"\r\n", id="headers"
        ),
        pytest.param(
            b"GET /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 65_536, id="body"
        ),
        pytest.param(
            b"GET /version HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5;",
            b"x" * 65_536,
            id="chunk extension",
        ),
    ],
)
async def test_endless_request_ends_its_connection(server: ApiServer, first: bytes, more: bytes) -> None:
    sent = await sent_until_refused(server, first, more)

    assert sent < 40 << 20


async def sent_until_refused(server: ApiServer, first: bytes, more: bytes) -> int:
    """How many bytes a connection takes before it ends, a gibibyte at most."""
    _, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    sent = 0
    with suppress(ConnectionError):
        async with asyncio.timeout(LIMIT_S):
            writer.write(first)
            while sent < 1 << 30:
                writer.write(more)
                sent += len(more)
                await writer.drain()
    writer.close()
    return sent


async def test_requests_of_a_connection_have_no_limit_together(server: ApiServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n"

    for _ in range(15):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\nok")
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()
