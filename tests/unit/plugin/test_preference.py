"""Fed in: link graphs, and replicas that are there and free; observed: which devices are preferred.

The oracle of the aligned policy walks every division, as the original does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin import preference
from plugin.framework import DeviceID
from plugin.preference import (
    NotEnoughDevicesError,
    aligned_set,
    distributed_devices,
    is_replica,
    replica_id,
    replicated_id,
)

_TWO_SOCKETS = [[0 if i == j else 20 if i // 4 == j // 4 else 10 for j in range(8)] for i in range(8)]


def _divisions(gpus: tuple[int, ...], size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    if len(gpus) == size:
        yield (gpus,)
        return
    padding = gpus.count(-1)
    first, *others = gpus
    for rest in combinations(others, size - 1):
        if rest.count(-1) in (0, padding):
            left = tuple(gpu for gpu in others if gpu not in rest)
            for tail in _divisions(left, size):
                yield ((first, *rest), *tail)


def _oracle(available: Sequence[int], required: set[int], size: int, scores: list[list[int]]) -> tuple[int, ...]:
    def score(gpus: tuple[int, ...]) -> int:
        return sum(scores[a][b] for a, b in combinations(gpus, 2) if -1 not in (a, b))

    def answers(division: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
        return [gpus for gpus in division if required <= set(gpus) and -1 not in gpus]

    padded = (*available, *[-1] * (-len(available) % size))
    possible = [division for division in _divisions(padded, size) if answers(division)]
    if not possible:
        return ()
    best = max(possible, key=lambda division: sum(map(score, division)))
    return max(answers(best), key=score)


@st.composite
def _questions(draw: st.DrawFn) -> tuple[list[int], set[int], int, list[list[int]]]:
    count = draw(st.integers(2, 7))
    score = st.sampled_from([10, 20, 50, 110, 1850])
    scores = [[0] * count for _ in range(count)]
    for a, b in combinations(range(count), 2):
        scores[a][b] = scores[b][a] = draw(score)
    available = draw(st.permutations(range(count)))
    size = draw(st.integers(2, count))
    required = set(draw(st.lists(st.sampled_from(available), max_size=size, unique=True)))
    return list(available), required, size, scores


@given(_questions())
@settings(max_examples=60, deadline=None)
def test_search_finds_what_walking_every_division_finds(
    question: tuple[list[int], set[int], int, list[list[int]]],
) -> None:
    available, required, size, scores = question

    assert aligned_set(available, sorted(required), size, scores) == _oracle(available, required, size, scores)


@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        pytest.param([3, 1, 2], [], 1, (3,), id="one: the first available"),
        pytest.param([3, 1, 2], [2], 1, (2,), id="one: the required"),
        pytest.param([3, 1, 2], [0], 1, (), id="one: the required is not available"),
        pytest.param([0, 1], [], 0, (), id="none asked"),
        pytest.param([0, 1], [], -1, (), id="less than none asked"),
        pytest.param([0, 1], [], 3, (), id="too few available"),
        pytest.param([0, 1, 2], [0, 1, 2], 2, (), id="more required than asked"),
        pytest.param([0, 1, 2], [7], 2, (), id="required is not available"),
        pytest.param([0, 4, 1, 5], [], 2, (0, 1), id="two of one socket"),
        pytest.param([0, 4, 1, 5], [5], 2, (4, 5), id="two of the socket of the required one"),
        pytest.param([0, 4, 5], [], 2, (4, 5), id="a short set is never the answer"),
        pytest.param([7, 6, 5, 4, 3, 2, 1, 0], [], 4, (7, 6, 5, 4), id="the first of equal sets"),
        pytest.param([0, 1, 2, 3, 4, 5, 6, 7], [2, 6], 2, (2, 6), id="required ones of two sockets"),
        pytest.param(list(range(8)), [], 8, tuple(range(8)), id="all"),
        pytest.param([1, 1, 1], [], 2, (), id="too few different ones available"),
    ],
)
def test_preferred_set(available: list[int], required: list[int], size: int, expected: tuple[int, ...]) -> None:
    assert aligned_set(available, required, size, _TWO_SOCKETS) == expected


def test_what_is_left_counts_as_much_as_what_is_taken() -> None:
    # 0-1 is the strongest pair, but taking it would leave 2 and 3, which hardly know each other.
    scores = [[0, 60, 50, 10], [60, 0, 10, 50], [50, 10, 0, 10], [10, 50, 10, 0]]

    assert aligned_set([0, 1, 2, 3], [], 2, scores) == (0, 2)


def test_search_of_many_gpus_ends_at_its_limit_with_a_full_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference, "SEARCH_LIMIT", 500)
    scores = [[0 if i == j else (i * 7 + j * 7 + i * j) % 97 for j in range(64)] for i in range(64)]

    chosen = aligned_set(list(range(64)), [63], 5, scores)

    assert len(set(chosen)) == 5
    assert 63 in chosen


def test_search_with_scattered_required_gpus_keeps_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference, "SEARCH_LIMIT", 500)
    scores = [[0 if i == j else 20 if i // 8 == j // 8 else 10 for j in range(64)] for i in range(64)]
    required = frozenset(range(0, 64, 8))
    search = preference._Search(range(64), required, 16, scores)

    division = search.best_division()

    assert search.visited <= 500
    assert sorted(gpu for gpus in division for gpu in gpus) == list(range(64))
    assert [len(gpus) for gpus in division] == [16] * 4
    assert any(required <= set(gpus) for gpus in division)


def _replicas(gpus: int, each: int) -> list[DeviceID]:
    return [replica_id(f"GPU-{gpu}", number) for gpu in range(gpus) for number in range(each)]


def _ids(*names: str) -> list[DeviceID]:
    return [DeviceID(name) for name in names]


def test_gpu_with_fewest_replicas_in_use_comes_first() -> None:
    free = _ids("GPU-0::1", "GPU-1::0", "GPU-1::1")

    assert distributed_devices(_replicas(2, 2), free, [], 2) == _ids("GPU-1::0", "GPU-0::1")


def test_required_replicas_lead_and_count_as_in_use() -> None:
    devices = _replicas(2, 2)

    assert distributed_devices(devices, devices, _ids("GPU-0::1"), 2) == _ids("GPU-0::1", "GPU-1::0")


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_all_required_replicas_come_back_also_when_fewer_are_asked_for(size: int) -> None:
    required = _ids("GPU-0::0", "GPU-1::0")

    assert distributed_devices(_replicas(2, 2), required, required, size) == required


def test_too_few_available_devices_are_refused() -> None:
    with pytest.raises(NotEnoughDevicesError, match="not enough available devices to satisfy allocation"):
        distributed_devices(_replicas(1, 2), _ids("GPU-0::0", "unknown"), [], 2)


@given(gpus=st.integers(1, 4), each=st.integers(1, 4), data=st.data())
def test_use_of_gpus_never_differs_by_more_than_it_must(gpus: int, each: int, data: st.DataObject) -> None:
    devices = _replicas(gpus, each)
    free = data.draw(st.lists(st.sampled_from(devices), unique=True))
    size = data.draw(st.integers(0, len(free)))

    chosen = distributed_devices(devices, free, [], size)

    assert len(set(chosen)) == size
    assert set(chosen) <= set(free)
    left = Counter(replicated_id(device) for device in set(free) - set(chosen))
    used = Counter(replicated_id(device) for device in set(devices) - set(free) | set(chosen))
    picked = Counter(map(replicated_id, chosen))
    # Nothing was taken from a GPU while another with a free replica had fewer in use.
    assert all(used[gpu] - 1 <= used[other] for gpu in picked for other in left)


def test_only_what_has_a_number_is_a_replica() -> None:
    assert is_replica(replica_id("MIG-a", 7))
    assert not is_replica(DeviceID("MIG-a"))
    assert replicated_id(DeviceID("MIG-a::7")) == replicated_id(DeviceID("MIG-a")) == "MIG-a"
