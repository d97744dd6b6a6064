"""The size of a state follows from the one before it as it does from the state alone."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster.objects import stored_sizes
from simkubelet.cluster.objects.stored_sizes import sized


def states() -> st.SearchStrategy[dict[str, Any]]:
    leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
    maps = partial(st.dictionaries, st.sampled_from(["a", "b", "c", "fieldsV1"]))
    return maps(st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | maps(inner), max_leaves=12))


@given(states(), states(), st.integers(0, 3))
def test_size_is_the_same_with_and_without_the_state_before(
    old: dict[str, Any], new: dict[str, Any], most: int
) -> None:
    with patch.object(stored_sizes, "_MOST_FIELDS", most):
        for before, after in ((old, new), ({"a": old, "b": [old, new]}, {"a": new, "b": [old, new]})):
            assert sized(after, sized(before, None)) == sized(after, None)
