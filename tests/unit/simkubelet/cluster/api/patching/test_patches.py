"""Merge patches, strategic merge patches and server-side apply, on their own."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.decoding.definitions import schema_of
from simkubelet.cluster.api.errors import StatusError
from simkubelet.cluster.api.patching.apply import applied
from simkubelet.cluster.api.patching.managed_fields import from_fields_v1, to_fields_v1
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
