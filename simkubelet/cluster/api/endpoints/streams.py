"""Answers that last: watches and the output of containers, until their end, the client's or the server's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress

from aiohttp import web

__all__ = ["Lasting"]


class Lasting:
    """The answers of one server that last; `end` ends them all."""

    def __init__(self) -> None:
        self._deadlines: set[asyncio.Timeout] = set()

    def end(self) -> None:
        """End all answers, as at their timeout."""
        for deadline in self._deadlines:
            deadline.reschedule(0)

    @asynccontextmanager
    async def limited(self, lasts_s: float | None) -> AsyncIterator[None]:
        """Run a block until a time has passed, at most until `end`; a block that is ended has ended well."""
        with suppress(TimeoutError):
            async with asyncio.timeout(lasts_s) as deadline:
                self._deadlines.add(deadline)
                try:
                    yield
                finally:
                    self._deadlines.discard(deadline)

    async def log(
        self, request: web.Request, pieces: AsyncGenerator[bytes, None], headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Answer with the output of a container, see `PodLogs`.

        Raises:
            StatusError: the kubelet refuses; nothing is sent yet.
        """
        async with aclosing(pieces):
            # A refusal comes before the first piece, while the status is still open.
            first = await anext(pieces, b"")
            response = web.StreamResponse(headers={"Content-Type": "text/plain", **headers})
            await response.prepare(request)
            try:
                async with self.limited(None):
                    await response.write(first)
                    async for piece in pieces:
                        await response.write(piece)
            except ConnectionError:
                # The client has gone.
                return response
        await response.write_eof()
        return response
