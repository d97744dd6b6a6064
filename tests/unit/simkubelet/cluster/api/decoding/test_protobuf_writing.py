"""Answers in protobuf: what is written can be read again, and is sent to who asks for it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.decoding import PROTOBUF
from simkubelet.cluster.api.decoding.definitions import Schema, resolved, schema_of
from simkubelet.cluster.api.decoding.protobuf import read_protobuf
from simkubelet.cluster.api.decoding.protobuf_writing import written_object
from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.api.registry.kinds import KINDS, Kind
from simkubelet.cluster.objects.objects import JSON

from ..conftest import CONFIG_MAPS, Client, config_map

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
DATES = st.datetimes().map(lambda date: date.strftime("%Y-%m-%dT%H:%M:%SZ")).filter(lambda text: len(text) == 20)
MICRO_DATES = (
    st.datetimes().map(lambda date: date.strftime("%Y-%m-%dT%H:%M:%S.%fZ")).filter(lambda text: len(text) == 27)
)
SPECIAL = {
    "Time": DATES,
    "MicroTime": MICRO_DATES,
    "Quantity": st.sampled_from(["1", "100m", "2Gi"]),
    "IntOrString": st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from(["http", "50%"])),
    "FieldsV1": st.just({"f:spec": {"f:a": {}}}),
    "RawExtension": st.dictionaries(TEXTS, st.integers(), max_size=2),
    "JSON": st.none(),
}
DEEPEST = 7


def values(draw: st.DrawFn, schema: Schema, depth: int) -> Any:
    """A value of a schema, without empty texts and lists: in protobuf these are as nothing."""
    name = schema.get("$ref", "").rpartition(".")[2]
    if name in SPECIAL:
        return draw(SPECIAL[name])
    plain = resolved(schema)
    match plain.get("type"):
        case "string":
            coded = draw(st.binary(min_size=1, max_size=3)) if plain.get("format") == "byte" else None
            return draw(TEXTS) if coded is None else base64.b64encode(coded).decode()
        case "boolean":
            return draw(st.booleans())
        case "integer":
            bits = 31 if plain.get("format") == "int32" else 63
            return draw(st.integers(-(2**bits), 2**bits - 1))
        case "array":
            return [values(draw, plain["items"], depth + 1) for _ in range(draw(st.integers(1, 2)))]
        case _ if "additionalProperties" in plain:
            keys = draw(st.lists(TEXTS, min_size=1, max_size=2, unique=True))
            return {key: values(draw, plain["additionalProperties"], depth + 1) for key in keys}
    return dict(fields(draw, plain, depth))


def fields(draw: st.DrawFn, schema: Schema, depth: int) -> Iterator[tuple[str, Any]]:
    for name, inner in schema.get("properties", {}).items():
        if name not in ("kind", "apiVersion") and depth < DEEPEST and draw(st.integers(0, 2)) == 0:
            yield name, values(draw, inner, depth + 1)


@st.composite
def objects_of(draw: st.DrawFn, kind: Kind) -> JSON:
    found = values(draw, schema_of(kind.group, kind.version, kind.kind), 0)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **found}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "list" in kind.verbs], ids=lambda kind: kind.api_version)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_object_that_is_written_is_read_again(kind: Kind, data: st.DataObject) -> None:
    schema = schema_of(kind.group, kind.version, kind.kind)
    obj = data.draw(objects_of(kind))

    assert read_protobuf(written_object(obj, schema), schema) == obj


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (PROTOBUF, PROTOBUF),
        (f"{PROTOBUF},application/json", PROTOBUF),
        (f"application/json,{PROTOBUF}", "application/json"),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/json", "application/json"),
        (f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json", PROTOBUF),
        ("*/*", "application/json"),
    ],
)
async def test_first_form_that_is_served_is_sent(client: Client, accept: str, media_type: str) -> None:
    await client.post(CONFIG_MAPS, config_map("one", a="b"))
    answer = await client.get(f"{CONFIG_MAPS}/one", headers={"Accept": accept})

    assert (answer.code, answer.headers["Content-Type"].partition(";")[0]) == (200, media_type)


async def test_table_and_discovery_are_no_protobuf(client: Client) -> None:
    table = f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"
    codes = [
        (await client.get(path, headers={"Accept": accept})).code
        for path, accept in ((CONFIG_MAPS, table), ("/apis", PROTOBUF))
    ]

    assert codes == [406, 406]


async def test_refusal_is_protobuf_too(server: ApiServer) -> None:
    async with (
        aiohttp.ClientSession(server.url) as session,
        session.get(f"{CONFIG_MAPS}/none", headers={"Accept": PROTOBUF}) as answer,
    ):
        found = read_protobuf(await answer.read(), schema_of("", "v1", "Status"))

    assert answer.status == 404
    assert (found["kind"], found["reason"], found["details"]["name"]) == ("Status", "NotFound", "none")


async def test_watch_is_framed(client: Client) -> None:
    async with client.watch(CONFIG_MAPS, PROTOBUF) as watch:
        await client.post(CONFIG_MAPS, config_map("one", a="b"))
        length = int.from_bytes(await watch.response.content.readexactly(4), "big")
        event = await watch.response.content.readexactly(length)

    assert watch.response.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
    assert event[:7] == b"\x0a\x05ADDED"
    obj = read_protobuf(event[event.index(b"k8s\x00") :], schema_of("", "v1", "ConfigMap"))
    assert (obj["metadata"]["name"], obj["data"]) == ("one", {"a": "b"})
