"""Events are the same objects in core and in events.k8s.io, each with its own names and rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.registry.event_forms import core_event, new_event
from simkubelet.cluster.objects.objects import JSON

from ..conftest import Client

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"


def core(name: str, **fields: object) -> JSON:
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": involved, "reason": "R", "message": "M", **fields}


def new(name: str, **fields: object) -> JSON:
    return {
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "R",
        "note": "M",
        "type": "Normal",
        "action": "A",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
        **fields,
    }


async def test_event_of_core_is_read_in_the_other_form(client: Client) -> None:
    await client.post(CORE, core("e", count=3, source={"component": "kubelet"}))

    event = (await client.get(f"{NEW}/e")).body

    assert (event["apiVersion"], event["note"], event["deprecatedCount"]) == ("events.k8s.io/v1", "M", 3)
    assert event["regarding"]["name"] == "p"
    assert event["deprecatedSource"] == {"component": "kubelet"}
    assert "involvedObject" not in event


async def test_event_of_the_other_form_is_read_in_cores(client: Client) -> None:
    assert (await client.post(NEW, new("e"))).code == 201

    event = (await client.get(f"{CORE}/e")).body

    assert (event["message"], event["reportingComponent"], event["type"]) == ("M", "example.com/me", "Normal")


async def test_lists_watches_and_selectors_have_the_forms_names(client: Client) -> None:
    await client.post(CORE, core("e"))

    listed = (await client.get(NEW, params={"fieldSelector": "regarding.name=p"})).body
    assert (listed["kind"], [item["note"] for item in listed["items"]]) == ("EventList", ["M"])
    assert (await client.get(NEW, params={"fieldSelector": "involvedObject.name=p"})).code == 400
    async with client.watch(NEW) as watch:
        type_, event = await watch.next()
    assert (type_, event["note"]) == ("ADDED", "M")


async def test_patch_is_of_the_forms_fields(client: Client) -> None:
    await client.post(NEW, new("e"))
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}

    assert (await client.patch(f"{NEW}/e", series, "merge-patch+json")).code == 200
    assert (await client.get(f"{CORE}/e")).body["series"]["count"] == 2
    refused = await client.patch(f"{NEW}/e", {"note": "other"}, "merge-patch+json")
    assert refused.body["message"] == 'Event "e" is invalid: message: Invalid value: "other": field is immutable'


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("eventTime", None, "eventTime: Required value"),
        ("type", "Other", 'type: Invalid value: "": has invalid value: Other'),
        ("action", "", "action: Required value"),
        ("reason", "r" * 129, 'reason: Invalid value: "": can have at most 128 characters'),
        ("note", "n" * 1025, 'message: Invalid value: "": can have at most 1024 characters'),
        ("deprecatedCount", 1, 'count: Invalid value: "": needs to be unset'),
        ("series", {"count": 1}, 'series.count: Invalid value: "": should be at least 2'),
    ],
)
async def test_rules_of_the_new_form(client: Client, field: str, value: object, message: str) -> None:
    answer = await client.post(NEW, new("e", **{field: value}))
    assert answer.code == 422
    assert message in answer.body["message"]


async def test_event_is_in_the_namespace_of_what_it_is_about(client: Client) -> None:
    assert (await client.post(CORE, core("e", involvedObject={"kind": "Node", "name": "n"}))).code == 201
    elsewhere = core("f", involvedObject={"kind": "Pod", "name": "p", "namespace": "kube-system"})
    assert (await client.post(CORE, elsewhere)).code == 422


NAMES = st.sampled_from(["message", "count", "type", "source", "involvedObject", "reason"])


@given(st.dictionaries(NAMES, st.text(min_size=1)))
def test_both_forms_say_the_same(event: JSON) -> None:
    assert core_event(new_event(event)) == event
