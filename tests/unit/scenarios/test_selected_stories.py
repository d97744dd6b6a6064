"""Which stories a user names or selects: the built-in ones by name, topic and pattern, own files, expressions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from scenarios.story.stories import builtin, find, selected, tagged
from simkubelet.model.errors import InputError

NAMES = ("kubelet-restart", "amd-restart", "MIG-mixed", "gopher")
FILES = [Path(f"{name}.yaml") for name in NAMES]


def names(expression: str) -> list[str]:
    return [path.stem for path in selected(FILES, expression)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("restart", ["kubelet-restart", "amd-restart"]),
        ("Kubelet-R", ["kubelet-restart"]),
        ("mig", ["MIG-mixed"]),
        ("not restart", ["MIG-mixed", "gopher"]),
        ("restart and not amd", ["kubelet-restart"]),
        ("gopher or amd and restart", ["amd-restart", "gopher"]),
        ("(gopher or amd) and restart", ["amd-restart"]),
        ("not (gopher or mig) and not not kubelet", ["kubelet-restart"]),
    ],
)
def test_expression_selects_by_name(expression: str, expected: list[str]) -> None:
    assert names(expression) == expected


@pytest.mark.parametrize("expression", ["a and", "or a", "not", "(a", "a)", "()", "a b", " "])
def test_expression_that_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(InputError, match=r"^-k: '.*' cannot be read; write words with and, or, not"):
        names(expression)


@pytest.mark.parametrize("expression", ["(" * 5_000 + "a" + ")" * 5_000, "not " * 5_000 + "a"])
def test_expression_that_is_too_deep_is_refused(expression: str) -> None:
    with pytest.raises(InputError, match=r"^-k: more than 100 parentheses and nots"):
        names(expression)


def test_expression_that_matches_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="-k: no story matches 'frob'; 'simkubelet list' shows"):
        names("frob")


def test_expression_matches_the_topic_of_builtin_stories() -> None:
    assert selected(builtin().values(), "gopher/") == find(["gopher/"])


def test_pattern_finds_builtin_stories_by_name_and_topic() -> None:
    known = builtin()

    assert find(["bugs/k1-*"]) == [path for name, path in known.items() if name.startswith("bugs/k1-")]
    assert find(["k1-*"]) == find(["bugs/k1-*"])
    assert find(["gophe?/*"]) == find(["gopher/"])


def test_own_files_come_before_builtin_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("b/kubelet-a.yaml", "b/c/kubelet-b.yml", "b/kubelet.txt"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()

    assert find(["b/**/kubelet*"]) == [Path("b/c/kubelet-b.yml"), Path("b/kubelet-a.yaml")]
    assert find([f"{tmp_path}/b/*.yaml"]) == [tmp_path / "b/kubelet-a.yaml"]


def test_pattern_of_no_story_is_refused() -> None:
    with pytest.raises(InputError, match=r"no story 'zz\*'"):
        find(["zz*"])


def tagged_names(folder: Path, *tags: str) -> list[str]:
    return [path.stem for path in tagged(sorted(folder.glob("*.yaml")), tags)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"a": "tags: [mig, health]", "b": "tags: [health]", "c": "name: c", "d": "tags: [reboot]"}
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_tags_select_stories_that_have_any_of_them(folder: Path) -> None:
    assert tagged_names(folder, "health") == ["a", "b"]
    assert tagged_names(folder, "mig", "reboot") == ["a", "d"]


def test_unknown_tag_is_refused_with_those_that_are_known(folder: Path) -> None:
    message = r"^--tag: no story has the tag 'helth'; their tags are: health, mig, reboot$"
    with pytest.raises(InputError, match=message):
        tagged_names(folder, "mig", "helth")


@pytest.mark.parametrize("text", ["[", "tags: mig", "tags: [1]", "- tags", ""])
def test_file_that_is_no_story_stays_and_is_reported_when_it_is_loaded(text: str, folder: Path) -> None:
    (folder / "wrong.yaml").write_text(text)

    assert tagged_names(folder, "reboot") == ["d", "wrong"]


def test_folder_that_vanishes_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "own.yaml").touch()
    scandir = os.scandir

    def late(folder: Any) -> Any:
        if Path(folder).name == "gone":
            Path(folder).rmdir()
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", late)

    assert find([str(tmp_path)]) == [tmp_path / "own.yaml"]
