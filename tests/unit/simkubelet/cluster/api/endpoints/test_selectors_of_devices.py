"""Many long selectors in one object hold no other request up: a thread reads them, and the write is begun again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from simkubelet.cluster.api.registry.strategy import Strategy
from simkubelet.cluster.objects import selector_verdicts
from simkubelet.cluster.objects.objects import JSON, Objects
from simkubelet.cluster.objects.selector_verdicts import Asked, Verdict
from simkubelet.cluster.strategies.table import all_strategies
from simkubelet.model.version import DEFAULT, version
from tests.support.patience import LIMIT_S

from ..conftest import Client

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
REFUSED = "device.drover == 'x'"


@pytest.fixture
def rules(objects: Objects) -> Mapping[str, Strategy]:
    return all_strategies(objects)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_verdicts, "_known", {})
    monkeypatch.setattr(selector_verdicts, "_kept", 0)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Each expression that is read: how long it is, and whether the event loop reads it."""
    seen: list[tuple[int, bool]] = []
    original = selector_verdicts._read

    def read(asked: Asked) -> Verdict:
        seen.append((len(asked.expression), threading.current_thread() is threading.main_thread()))
        return original(asked)

    monkeypatch.setattr(selector_verdicts, "_read", read)
    return seen


def long(number: int) -> str:
    return f"device.driver != '{number}{'x' * 900}'"


def claim(*expressions: str) -> JSON:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "selectors": selectors}}
    return {"metadata": {"name": "claim"}, "spec": {"devices": {"requests": [request]}}}


def device_class(*expressions: str) -> JSON:
    return {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": each}} for each in expressions]}}


async def test_few_are_read_at_once_and_others_in_a_thread(client: Client, threads: list[tuple[int, bool]]) -> None:
    answer = await client.post(CLAIMS, claim(*map(long, range(20))))

    assert answer.code == 201
    assert sum(length for length, in_loop in threads if in_loop) <= selector_verdicts._READ_AT_ONCE
    assert len(threads) == 20


async def test_refusals_are_the_same_in_a_thread(client: Client, threads: list[tuple[int, bool]]) -> None:
    short = await client.post(CLAIMS, claim("true", REFUSED))
    selector_verdicts._known.clear()

    answer = await client.post(CLAIMS, claim(*map(long, range(4)), REFUSED))

    assert answer.code == short.code == 422
    (cause,) = answer.body["details"]["causes"]
    assert cause["message"] == short.body["details"]["causes"][0]["message"]
    assert cause["field"].endswith("selectors[4].cel.expression")
    assert threads[-1] == (len(REFUSED), False)


@pytest.mark.parametrize("method", ["PUT", "merge-patch", "apply"])
async def test_changes_are_read_in_a_thread(client: Client, threads: list[tuple[int, bool]], method: str) -> None:
    created = await client.post(CLASSES, device_class("true"))
    changed = device_class(*map(long, range(6)))

    path = f"{CLASSES}/gpu"
    if method == "PUT":
        body = {**created.body, "spec": changed["spec"]}
        answer = await client.send("PUT", path, body)
    elif method == "apply":
        named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **changed}
        answer = await client.patch(path, named, "apply-patch+yaml", params={"fieldManager": "me", "force": "true"})
    else:
        answer = await client.patch(path, changed, "merge-patch+json")

    assert answer.code == 200
    assert answer.body["spec"] == changed["spec"]
    assert sum(in_loop for _, in_loop in threads) <= 3


async def test_others_are_served_meanwhile(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def read(asked: Asked) -> Verdict:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert goes_on.wait(LIMIT_S)
        return Verdict(None)

    monkeypatch.setattr(selector_verdicts, "_read", read)
    creating = asyncio.create_task(client.post(CLAIMS, claim(*map(long, range(4)))))
    await asyncio.to_thread(begun.wait, LIMIT_S)

    assert (await client.get(CLASSES)).code == 200
    assert (await client.get(f"{CLAIMS}/claim")).code == 404
    goes_on.set()
    assert (await creating).code == 201


async def test_request_that_is_given_up_leaves_the_rest_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def read(asked: Asked) -> Verdict:
        seen.append(asked.expression)
        begun.set()
        assert goes_on.wait(LIMIT_S)
        return Verdict(None)

    monkeypatch.setattr(selector_verdicts, "_read", read)
    waiting: Any = [Asked(long(number), version(DEFAULT), True, ()) for number in range(9)]
    reading = asyncio.create_task(selector_verdicts._read_in_thread(waiting))
    await asyncio.to_thread(begun.wait, LIMIT_S)

    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    goes_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()

    assert seen == [long(0)]


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch, client: Client) -> None:
    monkeypatch.setattr(selector_verdicts, "_KEPT_BYTES", 5_000)

    for number in range(40):
        await client.post(CLAIMS, claim(f"device.driver == '{number}'", REFUSED + str(number)))

    assert 0 < selector_verdicts._kept <= 5_000
    assert selector_verdicts._kept == sum(map(selector_verdicts._size, selector_verdicts._known.values()))
