from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet._internal.change import Change
from simkubelet.model.errors import HostError
from simkubelet.node_tree import FileTree
from simkubelet.registration.plugin_manager import PluginWatcher
from tests.support.decoy import make_deep_folder
from tests.support.patience import LIMIT_S


class Sightings:
    """What a watcher reported, in order: (what, path below the folder)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str, str]] = []
        self._change = Change()

    def found(self, path: Path) -> None:
        self._add("found", path)

    def deleted(self, path: Path) -> None:
        self._add("deleted", path)

    async def until(self, what: str, name: str) -> None:
        count = self._change.count
        async with asyncio.timeout(LIMIT_S):
            while (what, name) not in self.seen:
                count = await self._change.wait(count)

    def _add(self, what: str, path: Path) -> None:
        self.seen.append((what, str(path.relative_to(self.folder))))
        self._change.notify()


@pytest.fixture
def folder(short_folder: Path) -> Path:
    return short_folder / "plugins_registry"


@pytest.fixture
async def sightings(folder: Path) -> Sightings:
    return Sightings(folder)


@pytest.fixture
def watch(folder: Path, sightings: Sightings) -> Iterator[Callable[[], PluginWatcher]]:
    def start() -> PluginWatcher:
        watcher = PluginWatcher(folder, sightings.found, sightings.deleted)
        watcher.start()
        return watcher

    return start


@pytest.fixture
async def watcher(watch: Callable[[], PluginWatcher]):
    watcher = watch()
    yield watcher
    watcher.stop()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


async def test_missing_folder_is_made(watcher: PluginWatcher, folder: Path):
    assert os.stat(folder).st_mode & 0o777 == 0o750  # noqa: PTH116 - a path's own method counts as blocking here


async def test_sockets_that_are_there_are_found_in_folders_too(folder: Path, watch, sightings: Sightings):
    (folder / "deep" / "deeper").mkdir(parents=True)
    for name in ("b.sock", "a.sock", "deep/deeper/c.sock", ".hidden.sock"):
        make_socket(folder / name)
    (folder / "file.sock").write_text("no socket")
    (folder / "link.sock").symlink_to(folder / "a.sock")

    watch().stop()

    assert sightings.seen == [("found", name) for name in ("a.sock", "b.sock", "deep/deeper/c.sock", "link.sock")]


async def test_only_new_sockets_without_a_leading_dot_are_found(watcher, folder: Path, sightings: Sightings):
    (folder / "file.sock").write_text("no socket")
    make_socket(folder / ".hidden.sock")
    make_socket(folder / "last.sock")

    await sightings.until("found", "last.sock")
    assert sightings.seen == [("found", "last.sock")]


async def test_folder_made_later_is_followed(watcher, folder: Path, sightings: Sightings):
    (folder / "later").mkdir()
    make_socket(folder / "later" / "early.sock")
    await sightings.until("found", "later/early.sock")
    make_socket(folder / "later" / "late.sock")

    await sightings.until("found", "later/late.sock")


async def test_folder_with_a_leading_dot_is_followed_only_when_it_was_there(folder: Path, watch, sightings: Sightings):
    (folder / ".old").mkdir(parents=True)
    watcher = watch()
    (folder / ".new").mkdir()
    make_socket(folder / ".new" / "x.sock")
    make_socket(folder / ".old" / "y.sock")

    await sightings.until("found", ".old/y.sock")
    watcher.stop()
    assert sightings.seen == [("found", ".old/y.sock")]


def linked(folder: Path) -> Path:
    """Make a folder as a link to another one, which is returned."""
    real = folder.parent / "elsewhere"
    real.mkdir()
    folder.symlink_to(real)
    return real


async def test_linked_folder_is_not_looked_into_but_watched(folder: Path, watch, sightings: Sightings):
    real = linked(folder)
    make_socket(real / "old.sock")

    watcher = watch()
    make_socket(real / "new.sock")

    await sightings.until("found", "new.sock")
    assert sightings.seen == [("found", "new.sock")]
    watcher.stop()


@pytest.fixture
def outside(short_folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=short_folder.parent) as folder:
        yield Path(folder)


def make_odd(folder: Path, outside: Path) -> None:
    """Entries that a watcher cannot, or must not, look into; their names come before those of sockets."""
    folder.mkdir(exist_ok=True)
    (folder / "a-root").symlink_to("/proc/1/root")
    (folder / "a-out").symlink_to(outside)
    (folder / "a-loop").symlink_to("b-loop")
    (folder / "b-loop").symlink_to("a-loop")
    (folder / "a-itself").symlink_to("a-itself")
    os.mkfifo(folder / "a-fifo")
    (folder / "a-closed").mkdir(mode=0)


@pytest.mark.parametrize("is_late", [False, True], ids=["at the start", "later"])
async def test_entry_that_leads_nowhere_hides_no_socket(
    folder: Path, watch: Any, sightings: Sightings, outside: Path, is_late: bool
) -> None:
    watcher = watch() if is_late else None
    make_odd(folder, outside)
    make_deep_folder(folder / "a-deep")
    make_socket(folder / "z.sock")
    watcher = watcher or watch()
    await sightings.until("found", "z.sock")

    make_socket(outside / "s.sock")
    make_socket(folder / "z2.sock")
    await sightings.until("found", "z2.sock")

    assert sightings.seen == [("found", "z.sock"), ("found", "z2.sock")]
    watcher.stop()
    FileTree(folder).remove_folder("/a-deep")
    (folder / "a-closed").rmdir()


@pytest.fixture
def link_out(folder: Path, outside: Path) -> None:
    folder.symlink_to(outside)


@pytest.mark.usefixtures("link_out")
async def test_registry_that_leads_out_of_the_node_is_a_host_error(watch: Any) -> None:
    with pytest.raises(HostError, match="plugins_registry: cannot be watched: leads out of the node's folder"):
        watch()


async def test_deleted_socket_is_reported_and_one_renamed_away_is_not(watcher, folder: Path, sightings: Sightings):
    for name in ("kept.sock", "gone.sock"):
        make_socket(folder / name)
    await sightings.until("found", "gone.sock")
    (folder / "kept.sock").rename(folder.parent / "kept.sock")
    (folder / "gone.sock").unlink()

    await sightings.until("deleted", "gone.sock")
    assert ("deleted", "kept.sock") not in sightings.seen


async def test_socket_renamed_into_the_folder_is_found(watcher, folder: Path, sightings: Sightings):
    make_socket(folder.parent / "x.sock")
    (folder.parent / "x.sock").rename(folder / "x.sock")

    await sightings.until("found", "x.sock")


async def test_folder_that_cannot_be_made_is_a_host_error(short_folder: Path):
    (short_folder / "file").write_text("")

    with pytest.raises(HostError, match=r"file/x: cannot be watched: Not a directory; check"):
        PluginWatcher(short_folder / "file" / "x", lambda path: None, lambda path: None).start()


async def test_sockets_in_more_folders_than_are_watched_are_left_out(
    folder: Path, sightings: Sightings, watch: Callable[[], PluginWatcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simkubelet.registration.plugin_manager._MOST_FOLDERS", 3)
    for name in ("a", "b", "c", "d"):
        (folder / name).mkdir(parents=True)
        make_socket(folder / name / "x.sock")
    make_socket(folder / "x.sock")

    watcher = watch()
    for name in ("c", "a"):
        shutil.rmtree(folder / name)
    await sightings.until("deleted", "a")
    (folder / "e").mkdir()
    make_socket(folder / "e" / "x.sock")
    await sightings.until("found", "e/x.sock")
    watcher.stop()

    assert [name for what, name in sightings.seen if what == "found"] == ["a/x.sock", "b/x.sock", "x.sock", "e/x.sock"]
