"""The merge against its definition: every combination formed, the best kept by the kubelet's pairwise comparison."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.topology.hint import (
    EndlessEnumerationError,
    NumaMask,
    TopologyHint,
    Walk,
    best_hint,
    intersections,
    masks_over,
    narrowness,
    nodes_in,
    numa_mask,
)

NODES = 4
MACHINE = numa_mask(range(NODES))

masks = st.integers(1, MACHINE).map(NumaMask)
hints = st.builds(TopologyHint, st.none() | masks, st.booleans())
resources = st.lists(st.lists(hints, max_size=5), max_size=4)
distances = st.lists(st.lists(st.integers(10, 13), min_size=NODES, max_size=NODES), min_size=NODES, max_size=NODES)


def hint(*nodes: int, preferred: bool) -> TopologyHint:
    return TopologyHint(numa_mask(nodes), preferred)


def closeness(table):
    def fitness(mask: NumaMask) -> tuple[int, int, int]:
        nodes = nodes_in(mask)
        return len(nodes), sum(table[a][b] for a in nodes for b in nodes), mask

    return fitness


def specified(resources, machine: NumaMask, fitness) -> TopologyHint:
    """One combination after the other, as the kubelet meets them."""
    counts = [[h.nodes.bit_count() for h in each if h.nodes is not None] for each in resources]
    wanted = max((min(each) for each in counts if each), default=0)
    best: TopologyHint | None = None
    for combination in product(*resources):
        named = [h.nodes for h in combination if h.nodes is not None]
        mask = machine
        for each in named:
            mask = NumaMask(mask & each)
        preferred = all(h.preferred for h in combination) and len(set(named)) <= 1
        if mask and (best is None or replaces(TopologyHint(mask, preferred), best, wanted, fitness)):
            best = TopologyHint(mask, preferred)
    return best or TopologyHint(machine, preferred=False)


def replaces(candidate: TopologyHint, current: TopologyHint, wanted: int, fitness) -> bool:
    if candidate.preferred != current.preferred:
        return candidate.preferred
    is_fitter = fitness(candidate.nodes) < fitness(current.nodes)
    new, old = candidate.nodes.bit_count(), current.nodes.bit_count()
    if current.preferred or old > wanted:
        return is_fitter
    if new > wanted:
        return False
    return is_fitter if new == old else new > old


@pytest.mark.slow
@given(resources)
def test_merge_is_the_best_of_all_combinations(resources):
    assert best_hint(resources, MACHINE, narrowness) == specified(resources, MACHINE, narrowness)


@pytest.mark.slow
@given(resources, distances)
def test_merge_by_distance_is_the_best_of_all_combinations(resources, distances):
    fitness = closeness(distances)

    assert best_hint(resources, MACHINE, fitness) == specified(resources, MACHINE, fitness)


@pytest.mark.slow
@given(resources, st.integers(0, MACHINE).map(NumaMask))
def test_hints_beyond_the_machine_are_cut_to_it(resources, machine):
    assert best_hint(resources, machine, narrowness) == specified(resources, machine, narrowness)


@pytest.mark.slow
@given(resources, st.randoms(use_true_random=False))
def test_order_of_resources_and_hints_does_not_matter(resources, random):
    shuffled = [random.sample(each, len(each)) for each in random.sample(resources, len(resources))]

    assert best_hint(shuffled, MACHINE, narrowness) == best_hint(resources, MACHINE, narrowness)


@pytest.mark.slow
@given(resources)
def test_resource_that_takes_any_node_changes_nothing(resources):
    with_any = [*resources, [TopologyHint(preferred=True)]]

    assert best_hint(with_any, MACHINE, narrowness) == best_hint(resources, MACHINE, narrowness)


@pytest.mark.slow
@given(resources, st.permutations(range(NODES)))
def test_renumbered_nodes_give_a_hint_of_the_same_size(resources, number):
    def renumbered(hint: TopologyHint) -> TopologyHint:
        return TopologyHint(
            None if hint.nodes is None else numa_mask(number[n] for n in nodes_in(hint.nodes)), hint.preferred
        )

    before = best_hint(resources, MACHINE, narrowness)
    after = best_hint([[renumbered(h) for h in each] for each in resources], MACHINE, narrowness)

    assert after.preferred == before.preferred
    assert after.nodes.bit_count() == before.nodes.bit_count()


@pytest.mark.parametrize(
    ("resources", "best"),
    [
        pytest.param([], hint(0, 1, 2, 3, preferred=True), id="nobody asks for anything"),
        pytest.param([[]], hint(0, 1, 2, 3, preferred=False), id="a resource without any hint"),
        pytest.param([[hint(2, preferred=True), hint(1, preferred=True)]], hint(1, preferred=True), id="lower node"),
        pytest.param(
            [[hint(0, preferred=True)], [hint(1, preferred=True)]],
            hint(0, 1, 2, 3, preferred=False),
            id="nothing in common",
        ),
        pytest.param(
            [[hint(0, 1, preferred=True)], [hint(0, preferred=False), hint(0, 1, preferred=False)]],
            hint(0, 1, preferred=False),
            id="not preferred: as many nodes as the widest need",
        ),
        pytest.param(
            [[hint(0, 1, 2, preferred=False)], [hint(0, preferred=False), hint(1, 2, preferred=False)]],
            hint(1, 2, preferred=False),
            id="not preferred: the next smaller size rather than a wider one",
        ),
    ],
)
def test_best_hint_of_known_cases(resources, best):
    assert best_hint(resources, MACHINE, narrowness) == best


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6, 7, 8])
def test_no_machine_of_eight_nodes_takes_long(count):
    every = [TopologyHint(mask, preferred=False) for mask in masks_over(range(count))]
    took_s = []
    for _ in range(3):
        started = time.process_time()
        best = best_hint([every] * 3, numa_mask(range(count)), narrowness)
        took_s.append(time.process_time() - started)

        assert best == TopologyHint(NumaMask(1), preferred=False)
    # Python may collect the garbage of other tests meanwhile.
    assert min(took_s) < 0.1


def test_merge_that_keeps_the_kubelet_for_minutes_is_reported():
    every = [TopologyHint(mask, preferred=False) for mask in masks_over(range(8))]

    with pytest.raises(EndlessEnumerationError, match="4228250625 combinations of hints") as raised:
        best_hint([every] * 4, numa_mask(range(8)), narrowness)

    assert raised.value.walk is Walk.COMBINATIONS


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
