"""Where a story's nodes have their folders, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.sim_node import new_folder
from simkubelet.errors import InputError


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
