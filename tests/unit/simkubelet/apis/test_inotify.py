"""Fed in: changes of files; observed: what a watch of their paths reports."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from simkubelet.apis import inotify
from simkubelet.apis.inotify import Inotify, Mask, PathEvent, PathWatch
from tests.support.patience import LIMIT_S


@pytest.fixture
async def watch() -> AsyncIterator[PathWatch]:
    with PathWatch() as watch:
        yield watch


async def _next(watch: PathWatch) -> PathEvent:
    async with asyncio.timeout(LIMIT_S):
        return await anext(watch)


async def test_names_in_a_folder_are_reported_in_order(watch: PathWatch, tmp_path: Path) -> None:
    watch.add(tmp_path, Mask.CREATE | Mask.MOVED_TO | Mask.DELETE | Mask.ONLYDIR)
    (tmp_path / "é").mkdir()
    (tmp_path / "é").rename(tmp_path / "b")
    (tmp_path / "b").rmdir()

    assert [await _next(watch) for _ in range(3)] == [
        (Mask.CREATE | Mask.ISDIR, tmp_path / "é"),
        (Mask.MOVED_TO | Mask.ISDIR, tmp_path / "b"),
        (Mask.DELETE | Mask.ISDIR, tmp_path / "b"),
    ]


async def test_watched_file_reports_itself(watch: PathWatch, tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.touch()
    watch.add(file, Mask.MODIFY)
    file.write_text("a")

    assert await _next(watch) == (Mask.MODIFY, file)


async def test_removed_folder_reports_nothing_more(watch: PathWatch, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "b"):
        watch.add(folder, Mask.CREATE)
    (tmp_path / "a" / "b" / "unread").touch()

    watch.remove(tmp_path / "a")
    (tmp_path / "a" / "late").touch()
    (tmp_path / "end").touch()

    assert await _next(watch) == (Mask.CREATE, tmp_path / "end")


async def test_path_that_cannot_be_watched_is_an_error(watch: PathWatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotADirectoryError):
        watch.add(tmp_path / "file", Mask.CREATE | Mask.ONLYDIR)
    with pytest.raises(FileNotFoundError):
        watch.add(tmp_path / "missing", Mask.CREATE)


async def test_lost_events_have_no_path(watch: PathWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = inotify._EVENT.pack(-1, Mask.OVERFLOW, 0, 0)
    watch.add(tmp_path, Mask.CREATE)
    monkeypatch.setattr(inotify.os, "read", lambda descriptor, size: lost)
    (tmp_path / "a").touch()

    assert await _next(watch) == (Mask.OVERFLOW, None)


def _instances() -> int:
    return sum("inotify" in os.path.realpath(entry) for entry in os.scandir("/proc/self/fd"))


async def test_watches_of_a_loop_share_one_instance_and_leave_none(tmp_path: Path) -> None:
    before = _instances()
    listeners = [Inotify(lambda event: None) for _ in range(200)]
    for number, listener in enumerate(listeners):
        (tmp_path / str(number)).mkdir()
        listener.add(tmp_path / str(number), Mask.CREATE)

    assert _instances() == before + 1
    for listener in listeners:
        listener.close()
        listener.close()
    assert _instances() == before


async def test_path_that_cannot_be_watched_leaves_no_instance(tmp_path: Path) -> None:
    before = _instances()

    with pytest.raises(FileNotFoundError):
        Inotify(lambda event: None).add(tmp_path / "missing", Mask.CREATE)

    assert _instances() == before


async def test_two_watches_of_a_folder_each_report_by_their_own_mask_and_path(watch: PathWatch, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    watch.add(tmp_path / "folder", Mask.CREATE)
    with PathWatch() as other:
        other.add(tmp_path / "link", Mask.DELETE)
        (tmp_path / "folder" / "a").touch()
        (tmp_path / "folder" / "a").unlink()
        (tmp_path / "folder" / "b").touch()

        assert await _next(other) == (Mask.DELETE, tmp_path / "link" / "a")
    assert [await _next(watch) for _ in range(2)] == [
        (Mask.CREATE, tmp_path / "folder" / "a"),
        (Mask.CREATE, tmp_path / "folder" / "b"),
    ]


async def test_later_watch_of_a_folder_reports_nothing_older(watch: PathWatch, tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    file.touch()
    watch.add(file, Mask.MODIFY)
    with file.open("a") as log, PathWatch() as other:
        print("before", file=log, flush=True)
        other.add(file, Mask.MODIFY)
        # The kernel would take it for the one that nobody has read.
        print("after", file=log, flush=True)

        assert await _next(other) == (Mask.MODIFY, file)
        assert not other._taken
    assert [await _next(watch) for _ in range(2)] == [(Mask.MODIFY, file)] * 2


async def test_path_that_is_added_again_reports_what_came_before(watch: PathWatch, tmp_path: Path) -> None:
    watch.add(tmp_path, Mask.CREATE)
    (tmp_path / "a").touch()
    watch.add(tmp_path, Mask.CREATE | Mask.DELETE)
    (tmp_path / "a").unlink()

    assert [await _next(watch) for _ in range(2)] == [(Mask.CREATE, tmp_path / "a"), (Mask.DELETE, tmp_path / "a")]


async def test_watch_of_a_deleted_folder_ends_without_the_watches_that_came_later(tmp_path: Path) -> None:
    changed = asyncio.Event()
    listeners = [Inotify(lambda event: changed.set()) for _ in range(3)]
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    listeners[0].add(tmp_path / "a", Mask.CREATE)
    listeners[1].add(tmp_path / "b", Mask.CREATE)
    (tmp_path / "a").rmdir()
    # Reports of the second folder come after the end of the first.
    (tmp_path / "b" / "mark").touch()
    await changed.wait()
    listeners[1].close()
    listeners[2].add(tmp_path / "c", Mask.CREATE)

    listeners[0].close()

    changed.clear()
    (tmp_path / "c" / "mark").touch()
    await changed.wait()
    listeners[2].close()


async def test_closed_listener_is_not_called_for_what_was_read_with_its_end(tmp_path: Path) -> None:
    events: list[PathEvent] = []

    def take(event: PathEvent) -> None:
        events.append(event)
        for listener in listeners:
            listener.close()

    listeners = [Inotify(take), Inotify(take)]
    for listener in listeners:
        listener.add(tmp_path, Mask.CREATE)
    (tmp_path / "a").touch()
    with PathWatch() as last:
        last.add(tmp_path, Mask.CREATE | Mask.DELETE)
        (tmp_path / "a").unlink()
        await _next(last)

    assert events == [(Mask.CREATE, tmp_path / "a")]


async def test_events_that_nobody_takes_are_bounded(
    watch: PathWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify, "_MOST_EVENTS", 3)
    watch.add(tmp_path, Mask.CREATE)
    with PathWatch() as reader:
        reader.add(tmp_path, Mask.CREATE)
        for name in "abcde":
            (tmp_path / name).touch()
            assert await _next(reader) == (Mask.CREATE, tmp_path / name)

        assert [(await _next(watch)).path for _ in range(4)] == [tmp_path / "a", tmp_path / "b", tmp_path / "c", None]
        (tmp_path / "f").touch()
        assert await _next(watch) == (Mask.CREATE, tmp_path / "f")


async def test_end_of_a_watch_is_not_lost(watch: PathWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "_MOST_EVENTS", 2)
    folder = tmp_path / "folder"
    folder.mkdir()
    watch.add(folder, Mask.CREATE)
    watch.add(tmp_path, Mask.CREATE)
    for name in "abc":
        (folder / name).mkdir()
    shutil.rmtree(folder)

    assert [(await _next(watch)).path for _ in range(3)] == [folder / "a", folder / "b", None]
    (tmp_path / "end").touch()
    assert await _next(watch) == (Mask.CREATE, tmp_path / "end")
    assert [path for path, _, _ in watch._watched.values()] == [tmp_path]


async def test_watch_is_made_while_others_make_events_without_end(
    watch: PathWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.add(tmp_path, Mask.CREATE)
    read, reads = os.read, itertools.count()

    def read_and_make_another(descriptor: int, size: int) -> bytes:
        if (number := next(reads)) < 1000:
            (tmp_path / str(number)).touch()
        return read(descriptor, size)

    monkeypatch.setattr(inotify.os, "read", read_and_make_another)
    (tmp_path / "first").touch()
    watch.add(tmp_path, Mask.CREATE | Mask.DELETE)

    assert next(reads) < 3
