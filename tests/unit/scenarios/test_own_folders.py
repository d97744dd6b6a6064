"""Folders of ours: marked and locked by who makes them; nothing else is cleared, and no link is followed."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.backends.world import folders
from scenarios.backends.world.folders import (
    MARK,
    FolderTakenError,
    ForeignFolderError,
    claim_folder,
    left_folders,
    new_folder,
    own_folder,
)
from simkubelet.model.errors import HostError, InputError
from tests.support.decoy import make_deep_folder


def tree(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of a user, with something in it."""
    home = tmp_path / "home"
    (home / "letters").mkdir(parents=True)
    (home / "letters" / "one").write_text("dear")
    return home


def left(place: Path, name: str = "sk-abcdefgh") -> Path:
    """What a killed process has left."""
    made = new_folder(place)
    (made.path / "node-1").mkdir()
    (made.path / "node-1" / "log").touch()
    made.release()
    return made.path.rename(place / name)


def test_folder_that_does_not_exist_is_made_with_its_parents(tmp_path: Path) -> None:
    made = new_folder(tmp_path / "a" / "b")

    assert (made.path.parent, tree(made.path)) == (tmp_path / "a" / "b", [MARK])


def test_relative_folder_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert new_folder(Path("a")).path.parent == tmp_path / "a"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        pytest.param("file", "File exists", id="file"),
        pytest.param("file/below", "Not a directory", id="below a file"),
        pytest.param("/".join("a" * 1800), "too many names", id="deep"),
    ],
)
def test_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path, place: str, why: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match=f"^{tmp_path / place}: no folder can be made here: {why}; .* --dir$"):
        new_folder(tmp_path / place)


@pytest.mark.parametrize("name", ["open", "write"])
def test_folder_that_cannot_be_marked_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patched:
        patched.setattr(folders.os, name, refuse)
        with pytest.raises(InputError, match="Permission denied"):
            new_folder(tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [new_folder, lambda place: claim_folder(place / "one")], ids=["new", "claimed"])
def test_machine_without_proc_is_refused_before_a_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    monkeypatch.setattr(folders, "_DESCRIPTORS", tmp_path / "missing")

    with pytest.raises(HostError, match=r"^/proc is not mounted here; mount it with "):
        make(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_folder_of_more_levels_than_a_living_program_is_waited_for_is_removed(tmp_path: Path) -> None:
    world = new_folder(tmp_path)
    make_deep_folder(world.path / "deep", levels=66_000)

    world.remove()

    assert tree(tmp_path) == []


def test_removed_folder_leaves_the_spared_files_and_the_way_to_them(tmp_path: Path) -> None:
    world, outside = new_folder(tmp_path), tmp_path / "outside"
    spared = [world.path / "a" / "logs" / "x", world.path / "b" / "y"]
    others = [world.path / part for part in ("a/logs/other", "a/root/etc/x", "c/z")]
    for file in (*spared, *others, outside):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (world.path / "a" / "link").symlink_to(tmp_path)

    world.remove(but=spared)

    assert tree(world.path) == [MARK, "a", "a/logs", "a/logs/x", "b", "b/y"]
    assert outside.exists()


def test_removed_folder_is_gone_where_nothing_is_spared(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder:
        (folder / "a").mkdir()

    assert tree(tmp_path) == []


def test_links_in_a_removed_folder_are_not_followed(tmp_path: Path, home: Path) -> None:
    with own_folder(tmp_path / "made") as folder:
        (folder / "letters").symlink_to(home / "letters")
        (folder / "logs").mkdir()
        (folder / "logs" / "all").symlink_to(home)

    assert tree(home) == ["letters", "letters/one"]


def test_folder_that_a_link_replaced_keeps_what_the_link_names(tmp_path: Path, home: Path) -> None:
    made = new_folder(tmp_path / "made")
    moved = made.path.rename(tmp_path / "moved")
    made.path.symlink_to(home)

    with pytest.raises(HostError, match="Not a directory"):
        made.remove()

    assert tree(home) == ["letters", "letters/one"]
    assert tree(moved) == []


def test_left_folder_is_claimed_and_cleared(tmp_path: Path) -> None:
    claimed = claim_folder(left(tmp_path))

    assert tree(claimed.path) == [MARK]


@pytest.mark.parametrize("mark", ["", "# Made by"], ids=["nothing of it", "its beginning"])
def test_folder_of_a_process_killed_while_marking_is_claimed(tmp_path: Path, mark: str) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / MARK).write_text(mark)

    assert tree(claim_folder(tmp_path / "one").path) == [MARK]


@pytest.mark.parametrize("mark", [None, "", "# Something else\n"], ids=["no mark", "empty mark", "another mark"])
def test_folder_with_files_of_the_user_is_refused_and_stays(home: Path, mark: str | None) -> None:
    if mark is not None:
        (home / MARK).write_text(mark)
    before = tree(home)

    with pytest.raises(ForeignFolderError, match=r"^has files that are not of simkubelet$"):
        claim_folder(home)

    assert tree(home) == before


def test_mark_that_is_a_link_is_none(tmp_path: Path, home: Path) -> None:
    (home / MARK).symlink_to(left(tmp_path) / MARK)

    with pytest.raises(ForeignFolderError, match=r"^has files that are not of simkubelet$"):
        claim_folder(home)


def test_mark_that_is_a_pipe_is_none(home: Path) -> None:
    os.mkfifo(home / MARK)

    with pytest.raises(ForeignFolderError, match=r"^has files that are not of simkubelet$"):
        claim_folder(home)


@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_what_is_no_folder_is_refused_and_stays(tmp_path: Path, kind: str) -> None:
    target, path = left(tmp_path), tmp_path / "one"
    if kind == "file":
        path.write_text("dear")
    else:
        path.symlink_to(target if kind == "link" else tmp_path / "nowhere")

    with pytest.raises(ForeignFolderError, match=r"^is a link or a file$"):
        claim_folder(path)

    assert tree(target) == [MARK, "node-1", "node-1/log"]


def test_folder_in_use_is_not_claimed(tmp_path: Path) -> None:
    with own_folder(tmp_path) as folder, pytest.raises(FolderTakenError):
        claim_folder(folder)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Path]:
    """A place with folders of ours that are in use or left, and others that look like them."""
    with own_folder(tmp_path):
        left(tmp_path)
        (tmp_path / "sk-12345678").mkdir()
        os.utime(tmp_path / "sk-12345678", (1, 1))
        (tmp_path / "sk-new12345").mkdir()
        (tmp_path / "sk-foreign1").mkdir()
        (tmp_path / "sk-foreign1" / "letter").touch()
        (tmp_path / "sk-alink123").symlink_to(left(tmp_path, "other"))
        yield tmp_path


