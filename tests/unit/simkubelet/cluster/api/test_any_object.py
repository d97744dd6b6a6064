"""Whatever is sent, the server answers and says why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import Schema, resolved, schema_of
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.registry.kinds import KINDS, Kind
from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.objects.objects import Objects
from simkubelet.cluster.strategies.table import all_strategies
from tests.support.patience import LIMIT_S

from .conftest import Client

TEXTS = st.sampled_from(["", "a", "1", "A_B", "x/y", "2Gi", "-1", "Always", "2026-01-01T00:00:00Z", "é\n"])
SCALARS = {"string": TEXTS, "boolean": st.booleans(), "integer": st.sampled_from([0, 1, -1, 2**40])}
WRONG = st.sampled_from([None, 1, "x", [], {}, True, 1.5, [None], {"a": None}])
PATCHES = ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")


MADE: dict[tuple[int, int], st.SearchStrategy[Any]] = {}
"""The strategies by the schema's id and depth: schemas stay, and making strategies takes as long as using them."""


def instances(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values of a schema, with a wrong one here and there."""
    key = id(schema), depth
    if key not in MADE:
        MADE[key] = made(schema, depth)
    return MADE[key]


def made(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    plain = resolved(schema)
    if "oneOf" in plain:
        return st.sampled_from([1, "2", "1Gi", "x", -1]) | WRONG
    type_ = plain.get("type", "")
    if type_ in SCALARS:
        return st.integers(0, 19).flatmap(lambda n: WRONG if n == 0 else SCALARS[type_])
    if depth == 0:
        return st.just([] if type_ == "array" else {})
    if type_ == "array":
        return st.lists(st.deferred(lambda: instances(plain["items"], depth - 1)), max_size=2)
    if "additionalProperties" in plain:
        return st.dictionaries(TEXTS, instances(plain["additionalProperties"], depth - 1), max_size=2)
    properties = plain.get("properties", {})
    chosen = st.lists(st.sampled_from(sorted(properties)), unique=True, max_size=4) if properties else st.just([])
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries({name: instances(properties[name], depth - 1) for name in names})
    )


@pytest.fixture
def rules(objects: Objects) -> Mapping[str, Strategy]:
    return all_strategies(objects)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.resource))
@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
async def test_every_request_has_an_answer(client: Client, kind: Kind, data: st.DataObject) -> None:
    schema = schema_of(kind.group, kind.version, kind.kind)
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    collection = f"{prefix}/namespaces/default/{kind.plural}" if kind.namespaced else f"{prefix}/{kind.plural}"
    for _ in range(2):
        body = data.draw(instances(schema, 6))
        body["metadata"] = data.draw(st.just({"name": "a"}) | instances(schema["properties"]["metadata"], 3))
        patch = data.draw(st.sampled_from(PATCHES))
        below = data.draw(st.sampled_from(["", "/status"]))
        answers = [
            await client.post(collection, body),
            await client.patch(f"{collection}/a{below}", body, patch, params={"fieldManager": "me"}),
            await client.send("PUT", f"{collection}/a{below}", body),
            await client.get(collection, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
        ]
        for answer in answers:
            assert answer.code < 500 or answer.body["message"], answer


PLACES = ("/api/v1/pods", "/api/v1/namespaces/default/configmaps", "/api/v1/nodes/a", "/apis", "/openapi/v3")
OPTIONS = ("continue", "limit", "watch", "labelSelector", "fieldSelector", "resourceVersion", "pretty", "x", "dryRun")
HEADERS = ("Authorization", "User-Agent", "Accept", "Content-Type", "Origin", "Accept-Encoding", "Impersonate-User")
_STRAY: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
VALUES = st.binary(max_size=20) | st.sampled_from(
    [b"Bearer \xff", b"application/json;as=\xff", b"text/\xe9", b"1", b"W10", b"[[[[", b"a in (b)", b"spec.nodeName="]
)


@pytest.mark.slow
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    place=st.sampled_from(PLACES),
    query=st.lists(st.tuples(st.sampled_from(OPTIONS), VALUES), max_size=3),
    headers=st.dictionaries(st.sampled_from(HEADERS), VALUES, max_size=2),
    body=st.binary(max_size=30) | st.sampled_from([b"{}", b'{"metadata":{"name":"a"}}', b"[" * 10_000]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_bytes_have_an_answer(
    server: ApiServer, method: str, place: str, query: list[tuple[str, bytes]], headers: dict[str, bytes], body: bytes
) -> None:
    target = f"{place}?{urlencode([*query, ('timeoutSeconds', '0')])}"
    lines = [f"{name}: ".encode() + _STRAY.sub(b"", value) for name, value in headers.items()]
    lines += [b"Host: localhost", b"Connection: close", f"Content-Length: {len(body)}".encode()]
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write(f"{method} {target} HTTP/1.1\r\n".encode() + b"\r\n".join(lines) + b"\r\n\r\n" + body)

    status = (await asyncio.wait_for(reader.readline(), LIMIT_S)).split()[1]

    writer.close()
    assert status != b"500" or b'"Status"' in await reader.read()
