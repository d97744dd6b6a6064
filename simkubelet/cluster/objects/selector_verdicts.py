"""What an API server says about selectors, remembered, and found out in a thread where that takes long.

One of 10 KiB takes a tenth of a second to read, and an object may have hundreds. A write with more than a few is begun
again once they are read. Meanwhile the server answers others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

from ...model.version import Version
from .device_selector import exceeds_cost_limit, expression_refusal

__all__ = ["Asked", "UnreadError", "Verdict", "check_all_read", "verdict_on", "with_selectors_read"]

_T = TypeVar("_T")

_READ_AT_ONCE: Final = 2048
"""How many characters of a write's selectors are read in the event loop."""
_KEPT_BYTES: Final = 16 * 1024**2
_VERDICT_BYTES: Final = 256
"""Of one that is no refusal."""


class Asked(NamedTuple):
    """An expression, and what the server knows; see `expression_refusal`."""

    expression: str
    release: Version
    knows_sharing: bool
    functions: tuple[str, ...]

    @property
    def key(self) -> tuple[bytes, Version, bool, tuple[str, ...]]:
        """It in short: the texts of the selectors of many objects would take much memory."""
        return sha256(self.expression.encode()).digest(), *self[1:]


class Verdict(NamedTuple):
    """Why an expression is refused, if it is, and whether it is one that may cost too much."""

    refusal: str | None
    is_too_costly: bool = False


class UnreadError(Exception):
    """An object has selectors that are to be read before it can be checked."""


class _Unread:
    """The selectors of one write that are not read, and how many characters of others still may be."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.left = _READ_AT_ONCE


_unread: ContextVar[_Unread | None] = ContextVar("unread", default=None)
_known: dict[object, Verdict] = {}
_kept = 0
_keeping = threading.Lock()


def verdict_on(asked: Asked) -> Verdict:
    """What the server says; within `with_selectors_read` it may be nothing, and `check_all_read` fails."""
    known = _known.get(asked.key)
    if known is not None:
        return known
    unread = _unread.get()
    if unread is not None:
        unread.left -= len(asked.expression)
        if unread.left < 0:
            unread.asked.append(asked)
            return Verdict(None)
    return _remembered(asked, _read(asked))


def check_all_read() -> None:
    """See that all selectors of an object were read.

    Raises:
        UnreadError: some are to be read first.
    """
    unread = _unread.get()
    if unread is not None and unread.asked:
        raise UnreadError


async def with_selectors_read(write: Callable[[], Awaitable[_T]], turn: asyncio.Lock) -> _T:
    """Carry a write out, which is begun again once its selectors are read.

    Args:
        write: has written nothing where `check_all_read` fails.
        turn: one write after the other has its selectors read.
    """
    while True:
        unread = _Unread()
        token = _unread.set(unread)
        try:
            return await write()
        except UnreadError:
            pass
        finally:
            _unread.reset(token)
        async with turn:
            waiting = [asked for asked in unread.asked if asked.key not in _known]
            for asked, verdict in zip(waiting, await _read_in_thread(waiting), strict=True):
                _remembered(asked, verdict)


async def _read_in_thread(waiting: list[Asked]) -> list[Verdict]:
    is_over = threading.Event()

    def read() -> list[Verdict]:
        return [Verdict(None) if is_over.is_set() else _read(asked) for asked in waiting]

    try:
        return await asyncio.to_thread(read)
    finally:
        is_over.set()


def _read(asked: Asked) -> Verdict:
    expression, release, knows_sharing, functions = asked
    refusal = expression_refusal(expression, release=release, knows_sharing=knows_sharing, functions=functions)
    if refusal is not None:
        return Verdict(refusal)
    return Verdict(None, exceeds_cost_limit(expression, release=release, knows_sharing=knows_sharing))


def _remembered(asked: Asked, verdict: Verdict) -> Verdict:
    """Keep a verdict, and forget the oldest ones."""
    global _kept
    with _keeping:
        if asked.key not in _known:
            _known[asked.key] = verdict
            _kept += _size(verdict)
        while _kept > _KEPT_BYTES:
            _kept -= _size(_known.pop(next(iter(_known))))
    return verdict


def _size(verdict: Verdict) -> int:
    return _VERDICT_BYTES + len(verdict.refusal or "")
