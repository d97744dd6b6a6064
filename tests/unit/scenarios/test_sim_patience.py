"""Node time leaps only while nothing happens, only to what is due, and never far."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Hashable, Mapping

import pytest

from scenarios.backends.sim.patience import FairTime, SimPatience, Starts, settled
from scenarios.trace.trace import Trace
from simkubelet.model.clock import ManualClock
from simkubelet.model.events import DevicesListed, NodeStatusUpdated, PluginRegistered, RegistrationRefused
from tests.support.patience import LIMIT_S


class World:
    """A clock and a trace; `observed` is how much of the trace the runner has seen."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.trace = Trace(now=self.clock.now)
        self.observed = 0
        self.starting: dict[str, bool] = {}
        self.starts = Starts(lambda: self.starting, self.clock)

    def patience(
        self,
        within_s: float,
        real_time: FairTime | None = None,
        wanted: Callable[[], Mapping[Hashable, float]] = dict,
    ) -> SimPatience:
        observed, limit = lambda: self.observed, self.starts.limit
        return SimPatience(self.clock, self.trace, observed, within_s, real_time, limit=limit, wanted=wanted)

    def look(self) -> None:
        self.observed = len(self.trace)

    def event(self) -> None:
        self.trace.append(DevicesListed("node-1", "example.com/gpu", (), ()))

    def consequence(self) -> None:
        self.trace.append(NodeStatusUpdated("node-1", {}, {}))


async def sleeper(world: World, delay_s: float) -> asyncio.Task[None]:
    task = asyncio.create_task(world.clock.sleep(delay_s))
    await asyncio.sleep(0)
    return task


async def ticking(world: World, period_s: float, at_each: Callable[[], None] = lambda: None) -> asyncio.Task[None]:
    """A task that sleeps in node time again and again, and does something each time it wakes."""

    async def tick() -> None:
        while True:
            await world.clock.sleep(period_s)
            at_each()

    task = asyncio.create_task(tick())
    await asyncio.sleep(0)
    return task


async def test_idle_wait_leaps_to_what_is_due() -> None:
    world = World()
    task = await sleeper(world, 10)

    assert await world.patience(10).wait()

    assert world.clock.now() == 10
    assert task.done()


async def test_ten_seconds_of_node_time_pass_while_a_plugin_starts() -> None:
    world = World()
    await sleeper(world, 10)
    await sleeper(world, 60)
    world.starting = {"first start": False}

    patience = world.patience(90)
    for _ in range(3):
        assert await patience.wait()
    assert world.clock.now() == 10

    world.starting.clear()
    assert await patience.wait()
    assert world.clock.now() == 60


async def test_start_that_never_ends_holds_the_waits_of_a_story_up_for_two_seconds_in_all() -> None:
    world = World()
    world.starting = {"first start": False}
    began_s = time.monotonic()

    for due_s in (20, 40):
        await sleeper(world, 20)
        while world.clock.now() < due_s:
            assert await world.patience(30).wait()

    assert time.monotonic() - began_s >= 2
    assert world.starts.limit() == math.inf


async def test_node_time_keeps_pace_with_a_plugin_that_the_kubelet_has_found() -> None:
    world = World()
    await ticking(world, 1.0)
    world.starting = {"first start": True}
    began_s = time.monotonic()

    patience = world.patience(90)
    while world.clock.now() < 6:
        assert await patience.wait()
    passed_s = time.monotonic() - began_s
    assert passed_s >= 0.5

    world.starting.clear()
    assert world.starts.limit() == math.inf


async def test_node_time_goes_to_what_is_due_when_the_wait_is_over_though_a_plugin_starts() -> None:
    world = World()
    await sleeper(world, 20)
    world.starting = {"first start": False}
    hours_s = iter(range(0, 3600 * 24, 3600))

    assert await world.patience(20, FairTime(20, now=lambda: next(hours_s), runnable=lambda: 1)).wait()

    assert world.clock.now() == 20


