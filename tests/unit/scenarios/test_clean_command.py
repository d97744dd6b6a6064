"""``simkubelet clean``: what no process uses goes and is listed, and nothing else is touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scenarios.backends.world import folders
from scenarios.backends.world.folders import new_folder
from scenarios.up import running
from simkubelet._internal import cgroups


def left(place: Path, prefix: str = "sk-") -> Path:
    folder = new_folder(place, prefix)
    (folder.path / "log").touch()
    folder.release()
    return folder.path


@pytest.fixture
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder, with files of others that stay whatever happens."""
    place = tmp_path / "tmp"
    for file in ("sk-foreign1/letter", "fakegpu-1000/segment", "other/sk-abcdefgh/letter", "letter"):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).touch()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(place))
    monkeypatch.setattr(folders, "SHARED_MEMORY", tmp_path / "shm")
    # Those of this machine are not the test's.
    monkeypatch.setattr(cgroups, "_hierarchies", lambda: ())
    return place


@pytest.fixture
def all_left(place: Path, home: Path, tmp_path: Path) -> list[Path]:
    """What killed processes have left of stories, a campaign and a cluster."""
    story, campaign = left(place), left(tmp_path / "shm", "sk-camp-")
    with running.claimed("one"):
        pass
    cluster = left(tmp_path).rename(home / "one")
    return [story, campaign, cluster]


def files(*places: Path) -> set[Path]:
    return {path for place in places for path in place.rglob("*")}


def test_what_no_process_uses_is_removed_and_listed(
    all_left: list[Path], place: Path, home: Path, run_cli: Any
) -> None:
    of_others = {path for path in files(place) if path not in all_left and path.parent not in all_left}

    result = run_cli("clean")

    assert result == (0, "".join(f"removed {folder}\n" for folder in all_left), "")
    assert files(place, home) == of_others
    assert run_cli("clean") == (0, "", "")


def test_dry_run_lists_the_same_and_removes_nothing(all_left: list[Path], run_cli: Any) -> None:
    before = files(*all_left)

    result = run_cli("clean", "--dry-run")

    assert result == (0, "".join(f"would remove {folder}\n" for folder in all_left), "")
    assert files(*all_left) == before


def test_what_processes_use_stays(place: Path, run_cli: Any) -> None:
    with folders.own_folder(place) as story, running.claimed("one") as cluster:
        assert run_cli("clean") == (0, "", "")
        assert story.exists()
        assert cluster.exists()


def test_folder_of_a_user_is_looked_at_where_it_is_named(place: Path, tmp_path: Path, run_cli: Any) -> None:
    folder = left(tmp_path / "nodes")

    assert run_cli("clean") == (0, "", "")
    assert run_cli("clean", "--dir", tmp_path / "nodes") == (0, f"removed {folder}\n", "")
    status, out, err = run_cli("clean", "--dir", tmp_path / "missing")
    assert (status, out) == (2, "")
    assert f"Directory '{tmp_path / 'missing'}' does not exist" in err


def test_folder_that_cannot_be_removed_is_reported_and_the_others_go(
    all_left: list[Path], monkeypatch: pytest.MonkeyPatch, run_cli: Any
) -> None:
    remove = Path.rmdir

    def refuse(path: Path) -> None:
        if path == all_left[0]:
            raise PermissionError(1, "Operation not permitted")
        remove(path)

    monkeypatch.setattr(Path, "rmdir", refuse)

    status, out, err = run_cli("clean")

    assert (status, out) == (3, "".join(f"removed {folder}\n" for folder in all_left[1:]))
    assert err == f"error: {all_left[0]}: cannot be removed: Operation not permitted; remove it by hand\n"


def test_folder_of_clusters_that_is_another_users_is_refused(home: Path, place: Path, run_cli: Any) -> None:
    home.symlink_to(place)

    status, _, err = run_cli("clean")

    assert (status, err.count("\n")) == (2, 1)


def test_cgroups_of_killed_processes_go_and_those_in_use_stay(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Any
) -> None:
    killed, used = tmp_path / "top/job/simkubelet-1-0123abcd", tmp_path / "top/simkubelet-2-4567cdef"
    for folder in (killed, used):
        (folder / "1").mkdir(parents=True)
    hierarchy = cgroups.Hierarchy(2, tmp_path / "top", tmp_path / "top", frozenset({"memory"}))
    monkeypatch.setattr(cgroups, "_hierarchies", lambda: (hierarchy,))
    lock = cgroups._lock(used)

    assert run_cli("clean", "--dry-run") == (0, f"would remove {killed}\n", "")
    assert run_cli("clean") == (0, f"removed {killed}\n", "")
    assert (killed.exists(), (used / "1").exists()) == (False, True)
    os.close(lock)


def test_cgroup_that_stays_is_an_error(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Any
) -> None:
    killed = tmp_path / "top/simkubelet-1-0123abcd"
    (killed / "1").mkdir(parents=True)
    (killed / "1/a file").touch()
    hierarchy = cgroups.Hierarchy(2, tmp_path / "top", tmp_path / "top", frozenset({"memory"}))
    monkeypatch.setattr(cgroups, "_hierarchies", lambda: (hierarchy,))

    status, out, err = run_cli("clean")

    assert (status, out) == (3, "")
    assert err == f"error: {killed}: cannot be removed, a process in it does not end; end it\n"
