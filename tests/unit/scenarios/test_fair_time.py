"""A story's patience on a machine that others use too."""

from __future__ import annotations

import os

import pytest

from scenarios.backends.sim.patience import FairTime, runnable

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("wanting", "expected_s"),
    [
        pytest.param(1, 10.0, id="an idle machine"),
        pytest.param(CORES, 10.0, id="a core for everyone"),
        pytest.param(4 * CORES, 2.5, id="a quarter of a core each"),
        pytest.param(1000 * CORES, 0.5, id="never slower than a twentieth"),
    ],
)
def test_time_passes_as_fast_as_there_are_cores(wanting: int, expected_s: float) -> None:
    times = iter([100.0, 110.0])
    watch = FairTime(60, lambda: next(times), lambda: wanting)

    assert watch.read() == pytest.approx(expected_s)


def test_each_stretch_counts_by_its_own_load() -> None:
    times, loads = iter([0.0, 1.0, 3.0]), iter([CORES, 2 * CORES])
    watch = FairTime(60, lambda: next(times), lambda: next(loads))

    assert [watch.read(), watch.read()] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("limit_s", "cores_wanted", "expected_s"),
    [
        pytest.param(3, 1, 3, id="an idle machine"),
        pytest.param(3, 2, 6, id="half a core"),
        pytest.param(3, 25, 10, id="a busy machine, short wait"),
        pytest.param(0.4, 25, 8, id="a busy machine, a moment"),
        pytest.param(60, 25, 180, id="a busy machine, long wait"),
    ],
)
def test_wait_ends_after_three_times_its_length_or_ten_seconds(
    limit_s: float, cores_wanted: int, expected_s: float
) -> None:
    now_s = 0.0
    watch = FairTime(limit_s, lambda: now_s, lambda: cores_wanted * CORES)
    while watch.left() > 1e-6:
        now_s += 0.25

    assert now_s == expected_s


@pytest.mark.parametrize(("cores_wanted", "expected"), [(1, False), (11, False), (13, True)])
def test_wait_is_starved_where_it_ended_before_a_quarter_of_its_time(cores_wanted: int, expected: bool) -> None:
    now_s = 0.0
    watch = FairTime(60, lambda: now_s, lambda: cores_wanted * CORES)
    while watch.left() > 1e-6:
        now_s += 0.25

    assert watch.is_starved() is expected


def test_machine_tells_how_many_want_to_run() -> None:
    assert runnable() >= 1
