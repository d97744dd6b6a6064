"""Fed in: changes of a directory; observed: the devices of the gopher plugin."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path, PurePath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plugin.errors import FatalError
from plugin.framework import DeviceID
from plugin.gopher.device_plugin import GopherPlugin
from plugin.gopher.directory_watch import DeviceFiles, DirectoryWatch, OriginalWatch
from simkubelet.apis.inotify import PathWatch
from tests.support.patience import LIMIT_S

_names = st.sampled_from(["a", "b", "c"])
_paths = st.lists(_names, min_size=1, max_size=3).map(lambda parts: PurePath("/etc/gophers", *parts))
_changes = st.lists(st.tuples(st.sampled_from(["add", "remove"]), _paths), max_size=30)


@given(_changes)
@settings(deadline=None)
def test_devices_are_the_names_of_the_files_that_are_left(changes: list[tuple[str, PurePath]]) -> None:
    files, model = DeviceFiles(), set[str]()

    for change, path in changes:
        if change == "add":
            files.add(path)
            model.add(str(path))
        else:
            files.remove(path)
            model = {file for file in model if file != str(path) and not file.startswith(f"{path}/")}

    assert list(files.device_ids()) == sorted({file.rsplit("/", 1)[1] for file in model})


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    """A directory with the files g1 and sub/g2, and its watch."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "g1").touch()
    (tmp_path / "sub/g2").touch()
    with DirectoryWatch(tmp_path) as watch:
        yield Watched(tmp_path, watch)


class Watched:
    def __init__(self, folder: Path, watch: DirectoryWatch) -> None:
        self.folder = folder
        self._lists = watch.device_ids()

    async def until(self, *expected: str) -> None:
        """Wait until the devices are these."""
        async with asyncio.timeout(LIMIT_S):
            while await anext(self._lists) != expected:
                pass


async def test_files_of_sub_directories_are_devices_at_the_start(watched: Watched) -> None:
    await watched.until("g1", "g2")


async def test_created_and_removed_files_come_and_go(watched: Watched) -> None:
    await watched.until("g1", "g2")
    (watched.folder / "g3").touch()
    await watched.until("g1", "g2", "g3")
    (watched.folder / "g1").unlink()
    await watched.until("g2", "g3")


async def test_renamed_file_changes_its_device(watched: Watched) -> None:
    (watched.folder / "g1").rename(watched.folder / "g4")
    await watched.until("g2", "g4")


async def test_new_directory_is_no_device_but_its_files_are(watched: Watched) -> None:
    (watched.folder / "new/deeper").mkdir(parents=True)
    (watched.folder / "new/deeper/g5").touch()
    await watched.until("g1", "g2", "g5")
    (watched.folder / "new/deeper/g6").touch()
    await watched.until("g1", "g2", "g5", "g6")


async def test_directory_moved_away_takes_its_devices_and_later_files_with_it(
    watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "sub"
    (watched.folder / "sub").rename(elsewhere)
    await watched.until("g1")
    (elsewhere / "g7").touch()
    (watched.folder / "g8").touch()
    await watched.until("g1", "g8")


async def test_directory_moved_in_brings_its_devices(
    watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    brought = tmp_path_factory.mktemp("brought")
    (brought / "g9").touch()
    brought.rename(watched.folder / "brought")
    await watched.until("g1", "g2", "g9")


async def test_removed_directory_takes_its_devices(watched: Watched) -> None:
    shutil.rmtree(watched.folder / "sub")
    await watched.until("g1")


async def test_one_of_two_files_of_one_name_keeps_the_device(watched: Watched) -> None:
    await watched.until("g1", "g2")
    (watched.folder / "g2").touch()
    (watched.folder / "sub/g2").unlink()
    (watched.folder / "g3").touch()
    await watched.until("g1", "g2", "g3")


async def test_link_to_a_directory_is_one_device(watched: Watched) -> None:
    (watched.folder / "link").symlink_to("sub")
    await watched.until("g1", "g2", "link")


async def test_directory_that_vanishes_ends_the_plugin(watched: Watched) -> None:
    shutil.rmtree(watched.folder)

    with pytest.raises(FatalError, match="is gone"):
        await watched.until("never")


async def test_missing_directory_ends_the_plugin_with_advice(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="No such file or directory; make it or name one with --directory"):
        DirectoryWatch(tmp_path / "x")


async def test_exhausted_inotify_ends_the_plugin_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(watch: PathWatch, path: Path, mask: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(PathWatch, "add", refuse)

    with pytest.raises(FatalError) as end:
        DirectoryWatch(tmp_path)

    assert str(end.value) == (
        f"cannot watch the gopher directory {tmp_path}: Too many open files; "
        "check its permissions and the limits of open files and of inotify"
    )


def _unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let listing `folder` fail; permissions alone would not stop root."""
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if path == folder:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)


async def test_unreadable_directory_below_ends_the_start_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    _unreadable(tmp_path / "sub", monkeypatch)

    with pytest.raises(FatalError, match=f"gopher directory {tmp_path}/sub: Permission denied; check"):
        DirectoryWatch(tmp_path)


async def test_unreadable_directory_that_appears_ends_the_plugin(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    _unreadable(watched.folder / "new", monkeypatch)
    (watched.folder / "new").mkdir()

    with pytest.raises(FatalError, match=f"gopher directory {watched.folder}/new: Permission denied; check"):
        await watched.until("never")


def test_allocation_names_the_devices_in_request_order(tmp_path: Path) -> None:
    answer = GopherPlugin(tmp_path).allocate([DeviceID("g2"), DeviceID("g1")])

    assert dict(answer.envs) == {"Gopher": "g2,g1"}
    assert not answer.devices
    assert not answer.mounts


async def _until(lists: AsyncIterator[tuple[DeviceID, ...]], *expected: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await anext(lists) != expected:
            pass


async def test_original_takes_folders_for_devices_and_overlooks_renames_and_what_lies_deeper(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/g1").touch()
    (tmp_path / "g2").touch()
    with OriginalWatch(tmp_path) as watch:
        lists = watch.device_ids()
        await _until(lists, "g1", "g2")
        (tmp_path / "sub/g3").touch()
        (tmp_path / "den").mkdir()
        await _until(lists, "den", "g1", "g2")
        (tmp_path / "g2").rename(tmp_path / "g4")
        await _until(lists, "den", "g1", "g2", "g4")
        (tmp_path / "g4").unlink()
        await _until(lists, "den", "g1", "g2")


async def test_original_ends_with_a_panics_status_without_its_directory(tmp_path: Path) -> None:
    with pytest.raises(FatalError) as end:
        OriginalWatch(tmp_path / "x")

    assert end.value.exit_status == 2
