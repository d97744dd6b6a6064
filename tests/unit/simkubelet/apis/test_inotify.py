"""Fed in: changes of files; observed: what a watch of their paths reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from simkubelet.apis import inotify
from simkubelet.apis.inotify import Mask, PathEvent, PathWatch
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
