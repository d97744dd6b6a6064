"""What is asked of one pod over a real connection: its binding, its eviction, its log."""

from __future__ import annotations

import pytest

from ..conftest import PODS, Client, ScriptedLogs, pod


async def test_pod_is_bound_once(client: Client) -> None:
    await client.post(PODS, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-1"}}
    assert (await client.post(f"{PODS}/p/binding", binding)).code == 201
    bound = (await client.get(f"{PODS}/p")).body
    assert bound["spec"]["nodeName"] == "node-1"
    assert [one["status"] for one in bound["status"]["conditions"] if one["type"] == "PodScheduled"] == ["True"]
    again = await client.post(f"{PODS}/p/binding", binding)
    assert again.code == 409
    assert again.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node-1"'
    )


async def test_evicted_pod_is_deleted(client: Client) -> None:
    await client.post(PODS, pod("p"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await client.post(f"{PODS}/p/eviction", eviction)).code == 201
    assert "deletionTimestamp" in (await client.get(f"{PODS}/p")).body["metadata"]


async def test_log_is_of_the_only_container(client: Client, logs: ScriptedLogs) -> None:
    await client.post(PODS, {**pod("p"), "spec": {**pod("p")["spec"], "nodeName": "node-1"}})
    answer = await client.get(f"{PODS}/p/log", params={"tailLines": "5"})
    assert (answer.code, answer.body) == (200, "first line\n")
    assert [(container, options.tail_lines) for container, options in logs.asked] == [("main", 5)]


async def test_log_is_followed(client: Client, logs: ScriptedLogs) -> None:
    await client.post(PODS, {**pod("p"), "spec": {**pod("p")["spec"], "nodeName": "node-1"}})
    async with client.stream(f"{PODS}/p/log", follow="true") as response:
        assert await response.content.readline() == b"first line\n"
        logs.more.put_nowait(b"second line\n")
        assert await response.content.readline() == b"second line\n"


async def test_log_of_a_pod_without_a_node_is_empty(client: Client) -> None:
    await client.post(PODS, pod("p"))
    assert (await client.get(f"{PODS}/p/log")).code == 204


async def test_log_of_one_of_several_containers_must_be_named(client: Client) -> None:
    containers = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    await client.post(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers, "nodeName": "n"}})
    answer = await client.get(f"{PODS}/p/log")
    assert (answer.code, answer.body["message"]) == (
        400,
        "a container name must be specified for pod p, choose one of: [a b]",
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"tailLines": "-1"}, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            {"sinceSeconds": "1", "sinceTime": "2026-01-01T00:00:00Z"},
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
async def test_part_of_a_log_that_cannot_be_is_refused(client: Client, query: dict[str, str], message: str) -> None:
    await client.post(PODS, pod("p"))
    answer = await client.get(f"{PODS}/p/log", params=query)
    assert (answer.code, answer.body["message"]) == (422, f'PodLogOptions "p" is invalid: {message}')


async def test_date_of_a_log_that_is_none_is_a_bad_request(client: Client) -> None:
    await client.post(PODS, pod("p"))
    assert (await client.get(f"{PODS}/p/log", params={"sinceTime": "yesterday"})).code == 400
