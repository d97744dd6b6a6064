"""Lists and single objects over a real connection."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.endpoints.lists import Listed, ListOptions, list_objects
from simkubelet.cluster.api.endpoints.selectors import Selection
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.objects.objects import Key, Objects, WallTime
from simkubelet.model.clock import ManualClock

from ..conftest import CONFIG_MAPS, PODS, Client, config_map, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def names(client: Client, path: str, **query: str) -> list[str]:
    answer = await client.get(path, params=query)
    assert answer.code == 200, answer.body
    return [item["metadata"]["name"] for item in answer.body["items"]]


async def test_items_of_a_list_name_no_kind(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    listed = (await client.get(CONFIG_MAPS)).body
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "kind" not in listed["items"][0]
    assert (await client.get(f"{CONFIG_MAPS}/c")).body["kind"] == "ConfigMap"


async def test_chunks_show_one_version(client: Client) -> None:
    for name in "abcde":
        await client.post(CONFIG_MAPS, config_map(name))
    first = (await client.get(CONFIG_MAPS, params={"limit": "2"})).body
    assert first["metadata"]["remainingItemCount"] == 3
    await client.send("DELETE", f"{CONFIG_MAPS}/c")
    await client.post(CONFIG_MAPS, config_map("cc"))
    token = first["metadata"]["continue"]
    second = (await client.get(CONFIG_MAPS, params={"limit": "2", "continue": token})).body
    last = (await client.get(CONFIG_MAPS, params={"continue": second["metadata"]["continue"]})).body
    chunks = [[item["metadata"]["name"] for item in chunk["items"]] for chunk in (first, second, last)]
    assert chunks == [["a", "b"], ["c", "d"], ["e"]]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


# "a-b" stands before "a" in the order of etcd's keys: "-" is before "/".
PLACES = st.tuples(st.sampled_from(["a", "a-b", "b"]), st.sampled_from(["a", "a-b", "b", "c"]))


@given(
    st.sets(PLACES),
    st.lists(st.lists(st.tuples(PLACES, st.booleans()), max_size=4), max_size=8),
    st.integers(1, 4),
    st.sampled_from([(None, ""), ("a", ""), (None, "odd=1"), ("a-b", "odd=1")]),
)
def test_chunks_are_what_was_there_at_the_first_whatever_is_written(
    there: set[tuple[str, str]],
    writes: list[list[tuple[tuple[str, str], bool]]],
    limit: int,
    selected: tuple[str | None, str],
) -> None:
    objects, selection = Objects(WallTime(ManualClock())), Selection(kind_named("configmaps"), *selected)
    for place in there:
        write(objects, place)
    whole = listed(objects, selection, ListOptions())
    chunks = [listed(objects, selection, ListOptions(limit=limit))]
    for batch in writes:
        for place, removes in batch:
            write(objects, place, removes=removes)
        if token := chunks[-1].continue_token:
            chunks.append(listed(objects, selection, ListOptions(limit=limit, continue_token=token)))
    while token := chunks[-1].continue_token:
        chunks.append(listed(objects, selection, ListOptions(limit=limit, continue_token=token)))

    items = [obj for chunk in chunks for obj in chunk.items]
    places = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in items]
    assert items == whole.items
    assert places == sorted(places)
    assert {chunk.version for chunk in chunks} == {whole.version}
    assert all(len(chunk.items) == limit for chunk in chunks[:-1])
    if not selected[1]:
        left = [len(whole.items) - limit * (n + 1) for n in range(len(chunks) - 1)]
        assert [chunk.remaining for chunk in chunks] == [*left, None]


def listed(objects: Objects, selection: Selection, options: ListOptions) -> Listed:
    return list_objects(objects, "configmaps", selection, options, selective=False)


def write(objects: Objects, place: tuple[str, str], *, removes: bool = False) -> None:
    """Make an object, change it, or remove it."""
    key = Key("configmaps", *place)
    stored = objects.get(key)
    number = objects.version
    body = {"metadata": {"labels": {"odd": str(number % 2)}}, "data": {"number": str(number)}}
    if stored is None:
        objects.create(key, body)
    elif removes:
        objects.remove(key)
    else:
        objects.replace(key, {**stored, "data": body["data"]})


@pytest.mark.slow
async def test_continue_that_is_too_old_expires_with_a_way_on(
    client: Client, objects: Objects, clock: ManualClock
) -> None:
    for name in "abc":
        await client.post(CONFIG_MAPS, config_map(name))
    token = (await client.get(CONFIG_MAPS, params={"limit": "1"})).body["metadata"]["continue"]
    objects.create(Key("configmaps", "default", "later"), {})
    await clock.advance(76)
    for _ in range(550):
        objects.create(Key("configmaps", "default", "d"), {})
        objects.remove(Key("configmaps", "default", "d"))
    answer = await client.get(CONFIG_MAPS, params={"continue": token})
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert answer.body["message"].startswith("The provided continue parameter is too old to display")
    assert await names(client, CONFIG_MAPS, **{"continue": answer.body["metadata"]["continue"]}) == ["b", "c", "later"]


def token(content: Any) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def form(**fields: Any) -> str:
    return token({"v": "meta.k8s.io/v1", "rv": 1, "start": "default/a", **fields})


@pytest.mark.parametrize(
    ("continued", "why"),
    [
        ("a=", "illegal base64 data at input byte 1"),
        ("é", "illegal base64 data at input byte 0"),
        ("abcde", "illegal base64 data at input byte 5"),
        (token("[" * 100_000), "exceeded max depth"),
        (token("x"), "invalid character 'x' looking for beginning of value"),
        (token([]), "json: cannot unmarshal array into Go value of type storage.continueToken"),
        (form(start={}), "json: cannot unmarshal object into Go struct field continueToken.start of type string"),
        (form(rv="1"), "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
        (form(rv=True), "json: cannot unmarshal bool into Go struct field continueToken.rv of type int64"),
        (form(v="meta.k8s.io/v2"), "server does not recognize this encoded version meta.k8s.io/v2"),
        (form(rv=0), "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        (form(start=""), "encoded start key empty (version meta.k8s.io/v1)"),
    ],
    ids=lambda value: value[:30],
)
async def test_continue_that_is_not_a_token_is_refused(client: Client, continued: str, why: str) -> None:
    answer = await client.get(CONFIG_MAPS, params={"continue": continued})

    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].removeprefix("invalid continue token: continue key is not valid: ") == why


async def test_exact_version_shows_what_was_there(client: Client) -> None:
    first = (await client.post(CONFIG_MAPS, config_map("a"))).body["metadata"]["resourceVersion"]
    await client.post(CONFIG_MAPS, config_map("b"))
    assert await names(client, CONFIG_MAPS, resourceVersion=first, resourceVersionMatch="Exact") == ["a"]
    assert await names(client, CONFIG_MAPS, resourceVersion=first) == ["a", "b"]


async def test_version_that_is_to_come_is_too_large(client: Client) -> None:
    answer = await client.get(CONFIG_MAPS, params={"resourceVersion": "99999"})
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")
    assert answer.body["message"].startswith("Timeout: Too large resource version: 99999, current: ")


async def test_field_selectors_of_pods(client: Client) -> None:
    for name, node in (("a", "node-1"), ("b", "node-2")):
        await client.post(PODS, {**pod(name), "spec": {**pod(name)["spec"], "nodeName": node}})
    assert await names(client, "/api/v1/pods", fieldSelector="spec.nodeName=node-1") == ["a"]
    assert await names(client, "/api/v1/pods", fieldSelector="spec.nodeName!=node-1,spec.hostNetwork=false") == ["b"]
    assert await names(client, PODS, fieldSelector="metadata.name=b") == ["b"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (PODS, "field label not supported: spec.x"),
        (CONFIG_MAPS, '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
async def test_other_fields_are_refused(client: Client, path: str, message: str) -> None:
    answer = await client.get(path, params={"fieldSelector": "spec.x=1"})
    assert (answer.code, answer.body["reason"], answer.body["message"]) == (400, "BadRequest", message)


async def test_absent_object_is_not_found(client: Client) -> None:
    answer = await client.get(f"{CONFIG_MAPS}/none")
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "none" not found',
        "reason": "NotFound",
        "details": {"name": "none", "kind": "configmaps"},
        "code": 404,
    }


async def test_pods_as_a_table(client: Client) -> None:
    await client.post(PODS, pod("p"))
    table = (await client.get(PODS, headers={"Accept": TABLE})).body
    wide = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 1]
    narrow = [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
    assert narrow == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert wide == ["IP", "Node", "Nominated Node", "Readiness Gates"]
    (row,) = table["rows"]
    assert row["cells"] == ["p", "0/1", "", "0", "0s", "<none>", "<none>", "<none>", "<none>"]
    assert (row["object"]["kind"], "spec" in row["object"]) == ("PartialObjectMetadata", False)


async def test_rows_carry_what_is_asked_for(client: Client) -> None:
    await client.post(PODS, pod("p"))
    full = (await client.get(PODS, headers={"Accept": TABLE}, params={"includeObject": "Object"})).body
    assert full["rows"][0]["object"]["kind"] == "Pod"
    bare = (await client.get(PODS, headers={"Accept": TABLE}, params={"includeObject": "None"})).body
    assert bare["rows"][0]["object"] is None


async def test_metadata_alone(client: Client) -> None:
    await client.post(PODS, pod("p"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = (await client.get(PODS, headers={"Accept": accept})).body
    assert (listed["kind"], listed["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"resourceVersion": "9" * 5_000}, "value out of range"),
        ({"resourceVersion": str(2**64)}, "value out of range"),
        ({"limit": str(2**63)}, "value out of range"),
        ({"limit": "1_0"}, "invalid syntax"),
    ],
)
async def test_numbers_that_are_none_are_refused(client: Client, query: dict[str, str], words: str) -> None:
    answer = await client.get(PODS, params=query)
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")
    assert answer.body["message"].endswith(words)


@pytest.mark.parametrize(("path", "watch"), [(PODS, "1"), (f"{PODS}/p", "")])
async def test_version_that_is_none_is_an_error_outside_of_lists(client: Client, path: str, watch: str) -> None:
    await client.post(PODS, pod("p"))
    answer = await client.get(path, params={"resourceVersion": "x", **({"watch": watch} if watch else {})})
    assert answer.code == 500
    assert answer.body["message"].endswith("invalid syntax")


async def test_limit_below_zero_is_no_limit(client: Client) -> None:
    await client.post(PODS, pod("p"))
    assert await names(client, PODS, limit="-1") == ["p"]
