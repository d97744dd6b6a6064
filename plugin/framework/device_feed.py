"""The latest device list, and everyone who waits for a newer one.

Each follower keeps its own place, so that one stream can never take a change away from another: with the kubelet's old
stream still open beside the new one, both see each change. A follower that is slow misses lists that a newer one has
replaced, never the newest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from .device import DeviceList

__all__ = ["DeviceFeed"]


class DeviceFeed:
    """One writer, any number of followers, all in one event loop."""

    def __init__(self) -> None:
        self._latest: DeviceList = ()
        self._version = 0
        self._changed = asyncio.Event()
        self._is_closed = False

    def publish(self, devices: DeviceList) -> None:
        """Make `devices` the latest list and wake every follower, also when it equals the list before."""
        self._latest = devices
        self._version += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self, last: DeviceList) -> None:
        """Make `last` the latest list and end every follower after it."""
        self._is_closed = True
        self.publish(last)

    async def first(self) -> None:
        """Wait until there is a list."""
        if self._version == 0:
            await self._changed.wait()

    async def follow(self) -> AsyncGenerator[DeviceList, None]:
        """The latest list, as soon as there is one, then each newer one, until the feed is closed."""
        seen = 0
        while not (self._is_closed and self._version == seen):
            if self._version == seen:
                await self._changed.wait()
            seen = self._version
            yield self._latest
