"""The page about versions is what the code declares, and no two minors are alike."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from pathlib import Path

import pytest

import simkubelet
from simkubelet.model.version import FEATURE_GATES, SUPPORTED, Difference, version
from tools.generate import version_table


def test_page_is_that_of_the_code():
    assert version_table.PAGE.read_text() == version_table.page()


def test_every_declared_difference_is_a_row():
    sources = Path(simkubelet.__file__).parent.rglob("*.py")
    declared = sum(source.read_text().count(": Final = Difference(") for source in sources)

    assert len(version_table.rows()) == declared > 40


@pytest.mark.parametrize("row", version_table.rows(), ids=lambda row: row.name)
def test_row_fits_into_the_table(row):
    assert "|" not in row.difference.text + row.difference.source
    assert len(row.difference.values) > 1


def test_every_minor_differs_from_its_neighbour():
    rows = version_table.differences()

    assert len({tuple(row.at(version(minor)) for row in rows) for minor in SUPPORTED}) == len(SUPPORTED)


def test_what_code_asks_is_recorded():
    gate, row = FEATURE_GATES["SidecarContainers"], Difference("", {"1.26": 1, "1.28": 2}, "")

    with version_table.recorded() as asked:
        gate.is_on(version("1.34"), {})
        row.at(version("1.26"))
        row.at(version("1.28"))

    assert asked == {gate: {True}, row: {1, 2}}


async def test_what_each_task_asks_is_recorded_apart():
    row, other = (Difference(text, {"1.26": 1, "1.28": 2}, "") for text in ("row", "other"))
    mine: ContextVar[version_table.Asked] = ContextVar("mine")

    async def ask(difference: Difference[int]) -> version_table.Asked:
        record: version_table.Asked = {}
        mine.set(record)
        await asyncio.create_task(asyncio.to_thread(difference.at, version("1.28")))
        return record

    with version_table.recorded(mine) as asked:
        records = await asyncio.gather(ask(row), ask(other))

    assert records == [{row: {2}}, {other: {2}}]
    assert asked == {row: {2}, other: {2}}
