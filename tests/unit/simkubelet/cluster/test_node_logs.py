"""The output of containers as readers get it: parts of any file, in blocks, over rotations."""

from __future__ import annotations

import os
import tracemalloc
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkubelet.cluster import node_logs
from simkubelet.cluster.api.endpoints.request import LogOptions
from simkubelet.cluster.node_logs import NodeLogs
from simkubelet.runtime.process_container import container_log

DATE = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)
PREFIX = b"2026-11-29T12:30:00.000000000Z "


class SomeContainer:
    """A container that has written something, on a node of which all else is left out.

    Attributes:
        log: what it has written.
        run: the run of it; a test ends it.
    """

    def __init__(self, folder: Path) -> None:
        self.run = SimpleNamespace(attempt=0, is_running=True)
        kubelet = SimpleNamespace(
            is_running=True, container_logs=folder, containers_of_uid=lambda uid: {"main": self.run}
        )
        self.log = container_log(folder, "default_pod_1", "main", 0)
        self.log.parent.mkdir(parents=True)
        self._logs = NodeLogs({"node": kubelet}, lambda: DATE)  # type: ignore[dict-item]  # as much as is asked of it

    def write(self, output: bytes) -> None:
        self.log.write_bytes(output)
        os.utime(self.log, (DATE.timestamp(),) * 2)

    def pieces(self, **options: Any) -> Any:
        pod = {
            "metadata": {"namespace": "default", "name": "pod", "uid": "1"},
            "spec": {"nodeName": "node"},
            "status": {"containerStatuses": [{"name": "main", "restartCount": 0, "state": {"running": {}}}]},
        }
        return self._logs.read(pod, "main", LogOptions(**options))

    async def output(self, **options: Any) -> bytes:
        return b"".join([piece async for piece in self.pieces(**options)])


@pytest.fixture
def container(tmp_path: Path) -> SomeContainer:
    return SomeContainer(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SomeContainer:
    """A container that writes another log for each example."""
    return SomeContainer(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_logs, "_BLOCK_BYTES", 3)


def lines_of(output: bytes) -> list[bytes]:
    """The lines with their ends; the last may have none."""
    lines = [line + b"\n" for line in output.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return [line for line in lines if line]


OUTPUTS = st.lists(st.sampled_from([b"\n", b"\r", b"a", b"bcde", "\u2028".encode()])).map(b"".join)


@pytest.mark.usefixtures("_small_blocks")
@given(output=OUTPUTS, count=st.none() | st.integers(0, 9), dates=st.booleans(), limit=st.none() | st.integers(1, 40))
async def test_any_part_is_what_whole_lines_give(
    shared: SomeContainer, output: bytes, count: int | None, dates: bool, limit: int | None
) -> None:
    shared.write(output)
    lines = lines_of(output)[-count:] if count else [] if count == 0 else lines_of(output)

    expected = b"".join(PREFIX * dates + line for line in lines)[:limit]

    assert await shared.output(tail_lines=count, timestamps=dates, limit_bytes=limit) == expected


@pytest.mark.parametrize("options", [{}, {"tail_lines": 100_000}, {"timestamps": True}], ids=str)
async def test_slow_reader_costs_some_blocks_only(container: SomeContainer, options: dict[str, Any]) -> None:
    container.write(b"a line\n" * 1_000_000)

    tracemalloc.start()
    try:
        async with aclosing(container.pieces(**options)) as pieces:
            sizes = [len(await anext(pieces)) for _ in range(20)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert 0 < max(sizes) < 500_000
    assert peak < 1_000_000


async def test_last_lines_are_found_from_the_end(container: SomeContainer, monkeypatch: pytest.MonkeyPatch) -> None:
    container.write(b"a line\n" * 1_000_000)
    read = list[int]()
    monkeypatch.setattr(os, "pread", lambda *args, real=os.pread: read.append(args[1]) or real(*args))

    assert await container.output(tail_lines=3) == b"a line\n" * 3

    assert sum(read) < 100_000


@pytest.mark.usefixtures("_small_blocks")
async def test_follower_goes_on_after_a_rotation(container: SomeContainer) -> None:
    container.write(b"before\n")
    async with aclosing(container.pieces(follow=True)) as pieces:
        seen = await anext(pieces)
        while seen != b"before\n":
            seen += await anext(pieces)
        with container.log.open("ab") as file:
            file.write(b"last of the file\n")
        container.log.rename(f"{container.log}.20261129-123000")
        container.log.write_bytes(b"first of the next\n")
        container.run.is_running = False
        seen += b"".join([piece async for piece in pieces])

    assert seen == b"before\nlast of the file\nfirst of the next\n"


async def test_reader_of_what_was_rotated_gets_the_current_file(container: SomeContainer) -> None:
    container.write(b"before\n")
    container.log.rename(f"{container.log}.20261129-123000")
    container.write(b"after\n")

    assert await container.output() == b"after\n"


async def test_reader_that_leaves_closes_the_file(container: SomeContainer) -> None:
    container.write(b"a line\n" * 100_000)

    async with aclosing(container.pieces(follow=True)) as pieces:
        await anext(pieces)
        assert is_open(container.log)

    assert not is_open(container.log)


def is_open(path: Path) -> bool:
    """Whether this process has a file open."""
    found = False
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found |= entry.readlink() == path
        except FileNotFoundError:
            continue
    return found