async def test_what_comes_while_another_story_holds_the_loop_up_is_taken_before_a_leap() -> None:
    world = World()
    task = await sleeper(world, 10)
    read_end, write_end = os.pipe()
    lines = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(read_end, "rb")
    )

    async def listen() -> None:
        await lines.readline()
        world.event()

    async def hold_up() -> None:
        os.write(write_end, b"called\n")
        time.sleep(0.05)  # noqa: ASYNC251  # what must not happen, and does

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    other = asyncio.create_task(hold_up())

    assert await world.patience(10).wait()

    assert world.clock.now() == 0
    await asyncio.gather(listening, other)
    task.cancel()
    pipe.close()
    os.close(write_end)


async def test_nothing_due_within_the_wait_leaves_node_time_alone() -> None:
    world = World()
    task = await sleeper(world, 11)

    patience = world.patience(0.05)
    while await patience.wait():
        world.look()

    assert world.clock.now() == 0
    task.cancel()


async def test_wait_in_which_nothing_happens_ends_for_another_look() -> None:
    world = World()
    patience = world.patience(60)
    looks = 0
    async with asyncio.timeout(LIMIT_S):
        while looks < 3 and await patience.wait():
            looks += 1

    assert looks == 3
    assert world.clock.now() == 0


async def test_event_ends_the_wait_without_a_leap() -> None:
    world = World()
    task = await sleeper(world, 10)
    world.event()

    assert await world.patience(10).wait()

    assert world.clock.now() == 0
    task.cancel()


async def test_leaps_end_where_nothing_follows_from_them() -> None:
    world = World()
    patience = world.patience(0.5)
    task = await ticking(world, 0.125)
    while await patience.wait():
        world.look()

    # Four ticks fit into the wait; the next would be beyond it.
    assert world.clock.now() == 0.5
    task.cancel()


async def test_what_is_due_within_the_wait_is_reached_though_real_time_is_used_up() -> None:
    world = World()
    patience = world.patience(0.05)
    async with asyncio.timeout(LIMIT_S):
        while await patience.wait():
            world.look()
    task = await sleeper(world, 0.05)

    assert await patience.wait()

    assert task.done()
    assert not await patience.wait()


async def test_event_from_outside_gives_the_wait_its_whole_node_time_again() -> None:
    world = World()
    patience = world.patience(0.5)
    task = await ticking(world, 0.25)
    await patience.wait()
    await patience.wait()
    assert world.clock.now() == 0.5
    world.event()
    while await patience.wait():
        world.look()

    assert world.clock.now() == 1.0
    task.cancel()


async def test_event_from_outside_during_a_leap_counts_as_one_after_it() -> None:
    world = World()
    patience = world.patience(0.5)
    task = await ticking(world, 0.25, world.consequence)
    late = await sleeper(world, 0.5)
    late.add_done_callback(lambda _: world.event())
    while await patience.wait():
        world.look()

    # The plugin's list came while node time was on its way to the end of the wait.
    assert world.clock.now() == 1.0
    task.cancel()


async def test_node_time_goes_no_further_than_four_minutes_in_a_short_wait() -> None:
    world = World()
    patience = world.patience(30)
    task = await ticking(world, 30)
    for _ in range(20):
        world.event()
        world.look()
        waiting = asyncio.create_task(patience.wait())
        await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()

    assert world.clock.now() == 240
    task.cancel()


async def test_events_that_leaps_themselves_cause_renew_nothing() -> None:
    world = World()
    patience = world.patience(0.5)
    task = await ticking(world, 0.25, world.consequence)
    while await patience.wait():
        world.look()

    assert world.clock.now() == 0.5
    task.cancel()


async def test_real_time_ends_the_wait_however_much_happens() -> None:
    world = World()
    patience = world.patience(0.05)

    async def rush() -> None:
        while True:
            world.event()
            await asyncio.sleep(0)

    task = asyncio.create_task(rush())
    async with asyncio.timeout(LIMIT_S):
        while await patience.wait():
            world.look()
    task.cancel()


