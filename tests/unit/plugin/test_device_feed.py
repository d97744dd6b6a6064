from __future__ import annotations

import asyncio

from plugin.framework import Device, DeviceID
from plugin.framework.server import DeviceFeed

_ONE = (Device(DeviceID("one")),)
_TWO = (Device(DeviceID("two")),)


async def test_follower_waits_for_the_first_list() -> None:
    feed = DeviceFeed()
    item = asyncio.create_task(anext(feed.follow()))
    await asyncio.sleep(0)

    feed.publish(_ONE)

    assert await item == _ONE


async def test_late_follower_starts_with_the_latest_list() -> None:
    feed = DeviceFeed()
    feed.publish(_ONE)
    feed.publish(_TWO)

    assert await anext(feed.follow()) == _TWO


async def test_list_published_while_a_follower_is_busy_is_not_lost() -> None:
    feed = DeviceFeed()
    feed.publish(_ONE)
    follower = feed.follow()
    assert await anext(follower) == _ONE

    feed.publish(_TWO)

    assert await anext(follower) == _TWO


async def test_equal_list_is_sent_again() -> None:
    feed = DeviceFeed()
    feed.publish(_ONE)
    follower = feed.follow()
    await anext(follower)

    feed.publish(_ONE)

    assert await anext(follower) == _ONE