def test_only_marked_or_long_empty_folders_that_nobody_uses_are_left(places: Path) -> None:
    assert [folder.path.name for folder in left_folders(places)] == ["sk-12345678", "sk-abcdefgh"]


def test_folders_of_another_user_are_not_ours(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert list(left_folders(places)) == []


def test_folder_is_locked_while_it_is_looked_at(places: Path) -> None:
    folder = next(left_folders(places))
    descriptor = os.open(folder.path, os.O_RDONLY)

    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    os.close(descriptor)


def test_place_that_is_missing_has_none(tmp_path: Path) -> None:
    assert list(left_folders(tmp_path / "missing")) == []


def test_new_folder_leaves_the_newest_ten_of_those_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(tmp_path))
    used = new_folder(tmp_path)
    os.utime(used.path, (1, 1))
    for number in range(15):
        os.utime(left(tmp_path, f"sk-left{number:04}"), (10 + number, 10 + number))

    made = new_folder(None)

    newest = {f"sk-left{number:04}" for number in range(5, 15)}
    assert {path.name for path in tmp_path.iterdir()} == {used.path.name, made.path.name, *newest}


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the memory of a machine on which nobody has chosen a place for temporary files."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    monkeypatch.setattr(folders, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(folders, "ROOM_BYTES", 1)
    return tmp_path


def test_folders_are_made_in_memory_where_it_has_room(memory: Path) -> None:
    made = new_folder(None)

    assert made.path.parent == memory
    made.remove()


def test_without_room_in_memory_folders_are_made_on_the_disk(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "ROOM_BYTES", 1 << 60)

    assert folders.default_place() == Path("/tmp")


def test_without_memory_that_holds_files_folders_are_made_on_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "SHARED_MEMORY", memory / "missing")

    assert folders.default_place() == Path("/tmp")


@pytest.mark.parametrize("flag", [os.ST_NOEXEC, os.ST_RDONLY], ids=["noexec", "read-only"])
def test_memory_where_no_program_runs_or_nothing_is_written_is_left_alone(
    memory: Path, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    found = os.statvfs_result((4096, 4096, 1 << 20, 1 << 20, 1 << 20, 1000, 1000, 1000, flag, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: found)

    assert folders.default_place() == Path("/tmp")


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP"])
def test_place_of_the_environment_comes_before_memory(memory: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/tmp")

    assert folders.default_place() == Path("/tmp")


def test_place_of_the_user_keeps_all_that_is_left(tmp_path: Path) -> None:
    for number in range(15):
        left(tmp_path, f"sk-left{number:04}")

    new_folder(tmp_path)

    assert len(list(tmp_path.iterdir())) == 16


def test_logs_that_were_kept_stay_locked_until_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = new_folder(tmp_path)
    log = made.path / "log"
    log.touch()

    made.remove(but=[log])

    assert list(left_folders(tmp_path)) == []
    made.release()
    assert [folder.path for folder in left_folders(tmp_path)] == [made.path]


@pytest.mark.parametrize(
    ("is_gone", "said"),
    [
        pytest.param(True, "the working directory is gone; change to another one", id="working directory"),
        pytest.param(False, "no folder; set TMPDIR to a folder that you can write", id="temporary folder"),
    ],
)
def test_no_place_for_folders_is_one_line_and_2(
    is_gone: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_cli: Callable[..., tuple[int, str, str]],
) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "no folder")

    monkeypatch.setattr("tempfile.gettempdir", refuse)
    gone = tmp_path / "gone"
    gone.mkdir()
    if is_gone:
        monkeypatch.chdir(gone)
    gone.rmdir()

    assert run_cli("run", "kubelet-restart", *(["--dir", "d"] if is_gone else [])) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize("command", [["run", "kubelet-restart"], ["conform", "--", "true"], ["list"]])
def test_working_directory_that_is_gone_is_named(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert run_cli(*command) == (2, "", "error: the working directory is gone; change to another one\n")
