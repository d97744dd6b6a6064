"""Requests that are large, deep, slow or without sense: each has one clear answer, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from typing import Any

import pytest

from simkubelet.cluster.api.endpoints import listener, writing
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.objects.objects import JSON
from tests.support.patience import LIMIT_S

from ..conftest import CONFIG_MAPS, Client, config_map

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


async def test_others_are_served_while_a_large_body_is_read(client: Client) -> None:
    body = b"[" + b"a," * 30_000 + b"a]"
    slow = asyncio.create_task(client.post(CONFIG_MAPS, body, type_="application/yaml"))
    await asyncio.sleep(0)

    answers = [await client.get("/version") for _ in range(3)]

    assert not slow.done()
    assert {answer.code for answer in answers} == {200}
    assert (await slow).code == 400


async def test_connection_without_a_request_is_closed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_HEAD_S", 0.05)
    port = int(server.url.rpartition(":")[2])
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: loc"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)

        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""
        writer.close()


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
