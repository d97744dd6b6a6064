"""What a program of the user's needs on a node of a cluster, and its paths there."""

from pathlib import Path

import pytest

from scenarios.backends.kind.program import programs_of
from scenarios.story.specs import PluginSpec
from simkubelet.model.errors import InputError
from tests.support.stories import program, script


def test_a_native_program_takes_its_loader_and_libraries_along() -> None:
    sh = program("/bin/sh", "-c", "exit 0")

    assert sh.argv[1:] == ("-c", "exit 0")
    assert Path(sh.argv[0]) in sh.files
    names = {path.name for path in sh.files}
    assert any(name.startswith("libc.") for name in names)
    assert any(name.startswith("ld-") for name in names)


@pytest.mark.parametrize("word", ["#" * 5000, "a\0b"], ids=["too long for a path", "no path"])
def test_an_argument_may_be_anything(word: str) -> None:
    assert program("/bin/sh", "-c", word).argv[1:] == ("-c", word)


@pytest.mark.parametrize("first_line", ["#!/bin/sh -e", "#!/usr/bin/env sh"])
def test_a_script_is_run_by_its_interpreter(first_line: str, tmp_path: Path) -> None:
    file = script(tmp_path, first_line)

    made = program(file)

    assert Path(made.argv[0]).name == "sh"
    assert made.argv[-1] == file
    assert {Path(file), Path(made.argv[0])} <= made.files


def test_file_named_by_an_argument_is_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings.yaml").touch()
    monkeypatch.chdir(tmp_path)

    made = program("/bin/sh", "settings.yaml", "settings.yml")

    assert made.argv[1:] == (str(tmp_path / "settings.yaml"), "settings.yml")
    assert tmp_path / "settings.yaml" in made.files


def test_arguments_follow_the_storys_command_and_what_takes_its_place() -> None:
    spec = PluginSpec(name="mine", command=("/bin/sh",), args=("--storys",))

    assert programs_of([spec], {})["mine"].argv[1:] == ("--storys",)
    assert programs_of([spec], {"mine": ("/bin/sh", "--other")})["mine"].argv[1:] == ("--other", "--storys")
    assert not programs_of([PluginSpec(name="gopher", builtin="gopher", args=("--x",))], {})


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ldd").write_text("#!/bin/sh\necho 'libodd.so.1 => not found'\n")
    (tmp_path / "ldd").chmod(0o755)
    monkeypatch.setattr("scenarios.backends.kind.program.LDD", str(tmp_path / "ldd"))

    with pytest.raises(InputError, match=r"/bin/sh needs libodd\.so\.1, which the dynamic loader does not find here"):
        program("/bin/sh")
