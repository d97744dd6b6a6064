"""The page about writing a plugin: its program, its description and its story, taken from there and played."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "write-a-plugin.md"
LIMIT_S = 120
MAX_LINES = 30


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the page has its reader write."""
    description, story = blocks("yaml")
    (program,) = blocks("python")
    (tmp_path / "seats.py").write_text(program)
    (tmp_path / "seats.yaml").write_text(story)
    (tmp_path / "seat.yaml").write_text(description)
    return tmp_path


def told(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_program_is_as_short_as_promised() -> None:
    (program,) = blocks("python")

    assert len(program.splitlines()) <= MAX_LINES


def test_program_passes_the_story(folder: Path) -> None:
    (command,) = blocks("sh")

    done = told(folder, *command.split())

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_generic_plugin_takes_the_description(folder: Path) -> None:
    done = told(folder, "simkubelet", "plugin", "generic", "--config", "seat.yaml", "--manifest")

    assert done.returncode == 0, done.stderr
    assert "kind: DaemonSet" in done.stdout


def test_generic_plugin_passes_the_story_too(folder: Path) -> None:
    command = f"seats=simkubelet plugin generic --config {folder}/seat.yaml"

    done = told(folder, "simkubelet", "run", "seats.yaml", "--plugin", command)

    assert done.returncode == 0, done.stdout + done.stderr
