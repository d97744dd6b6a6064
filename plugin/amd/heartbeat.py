"""The beats at which health is looked at: one row of them for all resources of the plugin.

Source: ROCm/k8s-device-plugin, cmd/k8s-device-plugin/main.go (August 2026): a channel that all resources read, so each
beat reaches one of them, and they take turns.
"""

from __future__ import annotations

import asyncio

__all__ = ["Heartbeat"]


class Heartbeat:
    """Beats every `period_s` seconds; never with 0."""

    def __init__(self, period_s: int) -> None:
        self._period_s = period_s
        self._turn = asyncio.Lock()

    async def beat(self) -> None:
        """Wait for the next beat that nobody else takes; who has waited longest gets it."""
        if not self._period_s:
            await asyncio.Event().wait()
        async with self._turn:
            await asyncio.sleep(self._period_s)
