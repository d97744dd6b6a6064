"""Deleting over a real connection: with grace, preconditions and finalizers, collections and namespaces."""

from __future__ import annotations

import asyncio

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


async def test_deleted_namespace_refuses_what_is_new(client: Client) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    await client.post("/api/v1/namespaces/short/pods", pod("p"))
    terminating = await client.send("DELETE", "/api/v1/namespaces/short")
    assert (terminating.code, terminating.body["status"]["phase"]) == (200, "Terminating")
    assert "deletionGracePeriodSeconds" not in terminating.body["metadata"]
    refused = await client.post("/api/v1/namespaces/short/configmaps", config_map("d"))
    why = "is forbidden: unable to create new content in namespace short because it is being terminated"
    assert (refused.code, refused.body["message"]) == (403, f'configmaps "d" {why}')
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace short is being terminated",
            "field": "metadata.namespace",
        }
    ]
    for part, body in {
        "binding": {"metadata": {"name": "p"}, "target": {"name": "node-1"}},
        "eviction": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}},
    }.items():
        refused = await client.post(f"/api/v1/namespaces/short/pods/p/{part}", body)
        assert (refused.code, refused.body["message"]) == (403, f'pods "p" {why}')


async def test_deletion_of_a_namespace_has_preconditions_in_words_of_its_own(client: Client) -> None:
    made = await client.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    answer = await client.send("DELETE", "/api/v1/namespaces/short", {"preconditions": {"uid": "other"}})
    assert (answer.code, answer.body["message"]) == (
        409,
        'Operation cannot be fulfilled on namespaces "short": Precondition failed: UID in precondition: other, '
        f"UID in object meta: {made.body['metadata']['uid']}",
    )


async def test_phase_of_a_namespace_follows_from_its_deletion(client: Client) -> None:
    await client.post("/api/v1/namespaces", {"metadata": {"name": "short"}})
    status, type_ = "/api/v1/namespaces/short/status", "merge-patch+json"
    refused = await client.patch(status, {"status": {"phase": "Terminating"}}, type_)
    labelled = await client.patch(status, {"metadata": {"labels": {"a": "b"}}, "spec": {"finalizers": []}}, type_)

    assert refused.body["message"] == (
        'Namespace "short" is invalid: status.Phase: Invalid value: "Terminating": may only be \'Active\' if '
        "`deletionTimestamp` is empty"
    )
    assert (labelled.body["metadata"]["labels"]["a"], labelled.body["spec"]) == ("b", {"finalizers": ["kubernetes"]})


async def test_namespace_goes_when_its_last_finalizer_is_taken(client: Client) -> None:
    made = (await client.post("/api/v1/namespaces", {"metadata": {"name": "short"}})).body
    assert made["spec"]["finalizers"] == ["kubernetes"]
    finalize = "/api/v1/namespaces/short/finalize"
    kept = await client.send("PUT", finalize, {**made, "spec": {"finalizers": ["example.com/mine"]}})
    assert (kept.code, kept.body["spec"]) == (200, {"finalizers": ["example.com/mine"]})
    await client.send("DELETE", "/api/v1/namespaces/short")
    refused = await client.send("PUT", finalize, {"metadata": {"name": "short"}, "spec": {"finalizers": ["mine"]}})
    assert refused.body["message"] == (
        'Namespace "short" is invalid: spec.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer '
        "name nor is it fully qualified"
    )
    old = await client.send("PUT", finalize, {**made, "spec": {}})
    assert (old.code, old.body["reason"]) == (409, "Conflict")
    assert (await client.send("DELETE", "/api/v1/namespaces/short")).body["spec"] == kept.body["spec"]

    ended = await client.send("PUT", finalize, {"metadata": {"name": "short"}, "spec": {}})

    assert (ended.code, ended.body["status"]["phase"]) == (200, "Terminating")
    assert (await client.get("/api/v1/namespaces/short")).code == 404


async def test_first_namespaces_stay(client: Client) -> None:
    answer = await client.send("DELETE", "/api/v1/namespaces/default")
    assert answer.code == 403
    assert answer.body["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'
