"""What the words of a plugin's command stand for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scenarios.story.specs import PluginSpec

FOLDER = Path("/stories")


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        (["python", "seats.py"], (sys.executable, "seats.py")),
        (["python3"], (sys.executable,)),
        (["python3.9"], ("python3.9",)),
        (["./mine", "./x"], ("/stories/mine", "./x")),
        (["bin/mine"], ("/stories/bin/mine",)),
        (["/usr/bin/python3"], ("/usr/bin/python3",)),
        (["sh", "-c", "python"], ("sh", "-c", "python")),
    ],
)
def test_first_word_is_python_a_path_or_a_program(command: Sequence[str], argv: Sequence[str]) -> None:
    plugin = PluginSpec(name="mine", command=tuple(command)).in_folder(FOLDER)

    assert plugin.foreign_program(None) == argv
    assert plugin.working_folder(None) == FOLDER


def test_program_in_its_place_is_the_callers() -> None:
    plugin = PluginSpec(name="mine", command=("./mine",), args=("-v",)).in_folder(FOLDER)

    assert plugin.foreign_program(["./other"]) == ("./other", "-v")
    assert plugin.foreign_program(["python", "x.py"]) == (sys.executable, "x.py", "-v")
    assert plugin.working_folder(["./other"]) is None
