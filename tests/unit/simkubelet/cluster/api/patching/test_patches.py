"""Merge patches, strategic merge patches and server-side apply, on their own."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.patching.apply import applied
from simkubelet.cluster.api.patching.managed_fields import (
    entries,
    from_fields_v1,
    managers_of,
    to_fields_v1,
    track_update,
)
from simkubelet.cluster.api.patching.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    MergeError,
    patched,
    read_patch,
    strategic_merge,
)
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.objects.objects import JSON, merge_patch
from simkubelet.model.version import DEFAULT, version

POD = schema_of("", "v1", "Pod")
NOW = "2026-01-02T03:04:05Z"


def strategic(original: JSON, patch: JSON) -> JSON:
    return strategic_merge(copy.deepcopy(original), copy.deepcopy(patch), POD)


def containers(*items: JSON) -> JSON:
    return {"spec": {"containers": list(items)}}


values = st.recursive(
    st.integers() | st.booleans() | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def difference(old: JSON, new: JSON) -> JSON:
    """A merge patch from one object to another."""
    patch: JSON = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            patch[key] = difference(before, value)
        elif before != value or type(before) is not type(value):
            patch[key] = value
    return patch


@given(objects, objects)
def test_merge_patch_of_a_difference_gives_the_other(old: JSON, new: JSON) -> None:
    assert merge_patch(old, difference(old, new)) == new


@given(objects, objects)
def test_merge_patch_applied_twice_is_applied_once(old: JSON, patch: JSON) -> None:
    once = merge_patch(old, patch)
    assert merge_patch(once, patch) == once


def test_containers_are_merged_by_name() -> None:
    before = containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    after = strategic(before, containers({"name": "b", "image": "2"}))
    assert after == containers({"name": "a", "image": "1"}, {"name": "b", "image": "2"})


def test_element_is_deleted_by_its_key() -> None:
    before = containers({"name": "a"}, {"name": "b"})
    assert strategic(before, containers({"$patch": "delete", "name": "a"})) == containers({"name": "b"})


def test_list_is_replaced_where_the_patch_says_so() -> None:
    before = containers({"name": "a"}, {"name": "b"})
    assert strategic(before, containers({"$patch": "replace"}, {"name": "c"})) == containers({"name": "c"})


def test_atomic_list_is_replaced() -> None:
    before = containers({"name": "a", "command": ["x", "y"]})
    after = strategic(before, containers({"name": "a", "command": ["z"]}))
    assert after == containers({"name": "a", "command": ["z"]})


def test_values_are_deleted_from_a_list_of_values() -> None:
    before = {"metadata": {"finalizers": ["a", "b", "c"]}}
    after = strategic(before, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"], "finalizers": ["d"]}})
    assert set(after["metadata"]["finalizers"]) == {"a", "c", "d"}


def test_order_is_what_the_patch_says() -> None:
    before = containers({"name": "a"}, {"name": "b"}, {"name": "server"})
    patch = {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}
    names = [container["name"] for container in strategic(before, patch)["spec"]["containers"]]
    assert names.index("b") < names.index("a")
    assert sorted(names) == ["a", "b", "server"]


def test_retained_keys_are_all_that_stays() -> None:
    before = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}}
    assert strategic(before, patch) == {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}}


def test_map_is_replaced_or_deleted_where_the_patch_says_so() -> None:
    before = {"metadata": {"labels": {"a": "1"}}}
    replaced = strategic(before, {"metadata": {"labels": {"$patch": "replace", "b": "2"}}})
    assert replaced == {"metadata": {"labels": {"b": "2"}}}
    assert strategic(before, {"metadata": {"labels": {"$patch": "delete"}}}) == {"metadata": {"labels": {}}}


def test_element_without_its_key_is_refused() -> None:
    with pytest.raises(MergeError, match=r"map: map\[image:x\] does not contain declared merge key: name"):
        strategic(containers({"name": "a"}), containers({"image": "x"}))


@given(
    st.dictionaries(st.sampled_from("abcd"), st.text("xyz", max_size=2)),
    st.dictionaries(st.sampled_from("abcd"), st.text("xyz", max_size=2)),
)
def test_strategic_merge_of_containers_is_a_union_by_name(old: dict[str, str], new: dict[str, str]) -> None:
    def listed(images: dict[str, str]) -> JSON:
        return containers(*({"name": name, "image": image} for name, image in images.items()))

    after = strategic(listed(old), listed(new))
    assert {one["name"]: one["image"] for one in after["spec"]["containers"]} == {**old, **new}
    assert strategic(after, listed(new)) == after


def apply(live: JSON, config: JSON, manager: str, *, force: bool = False) -> JSON:
    return applied(live, config, kind_named("pods"), manager, "", NOW, version(DEFAULT), force=force)


def test_what_a_manager_no_longer_names_goes() -> None:
    first = apply({}, {"metadata": {"labels": {"a": "1", "b": "1"}}}, "me")
    second = apply(first, {"metadata": {"labels": {"a": "1"}}}, "me")
    assert second["metadata"]["labels"] == {"a": "1"}


def test_what_another_manager_names_too_stays() -> None:
    both = {"metadata": {"labels": {"a": "1"}}}
    shared = apply(apply({}, both, "me"), both, "you")
    assert apply(shared, {"metadata": {}}, "me")["metadata"]["labels"] == {"a": "1"}


def test_element_that_a_manager_no_longer_names_goes() -> None:
    first = apply({}, containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"}), "me")
    second = apply(first, containers({"name": "b", "image": "1"}), "me")
    assert [container["name"] for container in second["spec"]["containers"]] == ["b"]


def test_another_managers_value_is_a_conflict_unless_forced() -> None:
    live = apply({}, containers({"name": "a", "image": "1"}), "them")
    change = containers({"name": "a", "image": "2"})
    with pytest.raises(StatusError) as raised:
        apply(live, change, "me")
    assert str(raised.value) == ('Apply failed with 1 conflict: conflict with "them": .spec.containers[name="a"].image')
    forced = apply(live, change, "me", force=True)
    assert forced["spec"]["containers"][0]["image"] == "2"
    theirs = next(entry for entry in forced["metadata"]["managedFields"] if entry["manager"] == "them")
    assert "image" not in json.dumps(theirs["fieldsV1"])


def test_the_same_value_is_no_conflict() -> None:
    live = apply({}, containers({"name": "a", "image": "1"}), "them")
    assert apply(live, containers({"name": "a", "image": "1"}), "me")["spec"] == live["spec"]


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def client_side(image: str, stored: str) -> JSON:
    """A pod that client-side apply gave one image, and that has another, perhaps."""
    config = {"apiVersion": "v1", "kind": "Pod", **containers({"name": "a", "image": image})}
    body = {"metadata": {"annotations": {LAST_APPLIED: json.dumps(config)}}}
    return {**apply(body, containers({"name": "a", "image": stored}), "kubectl-client-side-apply"), "apiVersion": "v1"}


def test_kubectl_takes_over_what_client_side_apply_set() -> None:
    config: JSON = {"metadata": {"name": "p"}, **containers({"name": "a", "image": "2"})}
    new = apply(client_side("1", "1"), config, "kubectl")

    assert new["spec"]["containers"][0]["image"] == "2"
    assert json.loads(new["metadata"]["annotations"][LAST_APPLIED]) == config


@pytest.mark.parametrize(("manager", "stored"), [("me", "1"), ("kubectl", "3")])
def test_others_do_not_nor_does_kubectl_what_was_changed_since(manager: str, stored: str) -> None:
    with pytest.raises(StatusError, match="1 conflict"):
        apply(client_side("1", stored), containers({"name": "a", "image": "2"}), manager)


def test_entry_of_who_changed_nothing_has_no_time() -> None:
    live = apply({}, containers({"name": "a", "image": "1"}), "them")
    shared = apply(live, containers({"name": "a", "image": "1"}), "me")
    assert {entry["manager"]: entry.get("time") for entry in shared["metadata"]["managedFields"]} == {
        "them": NOW,
        "me": None,
    }


def test_long_lists_are_merged_without_looking_at_every_pair() -> None:
    named = [{"name": f"c{number}"} for number in range(20_000)]

    merged = strategic_merge(containers(*named[::2]), containers(*named), POD)

    assert merged == containers(*named)


def test_merged_texts_stand_once_and_new_ones_come_first() -> None:
    merged = strategic({"metadata": {"finalizers": ["a", "b", "a"]}}, {"metadata": {"finalizers": ["c", "b", "c"]}})

    assert merged["metadata"]["finalizers"] == ["c", "a", "b"]


def json_patch(obj: JSON, *operations: JSON) -> JSON:
    return patched(JSON_PATCH, read_patch(json.dumps(operations).encode(), JSON_PATCH), obj, None)[0]


def test_field_that_is_replaced_need_not_be_there() -> None:
    assert json_patch({}, {"op": "replace", "path": "/a", "value": 1}) == {"a": 1}


@pytest.mark.parametrize("path", ["/a/1", "/b/c", "a"])
def test_element_that_is_replaced_must_be_there(path: str) -> None:
    with pytest.raises(StatusError, match="the server rejected our request"):
        json_patch({"a": [1]}, {"op": "replace", "path": path, "value": 1})


@pytest.mark.parametrize(
    ("type_", "body", "words"),
    [
        (JSON_PATCH, b"{}", "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (MERGE_PATCH, b"[]", "cannot unmarshal array into Go value of type map[string]interface {}"),
        (MERGE_PATCH, b"nil", "invalid character 'i' in literal null (expecting 'u')"),
    ],
)
def test_patch_of_another_form_is_refused(type_: str, body: bytes, words: str) -> None:
    with pytest.raises(StatusError) as raised:
        read_patch(body, type_)
    assert words in str(raised.value)


paths = st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), min_size=1, max_size=4).map(tuple)


@given(st.frozensets(paths, max_size=8))
def test_field_sets_survive_being_written(fields: frozenset[tuple[str, ...]]) -> None:
    assert from_fields_v1(to_fields_v1(fields)) == fields


@given(st.dictionaries(st.sampled_from("ab"), st.text("xy")))
def test_applying_twice_changes_nothing(annotations: dict[str, str]) -> None:
    config = {"metadata": {"annotations": annotations}}
    once = apply({}, config, "me")
    assert apply(once, config, "me") == once


def quickly(work: Callable[[], Any]) -> Any:
    """What some work returns; it fails where it takes much longer than work in proportion to its input."""
    began = time.process_time()
    result = work()
    assert time.process_time() - began < QUICKLY_S
    return result


MANY = 20_000
QUICKLY_S = 3.0
"""Seconds of processor time; what grows with the square of its input takes ten times as long."""


def test_many_values_are_deleted_from_a_long_list() -> None:
    names = [f"a.b/{number}" for number in range(MANY)]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": names[1:]}}

    after = quickly(lambda: strategic({"metadata": {"finalizers": names}}, patch))

    assert after == {"metadata": {"finalizers": names[:1]}}


def test_many_elements_are_deleted_by_their_keys() -> None:
    items = [{"name": str(number)} for number in range(MANY)]
    patch = containers(*({"$patch": "delete", **item} for item in items[1:]))

    after = quickly(lambda: strategic(containers(*items), patch))

    assert after == containers(items[0])


def test_large_part_is_moved_often() -> None:
    there, back = "/metadata/annotations", "/metadata/labels"
    big = {str(number): "" for number in range(MANY)}
    moves = [{"op": "move", "from": one, "path": other} for one, other in [(there, back), (back, there)] * 2000]

    after, _ = quickly(lambda: patched(JSON_PATCH, moves, {"metadata": {"annotations": big}}, POD))

    assert after == {"metadata": {"annotations": big}}


def test_large_part_is_moved_to_deeper_places_as_long_as_it_is_cheap() -> None:
    big = {str(number): "" for number in range(MANY)}
    moves = [
        {"op": "add", "path": "/metadata/x", "value": {}},
        *(
            {"op": "move", "from": one, "path": other}
            for one, other in [("/metadata/b", "/metadata/x/b"), ("/metadata/x/b", "/metadata/b")] * 2000
        ),
    ]

    with pytest.raises(StatusError) as refused:
        quickly(lambda: patched(JSON_PATCH, moves, {"metadata": {"b": big}}, POD))
    assert refused.value.code == 422


def test_moves_make_no_deep_object() -> None:
    moves = [
        operation
        for _ in range(300)
        for operation in (
            {"op": "add", "path": "/metadata/x", "value": {}},
            {"op": "move", "from": "/metadata/b", "path": "/metadata/x/b"},
            {"op": "move", "from": "/metadata/x", "path": "/metadata/b"},
        )
    ]

    with pytest.raises(StatusError) as refused:
        patched(JSON_PATCH, moves, {"metadata": {"b": {}}}, POD)
    assert refused.value.code == 422


@pytest.mark.parametrize("value", [5, "x", {}, None, True])
def test_values_to_delete_that_are_no_list_delete_nothing(value: object) -> None:
    before = {"metadata": {"finalizers": ["a"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": value}}

    assert strategic(before, patch) == ({"metadata": {}} if value is None else before)


@pytest.mark.parametrize("keys", [5, "x", {}, [[]], [{}], [5]])
def test_keys_to_retain_that_are_no_names_are_refused(keys: object) -> None:
    with pytest.raises(MergeError, match="invalid patch format of retainKeys"):
        strategic({"spec": {}}, {"spec": {"$retainKeys": keys, "x": 1}})


@pytest.mark.parametrize("name", ["labels", "finalizers"])
def test_many_fields_are_given_up(name: str) -> None:
    def config(first: int) -> JSON:
        keys = [f"a.b/{first + number}" for number in range(MANY)]
        return {"metadata": {"name": "p", name: keys if name == "finalizers" else dict.fromkeys(keys, "")}}

    both = apply(apply({}, config(0), "me"), config(MANY), "you", force=True)

    after = quickly(lambda: apply(both, {"metadata": {"name": "p"}}, "me", force=True))

    assert after["metadata"][name] == config(MANY)["metadata"][name]


def test_managers_of_many_versions_cost_no_comparison_each() -> None:
    entry = {"operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:x": {}}}}
    managers = [{**entry, "manager": "m", "apiVersion": f"v{number}"} for number in range(2000)]
    labels = {str(number): "" for number in range(2000)}
    live = {"metadata": {"name": "p", "labels": labels, "managedFields": managers}}

    quickly(lambda: apply(live, {"metadata": {"name": "p"}}, "me", force=True))


def updated(names: list[str], subresource: str = "") -> JSON:
    """A config map to which each of these managers has added a field, one a second."""
    found: JSON = {"metadata": {"name": "a"}}
    for second, name in enumerate(names):
        new = {**copy.deepcopy(found), "data": {**found.get("data", {}), name: "x"}}
        now = f"2026-01-02T03:{second // 60:02}:{second % 60:02}Z"
        track_update(new, found, kind_named("configmaps"), name, subresource, now, version(DEFAULT))
        found = new
    return found


@pytest.mark.parametrize(
    ("count", "kept"),
    [
        (10, [f"m{at:03}" for at in range(10)]),
        (11, ["ancient-changes", *(f"m{at:03}" for at in range(2, 11))]),
        (60, ["ancient-changes", *(f"m{at:03}" for at in range(51, 60))]),
    ],
)
def test_oldest_updates_beyond_ten_are_of_one_manager(count: int, kept: list[str]) -> None:
    names = [f"m{at:03}" for at in range(count)]

    found = updated(names)

    managers = managers_of(found)
    assert [manager.name for manager in managers] == kept
    fields = [path[1] for owned, _ in managers.values() for path in owned if len(path) == 2]
    assert sorted(fields) == [f"f:{name}" for name in names]
    if count > len(kept):
        assert found["metadata"]["managedFields"][0]["time"].endswith(f"{(count - 10) % 60:02}Z")


def test_updates_of_each_version_have_a_manager_of_their_own() -> None:
    fields = {"f:metadata": {"f:labels": {"f:l": {}}}}
    versions = ["v1", "v1beta1"]
    old: JSON = {"metadata": {"name": "a", "managedFields": [
        {"manager": f"m{at:02}", "operation": "Update", "apiVersion": f"resource.k8s.io/{versions[at % 2]}",
         "time": f"2026-01-02T03:04:{at:02}Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
        for at in range(12)
    ]}}  # fmt: skip
    new = copy.deepcopy(old)

    track_update(new, old, kind_named("deviceclasses.resource.k8s.io"), "m11", "", NOW, version(DEFAULT))

    managers = managers_of(new)
    ancient = [one.api_version for one in managers if one.name == "ancient-changes"]
    assert sorted(ancient) == [f"resource.k8s.io/{one}" for one in versions]
    assert len(managers) == 10
    assert new["metadata"]["managedFields"] == entries(managers)
