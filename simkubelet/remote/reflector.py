"""A copy of a list of the API server: listed once, then kept up to date by watches.

A watch continues where the one before has ended, by the version of the last event or bookmark. Where the server does
not remember that version any more (410), the list is read again, as after any other error of a watch, and where an
object could not be taken: its next state would never come. While the server is away the copy stays as it is.

Source: client-go, tools/cache/reflector.go, ``ListAndWatch``, ``watch``, ``isWatchErrorRetriable`` (v0.34.4).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol

from .._internal.doors import Door
from ..model.clock import Clock
from .back_off import BackOff
from .client import JSON, ApiClient, ApiError, items_of

__all__ = ["Follower", "Reflector"]

_LIST: Final = Door("list of the API server")
_CHANGE: Final = Door("change that the API server reports")
_FIRST_PAUSE_S: Final = 0.8
_LONGEST_PAUSE_S: Final = 10.0
"""Go's reflector pauses up to 30 s; a simulated node is looked at by who has just started the server again."""
_WATCH_S: Final = 300.0
_PAGE: Final = "500"
_MOST_PAGES: Final = 1_000
"""Of a list. Kubernetes is made for 150,000 pods, which are 300 pages."""
_SHORT_S: Final = 1.0
_LONGEST_GAP_S: Final = 60.0
"""Between two lists that have an object which cannot be taken."""
_GONE: Final = 410
_WATCHED_ON: Final = frozenset({0, 429})
"""Errors after which a watch continues: none came, or the server has too much to do."""


class Follower(Protocol):
    """Takes what a reflector learns; a call returns False where not all of it could be taken."""

    def replaced(self, items: Sequence[JSON]) -> bool | None:
        """Take the whole list: what is not in it is gone."""

    def changed(self, item: JSON) -> bool | None:
        """Take an object that was created or changed."""

    def deleted(self, item: JSON) -> bool | None:
        """Take an object that is gone, in its last state."""


class Reflector:
    """Follows one list until `run` is cancelled.

    Args:
        client: of the server.
        path: of the list.
        query: its selectors.
        follower: takes what is learned.
        clock: the time of the pauses.
        complain: called with what went wrong, once for each error in a row; an absent server is no complaint.
        turns: bounds how many lists are read at a time, of all reflectors with the same one.

    Attributes:
        is_synced: set once the list was read for the first time.
    """

    def __init__(
        self,
        client: ApiClient,
        path: str,
        query: Mapping[str, str],
        follower: Follower,
        clock: Clock,
        complain: Callable[[str], None],
        turns: asyncio.Semaphore | None = None,
    ) -> None:
        self.is_synced = asyncio.Event()
        self._turns = turns or asyncio.Semaphore()
        self._client = client
        self._path = path
        self._query = query
        self._follower = follower
        self._clock = clock
        self._complain = complain
        self._version = ""
        self._complaint = ""
        self._back_off = BackOff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        self._is_whole = True
        """Whether the list could be taken; else it is read again after a short watch."""
        self._gaps = BackOff(2 * _SHORT_S, _LONGEST_GAP_S)

    async def run(self) -> None:
        """Follow the list until cancelled."""
        while True:
            begin = self._clock.now()
            try:
                if not (self._version and self._is_whole):
                    await self._list()
                await self._watch()
            except ApiError as error:
                await self._pause_after(error)
            else:
                self._complaint = ""
                if self._clock.now() - begin < _SHORT_S:
                    await self._clock.sleep(self._back_off.next_s())

    async def poll(self, period_s: float) -> None:
        """Read the list each `period_s` of the clock until cancelled, which keeps no connection."""
        while True:
            try:
                await self._list()
            except ApiError as error:
                await self._pause_after(error)
            else:
                self._complaint = ""
                self._back_off.reset()
                await self._clock.sleep(period_s)

    async def _pause_after(self, error: ApiError) -> None:
        if error.status not in _WATCHED_ON:
            self._version = ""
        if error.status != _GONE and error.status and str(error) != self._complaint:
            self._complaint = str(error)
            self._complain(self._complaint)
        await self._clock.sleep(self._back_off.next_s(error.retry_after_s))

    async def _list(self) -> None:
        async with self._turns:
            await self._read_pages()

    async def _read_pages(self) -> None:
        """Read the list page by page.

        Raises:
            ApiError: it cannot be had; 410 where the server has forgotten the version of the first page.
        """
        items: list[JSON] = []
        query = {**self._query, "limit": _PAGE}
        for _ in range(_MOST_PAGES):
            page = await self._client.get(self._path, query)
            items += items_of(page)
            match page.get("metadata"):
                case {"continue": str(token)} if token:
                    query["continue"] = token
                case {"resourceVersion": str(version)} if version:
                    break
                case _:
                    raise ApiError(500, "InternalError", f"a list of {self._path} has no version")
        else:
            raise ApiError(500, "InternalError", f"a list of {self._path} has more than {_MOST_PAGES} pages")
        self._is_whole = False
        with _LIST(self._path):
            self._is_whole = self._follower.replaced(items) is not False
        if self._is_whole:
            self._gaps.reset()
        self._version = version
        self.is_synced.set()

    async def _watch(self) -> None:
        query = {**self._query, "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        within_s = _WATCH_S * random.uniform(1.0, 2.0)  # noqa: S311 - spreads load, guards nothing
        if not self._is_whole:
            within_s = self._gaps.next_s()
        async with aclosing(self._client.watch(self._path, query, within_s)) as events:
            async for event in events:
                self._version = self._handled(event)
                self._back_off.reset()

    def _handled(self, event: JSON) -> str:
        """Take an event; the version that it leads to.

        Raises:
            ApiError: it is an error, or what no server sends.
        """
        match event:
            case {"type": "ERROR", "object": dict(status)}:
                raise _error(status)
            case {"type": str(type_), "object": {"metadata": {"resourceVersion": str(version)}} as item} if version:
                if type_ in {"ADDED", "MODIFIED"}:
                    self._take(self._follower.changed, item)
                elif type_ == "DELETED":
                    self._take(self._follower.deleted, item)
                return version
        raise ApiError(500, "InternalError", f"an event of a watch of {self._path} has no version")

    def _take(self, take: Callable[[JSON], bool | None], item: JSON) -> None:
        """Have an object taken.

        Raises:
            ApiError: it cannot be; the list is to be read again.
        """
        metadata = item.get("metadata") or {}
        is_taken = False
        with _CHANGE(f"{self._path} {metadata.get('namespace') or ''}/{metadata.get('name')}"):
            is_taken = take(item) is not False
        if not is_taken:
            self._version = ""
            raise ApiError(0, "InternalError", "an object could not be taken")


def _error(status: Mapping[str, object]) -> ApiError:
    code = status.get("code")
    return ApiError(
        code if isinstance(code, int) else 500, str(status.get("reason") or ""), str(status.get("message") or "")
    )
