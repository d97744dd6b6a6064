"""Deleting over a real connection: with grace, preconditions and finalizers, collections and namespaces."""

from __future__ import annotations

import asyncio

from simkubelet.cluster.api.endpoints.server import ApiServer
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import Key, Objects, Verb, Written
from simkubelet.model.clock import ManualClock

from ..conftest import CONFIG_MAPS, PODS, Client, config_map, pod


async def test_graceful_deletion_leaves_the_pod_with_a_date(client: Client) -> None:
    await client.post(PODS, pod("p"))
    answer = await client.send("DELETE", f"{PODS}/p")
    assert (answer.code, answer.body["metadata"]["deletionGracePeriodSeconds"]) == (200, 30)
    assert answer.body["metadata"]["generation"] == 2
    longer = await client.send("DELETE", f"{PODS}/p", params={"gracePeriodSeconds": "60"})
    assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 30
    await client.send("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert (await client.get(f"{PODS}/p")).code == 404


async def test_shorter_grace_counts_from_the_first_request(client: Client, clock: ManualClock) -> None:
    await client.post(PODS, pod("p"))
    first = (await client.send("DELETE", f"{PODS}/p")).body["metadata"]
    await clock.advance(10)
    second = (await client.send("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 15})).body["metadata"]
    assert (first["deletionGracePeriodSeconds"], second["deletionGracePeriodSeconds"]) == (30, 15)
    assert second["deletionTimestamp"] < first["deletionTimestamp"]


async def test_shorter_grace_that_has_passed_leaves_a_second(client: Client, clock: ManualClock) -> None:
    await client.post(PODS, pod("p"))
    await client.send("DELETE", f"{PODS}/p")
    await clock.advance(10.5)
    metadata = (await client.send("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 10})).body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 1


async def test_deletion_has_preconditions(client: Client) -> None:
    await client.post(CONFIG_MAPS, config_map("c"))
    answer = await client.send("DELETE", f"{CONFIG_MAPS}/c", {"preconditions": {"uid": "other"}})
    assert answer.code == 409
    assert "the UID in the precondition (other) does not match the UID in record" in answer.body["message"]


async def test_finalizers_hold_an_object_until_the_last_is_gone(client: Client) -> None:
    body = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    await client.post(CONFIG_MAPS, body)
    await client.send("DELETE", f"{CONFIG_MAPS}/held")
    assert "deletionTimestamp" in (await client.get(f"{CONFIG_MAPS}/held")).body["metadata"]
    await client.patch(f"{CONFIG_MAPS}/held", {"metadata": {"finalizers": None}}, "merge-patch+json")
    assert (await client.get(f"{CONFIG_MAPS}/held")).code == 404


async def test_collection_is_deleted_by_selector(client: Client) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        await client.post(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"app": app}}})
    answer = await client.send("DELETE", CONFIG_MAPS, params={"labelSelector": "app=x"})
    assert (answer.code, answer.body["kind"], len(answer.body["items"])) == (200, "ConfigMapList", 2)
    left = await client.get(CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in left.body["items"]] == ["b"]


async def test_others_are_served_while_a_collection_is_deleted(client: Client, objects: Objects) -> None:
    for number in range(100):
        objects.create(Key("configmaps", "default", f"c{number}"), {})
    deleting = asyncio.ensure_future(client.send("DELETE", CONFIG_MAPS))
    left = {100}
    while not deleting.done():
        await asyncio.sleep(0)
        left.add(len(objects.all_of("configmaps")))

    assert ((await deleting).code, min(left), max(left)) == (200, 0, 100)
    assert len(left) > 3


async def test_object_that_goes_while_its_collection_is_deleted_is_no_error(client: Client, objects: Objects) -> None:
    for name in "abc":
        objects.create(Key("configmaps", "default", name), {})

    def remove_last(written: Written) -> None:
        if written.key.name == "a" and written.verb is Verb.DELETED:
            objects.remove(Key("configmaps", "default", "c"))

    objects.subscribe("configmaps", remove_last)
    answer = await client.send("DELETE", CONFIG_MAPS)

    assert (answer.code, len(answer.body["items"])) == (200, 3)
    assert objects.all_of("configmaps") == []


async def test_deleted_namespace_is_emptied_and_refuses_what_is_new(client: Client, server: ApiServer) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    await client.post("/api/v1/namespaces/short/configmaps", config_map("c"))
    terminating = await client.send("DELETE", "/api/v1/namespaces/short")
    assert terminating.body["status"]["phase"] == "Terminating"
    refused = await client.post("/api/v1/namespaces/short/configmaps", config_map("d"))
    assert refused.code == 403
    assert refused.body["message"] == (
        'configmaps "d" is forbidden: unable to create new content in namespace short because it is being terminated'
    )
    async with client.watch("/api/v1/namespaces", fieldSelector="metadata.name=short") as watch:
        await watch.next()
        controller = asyncio.create_task(NamespaceController(server.registry).run())
        while (await watch.next())[0] != "DELETED":
            pass
        controller.cancel()
    assert (await client.get("/api/v1/namespaces/short/configmaps/c")).code == 404


async def test_first_namespaces_stay(client: Client) -> None:
    answer = await client.send("DELETE", "/api/v1/namespaces/default")
    assert answer.code == 403
    assert answer.body["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'
