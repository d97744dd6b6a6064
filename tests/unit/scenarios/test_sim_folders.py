"""Where a story's nodes have their folders, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.world.node import new_folder, remove_folder
from simkubelet.model.errors import InputError


def test_folder_that_does_not_exist_is_made_with_its_parents(tmp_path: Path) -> None:
    made = new_folder(tmp_path / "a" / "b")

    assert (made.parent, made.is_dir()) == (tmp_path / "a" / "b", True)


def test_relative_folder_is_named_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert new_folder(Path("a")).parent == tmp_path / "a"


@pytest.mark.parametrize(
    ("place", "why"), [pytest.param("file", "File exists", id="file"), ("file/below", "Not a directory")]
)
def test_folder_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path, place: str, why: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match=f"^{tmp_path / place}: no folder can be made here: {why}; .* --dir$"):
        new_folder(tmp_path / place)


def test_removed_folder_leaves_the_spared_files_and_the_way_to_them(tmp_path: Path) -> None:
    world, outside = tmp_path / "world", tmp_path / "outside"
    spared = [world / "a" / "logs" / "x", world / "b" / "y"]
    others = [world / "a" / "logs" / "other", world / "a" / "root" / "etc" / "x", world / "c" / "z"]
    for file in (*spared, *others, outside):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (world / "a" / "link").symlink_to(tmp_path)

    remove_folder(world, but=spared)

    assert sorted(path for path in tmp_path.rglob("*") if not path.is_dir()) == sorted([*spared, outside])
    assert sorted(path.name for path in world.rglob("*") if path.is_dir()) == ["a", "b", "logs"]


def test_removed_folder_is_gone_where_nothing_is_spared(tmp_path: Path) -> None:
    (tmp_path / "world" / "a").mkdir(parents=True)

    remove_folder(tmp_path / "world")

    assert list(tmp_path.iterdir()) == []