@pytest.mark.parametrize(
    ("wanting", "within_s", "most_s"),
    [
        pytest.param(1, 10, 30, id="idle"),
        pytest.param(25, 10, 30, id="busy"),
        pytest.param(25, 1, 10, id="busy, short wait"),
        pytest.param(1000, 20, 60, id="very busy, long wait"),
    ],
)
async def test_slow_looks_and_restless_plugins_do_not_extend_a_wait(
    wanting: int, within_s: float, most_s: float
) -> None:
    world = World()
    now_s, look_s = 0.0, 2.0
    watch = FairTime(within_s, lambda: now_s, lambda: wanting * len(os.sched_getaffinity(0)))
    patience = world.patience(within_s, watch)
    task = await ticking(world, 1.0, world.event)

    while await patience.wait():
        world.look()
        now_s += look_s

    # One more look after the end.
    assert now_s <= most_s + look_s
    task.cancel()


@pytest.mark.parametrize(
    ("wanting", "last_s", "expected"),
    [
        pytest.param(8, 45, True, id="busy, until the end"),
        pytest.param(8, 39, False, id="busy, and then no more"),
        pytest.param(25, 30, True, id="very busy"),
        pytest.param(2, 45, False, id="idle"),
    ],
)
async def test_wait_that_load_ends_while_plugins_still_register_says_nothing(
    wanting: int, last_s: float, expected: bool
) -> None:
    world = World()
    now_s = 0.0
    watch = FairTime(15, lambda: now_s, lambda: wanting * len(os.sched_getaffinity(0)) // 2)
    patience = world.patience(15, watch)

    while await patience.wait():
        world.look()
        now_s += 1
        if now_s <= last_s:
            world.trace.append(PluginRegistered("node-1", "example.com/gpu", "gpu.sock"))

    assert patience.is_starved is expected


@pytest.mark.parametrize("expected", [True, False])
async def test_wait_that_load_ends_while_a_plugin_is_refused_in_the_same_words_says_something(expected: bool) -> None:
    world = World()
    now_s = 0.0
    watch = FairTime(15, lambda: now_s, lambda: 4 * len(os.sched_getaffinity(0)))
    patience = world.patience(15, watch)

    while await patience.wait():
        world.look()
        now_s += 1
        words = f"no plugin at {now_s}" if expected else "no plugin"
        world.trace.append(RegistrationRefused("node-1", "example.com/gpu", "gpu.sock", words))

    assert patience.is_starved is expected


@pytest.mark.parametrize(
    ("wanting", "share", "is_new", "expected"),
    [
        pytest.param(8, 0.6, False, True, id="busy, at work"),
        pytest.param(8, 0.4, False, False, id="busy, at rest but for its looks"),
        pytest.param(8, 0.6, True, True, id="busy, begun meanwhile"),
        pytest.param(25, 0.0, False, True, id="very busy"),
        pytest.param(2, 1.0, False, False, id="idle, a plugin that spins"),
    ],
)
async def test_wait_that_load_ends_while_a_plugin_wants_a_core_says_nothing(
    wanting: int, share: float, is_new: bool, expected: bool
) -> None:
    world = World()
    now_s = 0.0
    watch = FairTime(15, lambda: now_s, lambda: wanting * len(os.sched_getaffinity(0)) // 2)
    patience = world.patience(15, watch, lambda: {} if is_new and now_s < 43 else {"node-1 gpu": 100 + share * now_s})

    while await patience.wait():
        world.look()
        now_s += 0.5

    assert patience.is_starved is expected


async def test_what_comes_as_a_wait_ends_gets_the_node_time_of_a_wait() -> None:
    world = World()
    now_s = 0.0
    patience = world.patience(10, FairTime(10, lambda: now_s, lambda: 1000))
    task = await ticking(world, 10)
    assert await patience.wait()
    now_s = 30.0
    world.event()

    assert await patience.wait()
    world.event()
    assert not await patience.wait()

    assert world.clock.now() == 20
    task.cancel()


async def test_settled_waits_for_what_comes_late() -> None:
    world = World()

    async def late() -> None:
        for _ in range(3):
            await asyncio.sleep(0.03)
            world.event()

    task = asyncio.create_task(late())
    await settled(world.trace)

    assert len(world.trace) == 3
    await task


async def test_settled_does_not_wait_for_ever() -> None:
    world = World()

    async def restless() -> None:
        while True:
            await asyncio.sleep(0.01)
            world.event()

    task = asyncio.create_task(restless())
    async with asyncio.timeout(LIMIT_S):
        await settled(world.trace)

    task.cancel()
