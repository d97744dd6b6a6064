"""What states of an object have in common is kept once, however many of them a watch may ask for."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.api.patching.apply import applied
from simkubelet.cluster.api.registry.kinds import kind_named
from simkubelet.cluster.api.registry.registry import Registry, _sharing
from simkubelet.cluster.controllers.namespaces import NamespaceController
from simkubelet.cluster.objects.objects import JSON, Objects, WallTime
from simkubelet.model.clock import ManualClock
from simkubelet.model.version import DEFAULT, version

CONFIG_MAPS = kind_named("configmaps")
NOW = "2026-01-02T03:04:05Z"
values = st.recursive(
    st.none() | st.integers(0, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)


@given(values, values)
def test_value_that_shares_parts_is_equal(new: object, old: object) -> None:
    given = copy.deepcopy((new, old))

    assert _sharing(new, old) == new
    assert (new, old) == given


@given(st.lists(values, max_size=4), values, st.integers(0, 4))
def test_list_shares_all_but_what_was_added(old: list[object], added: object, place: int) -> None:
    new = copy.deepcopy([*old[:place], added, *old[place:]])

    own = {id(inner) for inner in new if isinstance(inner, list | dict) and inner}
    assert sum(id(inner) in own for inner in _sharing(new, old)) <= 1


def test_states_of_an_object_share_what_its_other_managers_own() -> None:
    registry = Registry(Objects(WallTime(ManualClock())), {})
    NamespaceController(registry).ensure_namespaces()
    registry.create(CONFIG_MAPS, "default", {"metadata": {"name": "a"}})

    for number in range(60):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {f"k{number}": "v"}}

        def change(live: JSON, config: JSON = config, name: str = f"m{number}") -> JSON:
            return applied(live, config, CONFIG_MAPS, name, "", NOW, version(DEFAULT), force=True)

        registry.update(CONFIG_MAPS, "default", "a", change)

    states = [
        written.object["metadata"].get("managedFields", []) for written in registry.objects.since(0, "configmaps")
    ]
    assert len(states[-1]) == 60
    assert len({id(entry) for entries in states for entry in entries}) == 60
