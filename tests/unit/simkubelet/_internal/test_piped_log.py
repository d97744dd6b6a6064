"""A log that is written through a pipe: what is in it, how long it becomes, and who waits for it."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from simkubelet._internal import piped_log
from simkubelet.host import PipedLog, rotated_files
from tests.support.decoy import Decoy
from tests.support.patience import until

LINE = b"a line of the log\n"
PIPE_BYTES = 1 << 16


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[PipedLog]:
    async with PipedLog.open(tmp_path / "0.log") as log:
        yield log


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotate at 10 lines, and at once at 64."""
    monkeypatch.setattr(piped_log, "_MAX_BYTES", 10 * len(LINE))
    monkeypatch.setattr(piped_log, "_MOST_BYTES", 64 * len(LINE))
    monkeypatch.setattr(piped_log, "_PIECE_BYTES", 64 * len(LINE))
    monkeypatch.setattr(piped_log, "_LOOK_S", 0.02)


async def test_all_that_was_written_is_there_after_the_end(log: PipedLog) -> None:
    written = bytes(range(256)) * 200
    os.write(log.pipe.fileno(), written)

    await log.close()
    await log.close()

    assert log.path.read_bytes() == written


async def test_end_does_not_wait_for_who_has_the_pipe(log: PipedLog) -> None:
    other = os.dup(log.pipe.fileno())
    try:
        os.write(other, b"a daemon's\n")
        await log.close()
    finally:
        os.close(other)

    assert log.path.read_bytes() == b"a daemon's\n"


async def test_file_of_an_earlier_process_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"before\n")

    async with PipedLog.open(path) as log:
        os.write(log.pipe.fileno(), b"after\n")

    assert log.begin == len(b"before\n")
    assert path.read_bytes() == b"before\nafter\n"


@pytest.mark.usefixtures("_small")
async def test_log_of_ten_mebibytes_is_rotated_when_it_is_looked_at(log: PipedLog) -> None:
    os.write(log.pipe.fileno(), LINE * 12)
    await until(lambda: rotated_files(log.path))
    os.write(log.pipe.fileno(), LINE)
    await log.close()

    [rotated] = rotated_files(log.path)
    assert rotated.read_bytes() == LINE * 12
    assert (log.begin, log.path.read_bytes()) == (0, LINE)
    assert piped_log.datetime.strptime(rotated.name, "0.log.%Y%m%d-%H%M%S")


@pytest.mark.usefixtures("_small")
async def test_shorter_log_is_left_alone(log: PipedLog) -> None:
    os.write(log.pipe.fileno(), LINE * 9)
    await asyncio.sleep(0.1)

    assert rotated_files(log.path) == []


@pytest.mark.usefixtures("_small")
async def test_flood_is_bounded_in_files_and_bytes(log: PipedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(10**6))
    names = lambda path: path.rename(f"{path}.20200101-{next(seconds):06}")  # noqa: E731
    monkeypatch.setattr(piped_log, "_set_aside", names)

    await asyncio.to_thread(flood, log.pipe.fileno(), LINE * 10_000)
    await log.close()

    files = rotated_files(log.path)
    # It may have ended within a rotation.
    assert [file.suffix for file in files[:3]] == [".gz"] * 3
    assert len(files) <= 4
    assert max(len(content(file)) for file in (*files, log.path)) <= 2 * 64 * len(LINE) + PIPE_BYTES
    assert b"".join(map(content, (*files, log.path))) in LINE * 10_000


async def test_full_disk_loses_output_and_blocks_nobody(caplog: pytest.LogCaptureFixture) -> None:
    full = Path("/dev/full")
    file = await asyncio.to_thread(full.open, "ab", 0)
    async with PipedLog(full, file) as log:
        await asyncio.to_thread(flood, log.pipe.fileno(), LINE * 10_000)

    assert [record.message for record in caplog.records] == [
        "/dev/full: what is written is lost: No space left on device"
    ]


@pytest.mark.usefixtures("_small")
async def test_what_a_crash_left_of_a_rotation_is_removed(log: PipedLog) -> None:
    folder = log.path.parent
    for name in ("0.log.20200101-100000.gz.tmp", "0.log.20200101-110000", "0.log.20200101-110000.gz"):
        (folder / name).write_bytes(b"")
    (folder / "10.log.20200101-110000").write_bytes(b"another's")

    os.write(log.pipe.fileno(), LINE * 12)
    await until(lambda: len(rotated_files(log.path)) == 2)

    assert rotated_files(log.path)[0].name == "0.log.20200101-110000.gz"
    assert (folder / "10.log.20200101-110000").exists()


@pytest.mark.usefixtures("_small")
async def test_rotation_leaves_alone_what_links_lead_to(
    log: PipedLog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    decoy = Decoy(tmp_path_factory.mktemp("skd") / "decoy")
    folder = log.path.parent
    (folder / "0.log.20200101-100000").symlink_to(decoy.place / "f")
    os.mkfifo(folder / "0.log.20200101-110000")
    (folder / "0.log.20200101-120000").write_bytes(b"rotated")
    (folder / "0.log.20200101-120000.gz.tmp").symlink_to(decoy.place / "f")

    os.write(log.pipe.fileno(), LINE * 12)
    await until(lambda: log.is_rotated)

    assert [content(file) for file in rotated_files(log.path)] == [b"rotated", LINE * 12]
    decoy.check()


@pytest.mark.parametrize("work", [piped_log._set_aside, piped_log._make_room])
def test_folder_that_became_a_link_is_left_alone(tmp_path: Path, work: Callable[[Path], None]) -> None:
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    for name in ("5.log", "5.log.20200101-100000", "5.log.20200101-100000.gz.tmp"):
        (decoy / name).write_bytes(b"another's")
    (tmp_path / "logs").symlink_to(decoy)

    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        work(tmp_path / "logs" / "5.log")

    assert {file.name: file.read_bytes() for file in decoy.iterdir()} == dict.fromkeys(
        ["5.log", "5.log.20200101-100000", "5.log.20200101-100000.gz.tmp"], b"another's"
    )


def flood(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def content(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
