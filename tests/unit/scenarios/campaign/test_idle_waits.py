"""Waits of a campaign's world: they end as soon as it is idle and nothing is due within them."""

from __future__ import annotations

import asyncio

import pytest

from scenarios.campaign.world import IdlePatience
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock
from simkubelet.model.events import DevicesListed

WITHIN_S = 3_000.0
"""Longer in real time than any test may take."""


class World:
    """A clock and a trace, of which the story has seen `observed` events."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.trace = Trace(now=self.clock.now)
        self.observed = 0

    def patience(self) -> IdlePatience:
        return IdlePatience(self.clock, self.trace, lambda: self.observed, WITHIN_S)

    def event(self) -> None:
        self.trace.append(DevicesListed("node-1", "example.com/gpu", (), ()))


@pytest.fixture
def world() -> World:
    return World()


async def test_idle_world_is_looked_at_once_more(world: World) -> None:
    patience = world.patience()

    assert [await patience.wait(), await patience.wait()] == [True, False]


async def test_event_some_turns_later_is_waited_for(world: World) -> None:
    patience = world.patience()

    async def works() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        world.event()

    await patience.wait()
    task = asyncio.create_task(works())

    assert await patience.wait()
    assert len(world.trace) == 1
    await task


async def test_node_time_leaps_to_what_is_due_within_the_wait_and_no_further(world: World) -> None:
    sleepers = [asyncio.create_task(world.clock.sleep(delay_s)) for delay_s in (60.0, WITHIN_S, WITHIN_S + 1)]
    await asyncio.sleep(0)
    patience = world.patience()

    looks = 0
    while await patience.wait():
        looks += 1

    assert world.clock.now() == WITHIN_S
    assert [sleeper.done() for sleeper in sleepers] == [True, True, False]
    assert looks == 3
    sleepers[-1].cancel()
