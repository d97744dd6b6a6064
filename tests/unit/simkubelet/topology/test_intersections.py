from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.topology.hint import NumaMask
from simkubelet.topology.merging import intersections

# Sparse and dense families take different ways.
families = st.sets(st.integers(0, 255).map(NumaMask), max_size=6) | st.sets(
    st.sampled_from(range(64)).map(NumaMask), min_size=30
)


@pytest.mark.slow
@given(families, families)
def test_every_pair_is_intersected(left, right):
    assert intersections([left, right]) == {one & other for one in left for other in right}


@pytest.mark.slow
@given(st.lists(families, min_size=1, max_size=4), st.integers(0, 56))
def test_nodes_of_high_number_are_nodes_like_others(families, shift):
    shifted = [{NumaMask(mask << shift) for mask in family} for family in families]

    assert intersections(shifted) == {mask << shift for mask in intersections(families)}


def test_large_families_are_intersected_by_counting():
    wide = {NumaMask(mask) for mask in range(1 << 12)}

    assert intersections([wide, {mask << 6 for mask in wide}, wide]) == {mask for mask in wide if not mask & 63}
