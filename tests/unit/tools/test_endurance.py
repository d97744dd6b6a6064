"""The run of one node through a day of faults: a short one, and how measurements become a verdict."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.endurance.measurement import LIMITS, Measurement, growths
from tools.endurance.node import Endurance
from tools.endurance.plot import svg

FIRST = Measurement(
    faults=1000, steps=2000, hours=1, cpu_s=10, rss_mib=60, files=58, tasks=102, threads=1, objects=74_000
)


def run_of(change: Callable[[Measurement, int], Measurement]) -> list[Measurement]:
    """A hundred measurements, each 1,000 faults after the one before."""
    return [change(replace(FIRST, faults=1000 * (number + 1)), number) for number in range(100)]


@pytest.mark.slow
async def test_short_run_finds_nothing_and_holds_nothing_more() -> None:
    run, measurements = Endurance(seed=5, hours=0, faults=60, round_steps=40), []
    before = held()

    await run.run(None, measurements.append)

    assert run.findings == []
    assert run.checks > 2 * len(measurements) >= 4
    # Of two measurements within the run one may come while plugins register, which takes more files than their rest.
    assert held() <= before


def held() -> set[object]:
    """What this process has open, and its tasks."""
    gc.collect()
    opened = Path("/proc/self/fd").iterdir()
    # One of them is the folder that is being read.
    return {file.readlink() for file in opened if file.is_symlink()} | asyncio.all_tasks()


@pytest.mark.parametrize("figure", LIMITS)
def test_steady_growth_of_a_figure_is_seen(figure: str) -> None:
    too_much = 2 * LIMITS[figure]
    measurements = run_of(lambda one, number: replace(one, **{figure: getattr(one, figure) + too_much * number / 100}))

    assert [one.name for one in growths(measurements) if not one.is_flat] == [figure]


def test_growth_into_its_size_at_the_start_is_none() -> None:
    measurements = run_of(lambda one, number: replace(one, rss_mib=40 + 2 * min(number, 15)))

    assert all(one.is_flat for one in growths(measurements))


def test_too_few_measurements_have_no_growth() -> None:
    assert growths([FIRST] * 3) == []


def test_plot_has_a_curve_for_each_figure_with_a_point_for_each_measurement() -> None:
    drawn = ElementTree.fromstring(svg(run_of(lambda one, number: one)))  # noqa: S314 - our own

    curves = [one.attrib["points"].split() for one in drawn.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in curves] == [100] * 4
