"""Lines from a pipe: what is kept of them while nobody takes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from simkubelet.stdio.lines import LineReader
from simkubelet.stdio.request import LONGEST_LINE, RequestError, parse


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield reading, writing
    for descriptor in (reading, writing):
        os.close(descriptor)


async def fill(writing: int, data: bytes, most: int = 64 << 20) -> int:
    """Write as much as the other side takes, up to a limit; how much that was."""
    written = misses = 0
    while written < most and misses < 100:
        try:
            written += os.write(writing, data)
            misses = 0
        except BlockingIOError:
            misses += 1
        await asyncio.sleep(0)
    return written


async def test_who_writes_faster_than_lines_are_taken_waits(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineReader(reading) as lines:
        written = await fill(writing, b"0123456\n" * 512)

        assert written < 1 << 20
        assert [await lines.next() for _ in range(written // 8)] == [b"0123456"] * (written // 8)


async def test_of_a_line_without_end_a_beginning_is_kept(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineReader(reading, longest=1000) as lines:
        assert await fill(writing, b"x" * 4096, most=1 << 20) == 1 << 20
        assert await fill(writing, b"\nshort\n" + b"y" * 1000 + b"\n", most=1) == 1008

        assert [await lines.next() for _ in range(3)] == [b"x" * 1001, b"short", b"y" * 1000]


def test_line_that_is_too_long_is_refused() -> None:
    with pytest.raises(RequestError, match="the line is too long; write at most 16777216 bytes"):
        parse(b" " * (LONGEST_LINE + 1))
