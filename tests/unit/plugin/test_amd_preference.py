"""Fed in: what is available and required on a node; observed: the preferred devices.

The cases are those of the tests of AMD's plugin, on the same topologies; the oracle tries GPUs in every order, as the
original does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakegpu.vendors.amd.machine import write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from plugin.amd.discovery import AmdGpu, KfdLink, find_gpus, read_links
from plugin.amd.preference import PairWeights, PreferenceError, pair_weights, preferred_devices
from plugin.framework import DeviceID


def _asked(root: Path, profile: str, compute: str) -> tuple[dict[DeviceID, AmdGpu], PairWeights]:
    write_amd(root, load_amd_profile(profile), 8, compute=compute)
    gpus = find_gpus(root / "sys")
    return gpus, pair_weights(gpus.values(), read_links(root / "sys"))


@pytest.fixture(scope="module")
def mi210(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[DeviceID, AmdGpu], PairWeights]:
    return _asked(tmp_path_factory.mktemp("mi210"), "mi210", "spx")


@pytest.fixture(scope="module")
def mi300x(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[DeviceID, AmdGpu], PairWeights]:
    return _asked(tmp_path_factory.mktemp("mi300x"), "mi300x", "cpx")


def _ids(names: Sequence[str]) -> list[DeviceID]:
    return [DeviceID(name) for name in names]


_FIRST_HIVE = ["0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]
_SECOND_HIVE = ["0000:83:00.0", "0000:a3:00.0", "0000:c3:00.0", "0000:e3:00.0"]


@pytest.mark.parametrize(
    ("available", "size", "expected"),
    [
        pytest.param(_FIRST_HIVE + _SECOND_HIVE, 1, _FIRST_HIVE[:1], id="one"),
        pytest.param(_FIRST_HIVE + _SECOND_HIVE, 3, _FIRST_HIVE[:3], id="three of one hive"),
        pytest.param(_FIRST_HIVE + _SECOND_HIVE, 5, [*_FIRST_HIVE, _SECOND_HIVE[0]], id="a whole hive and one more"),
        pytest.param(_FIRST_HIVE[2:] + _SECOND_HIVE, 3, _SECOND_HIVE[:3], id="the hive with enough left"),
    ],
)
def test_gpus_of_one_hive_go_together(
    mi210: tuple[dict[DeviceID, AmdGpu], PairWeights], available: list[str], size: int, expected: list[str]
) -> None:
    assert sorted(preferred_devices(*mi210, _ids(available), [], size)) == expected


def _part(gpu: int, part: int) -> str:
    addresses = ["05", "27", "47", "65", "85", "a7", "c7", "e5"]
    return f"amdgpu_xcp_{(gpu - 1) * 7 + part - 1}" if part else f"0000:{addresses[gpu - 1]}:00.0"


def _parts(gpu: int, *parts: int) -> list[str]:
    return [_part(gpu, part) for part in parts]


_ALL_BUT_ONE = [_part(gpu, part) for gpu in range(1, 9) for part in range(8) if (gpu, part) != (8, 7)]


def _without(*left_out: str) -> list[str]:
    return [name for name in _ALL_BUT_ONE if name not in left_out]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("available", "required", "size", "expected"),
    [
        pytest.param(_ALL_BUT_ONE, [], 1, _parts(8, 0), id="one of the GPU with the fewest"),
        pytest.param(_ALL_BUT_ONE, [], 3, _parts(8, 0, 1, 2), id="three"),
        pytest.param(_ALL_BUT_ONE, [], 7, _parts(8, *range(7)), id="all that the GPU has left"),
        pytest.param(_ALL_BUT_ONE, [], 8, _parts(1, *range(8)), id="a whole GPU"),
        pytest.param([_part(gpu, 0) for gpu in range(3, 9)], [], 3, [_part(gpu, 0) for gpu in (5, 6, 7)], id="NUMA"),
        pytest.param(
            [_part(gpu, 0) for gpu in range(3, 9)], _parts(5, 0), 3, [_part(gpu, 0) for gpu in (5, 6, 7)], id="required"
        ),
        pytest.param(_without(*_parts(8, 0, 1, 2)), [], 4, _parts(8, 3, 4, 5, 6), id="the rest of a GPU"),
        pytest.param(
            _without(_part(1, 0), _part(2, 0), _part(3, 0), _part(4, 0), *_parts(8, 0, 1)),
            [],
            10,
            [*_parts(5, *range(8)), *_parts(8, 2, 3)],
            id="a whole GPU and a part of the smallest on its NUMA node",
        ),
    ],
)
def test_partitions_of_one_gpu_go_together(
    mi300x: tuple[dict[DeviceID, AmdGpu], PairWeights],
    available: list[str],
    required: list[str],
    size: int,
    expected: list[str],
) -> None:
    assert sorted(preferred_devices(*mi300x, _ids(available), _ids(required), size)) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("size", [12, 30, 60])
def test_many_partitions_are_found_in_a_moment(mi300x: tuple[dict[DeviceID, AmdGpu], PairWeights], size: int) -> None:
    chosen = preferred_devices(*mi300x, _ids(_ALL_BUT_ONE), [], size)

    assert len(set(chosen)) == size


@pytest.mark.parametrize(
    ("available", "required", "size", "refusal"),
    [
        ([], [], 0, "allocation size can not be negative"),
        (["a"], [], -1, "allocation size can not be negative"),
        (["a"], [], 2, "available devices count less than allocation size"),
        (["a", "b"], ["a", "b"], 1, "must_include devices size is more than allocation size"),
        (_FIRST_HIVE, ["0000:83:00.0"], 2, "No candidate subset found with matching criteria"),
        ([*_FIRST_HIVE, "nobody"], [], 2, "No candidate subset found with matching criteria"),
        ([_FIRST_HIVE[0]] * 4, [], 3, "No candidate subset found with matching criteria"),
    ],
)
def test_question_that_cannot_be_answered(
    mi210: tuple[dict[DeviceID, AmdGpu], PairWeights],
    available: list[str],
    required: list[str],
    size: int,
    refusal: str,
) -> None:
    with pytest.raises(PreferenceError, match=f"^{refusal}$"):
        preferred_devices(*mi210, _ids(available), _ids(required), size)


def test_all_that_is_available_or_required_is_the_answer(
    mi210: tuple[dict[DeviceID, AmdGpu], PairWeights],
) -> None:
    assert preferred_devices(*mi210, _ids(["x", "y"]), [], 2) == ["x", "y"]
    assert preferred_devices(*mi210, _ids(_FIRST_HIVE), _ids(["x"]), 1) == ["x"]


def test_without_links_there_is_no_preference(mi210: tuple[dict[DeviceID, AmdGpu], PairWeights]) -> None:
    gpus, _ = mi210

    with pytest.raises(PreferenceError, match="Init method must be called before Allocate"):
        preferred_devices(gpus, {}, _ids(_FIRST_HIVE), [], 2)


@pytest.mark.parametrize(("kind", "weight"), [(11, 10), (2, 40), (1, 50)])
@pytest.mark.parametrize("same_gpu", [True, False])
@pytest.mark.parametrize("same_numa_node", [True, False])
def test_weight_of_a_pair(kind: int, weight: int, same_gpu: bool, same_numa_node: bool) -> None:
    one = AmdGpu(DeviceID("one"), 0, 128, "0000:05:00:0", 2, 0, "", "")
    other = AmdGpu(
        DeviceID("two"), 1, 129, "0000:05:00:0" if same_gpu else "0000:27:00:0", 3, 0 if same_numa_node else 1, "", ""
    )

    weights = pair_weights([one, other], [KfdLink(3, 2, kind), KfdLink(2, 0, kind)])

    assert weights == {(2, 3): weight + (10 if same_gpu else 20) + (10 if same_numa_node else 20)}


def _oracle(
    groups: Sequence[tuple[int, ...]], fixed: tuple[int, ...], size: int, weights: PairWeights
) -> tuple[int, ...]:
    """The first choice of the lowest weight, in the order in which the original comes upon them."""
    found: list[tuple[int, ...]] = []
    waiting = [((index,), group[:size]) for index, group in enumerate(groups)]
    while waiting:
        (taken, nodes), waiting = waiting[0], waiting[1:]
        if len(nodes) == size:
            found.append((*nodes, *fixed))
            continue
        for index, group in enumerate(groups):
            if index not in taken:
                waiting.append(((*taken, index), (*nodes, *group)[:size]))
    return min(found, key=lambda nodes: _weight(nodes, weights))


def _weight(nodes: Sequence[int], weights: PairWeights) -> int:
    return sum(weights.get((min(pair), max(pair)), 0) for pair in combinations(nodes, 2))


@st.composite
def _nodes(draw: st.DrawFn) -> tuple[dict[DeviceID, AmdGpu], Mapping[tuple[int, int], int]]:
    """Up to four GPUs with up to three partitions each, and weights of their pairs."""
    gpus = {}
    number = 2
    for gpu in range(draw(st.integers(1, 4))):
        for part in range(draw(st.integers(1, 3))):
            name = DeviceID(f"0000:0{gpu}:00.0" if part == 0 else f"amdgpu_xcp_{number}")
            gpus[name] = AmdGpu(name, 0, 128, f"0000:0{gpu}:00:0", number, 0, "", "")
            number += 1
    pairs = list(combinations(range(2, number), 2))
    weights = {pair: draw(st.sampled_from([30, 40, 50, 60, 80])) for pair in pairs} or {(2, 3): 30}
    return gpus, weights


@given(_nodes(), st.data())
@settings(max_examples=150, deadline=None)
def test_choice_is_the_one_that_trying_every_order_finds(
    node: tuple[dict[DeviceID, AmdGpu], Mapping[tuple[int, int], int]], data: st.DataObject
) -> None:
    gpus, weights = node
    available = data.draw(st.lists(st.sampled_from(sorted(gpus)), min_size=1, unique=True))
    size = data.draw(st.integers(1, len(available)))
    required = data.draw(st.lists(st.sampled_from(available), max_size=size, unique=True))

    chosen = preferred_devices(gpus, weights, available, required, size)

    assert len(set(chosen)) == size
    assert set(required) <= set(chosen) <= set(available)
    if size not in (len(available), len(required)):
        fixed = tuple(gpus[device].node for device in required)
        free = [gpus[device] for device in gpus if device in available and device not in required]
        parents = {gpu.parent: tuple(sorted(one.node for one in free if one.parent == gpu.parent)) for gpu in free}
        groups = [parents[parent] for parent in sorted(parents, key=lambda parent: (len(parents[parent]), parent))]
        expected = _oracle(groups, fixed, size - len(required), weights)
        assert tuple(gpus[device].node for device in chosen) == expected
