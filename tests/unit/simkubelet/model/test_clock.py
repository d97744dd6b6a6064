from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.model.clock import ManualClock, RealClock
from tests.support.patience import LIMIT_S


async def woken_at(clock: ManualClock, delay: float, log: list[tuple[float, float]]) -> None:
    await clock.sleep(delay)
    log.append((delay, clock.now()))


@given(delays=st.lists(st.integers(0, 100), max_size=10), step=st.integers(1, 120))
def test_sleepers_wake_in_order_at_their_own_time(delays, step):
    async def story() -> list[tuple[float, float]]:
        clock, log = ManualClock(), []
        tasks = [asyncio.create_task(woken_at(clock, delay, log)) for delay in delays]
        await asyncio.sleep(0)
        for _ in range(120 // step + 1):
            await clock.advance(step)
        await asyncio.gather(*tasks)
        return log

    log = asyncio.run(story())

    assert [delay for delay, _ in log] == sorted(delays)
    assert all(delay == now for delay, now in log)


async def test_period_ticks_as_often_as_it_fits():
    clock, ticks = ManualClock(), []

    async def periodic() -> None:
        while True:
            await clock.sleep(10)
            ticks.append(clock.now())

    task = asyncio.create_task(periodic())
    await asyncio.sleep(0)
    await clock.advance(300)

    assert ticks == [10.0 * n for n in range(1, 31)]
    assert clock.next_deadline() == 310
    task.cancel()


async def test_cancelled_sleeper_is_no_longer_due():
    clock = ManualClock()
    task = asyncio.create_task(clock.sleep(5))
    await asyncio.sleep(0)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert clock.next_deadline() is None


async def test_time_does_not_go_back():
    with pytest.raises(ValueError, match="does not go back"):
        await ManualClock().advance(-1)


async def test_accelerated_clock_sleeps_shorter():
    clock = RealClock(rate=10_000)

    async with asyncio.timeout(LIMIT_S):
        await clock.sleep(10 * LIMIT_S)

    assert clock.now() >= 10 * LIMIT_S
