"""The `./dev` script on machines that lack what it needs, copied to where no environment stands ready."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "dev"


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "a check out"
    folder.mkdir()
    shutil.copy(SCRIPT, folder)
    return folder


@pytest.fixture
def bare_path(tmp_path):
    """A PATH with a shell's basics, an ordinary user's `id`, and neither Python, compiler nor package manager."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "cat", "dirname", "mktemp", "rm"):
        (folder / name).symlink_to(shutil.which(name))
    user = folder / "id"
    user.write_text("#!/bin/sh\necho 1000\n")
    user.chmod(0o755)
    return folder


def dev(checkout, *arguments, **options):
    return subprocess.run(
        [checkout / "dev", *arguments], capture_output=True, text=True, cwd="/", check=False, **options
    )


def test_help_explains_both_commands(checkout):
    result = dev(checkout, "--help")

    assert result.returncode == 0
    assert "./dev run" in result.stdout
    assert "./dev test" in result.stdout


@pytest.mark.parametrize("arguments", [pytest.param([], id="nothing"), pytest.param(["walk"], id="unknown command")])
def test_wrong_call_shows_usage_and_exits_2(checkout, arguments):
    result = dev(checkout, *arguments)

    assert result.returncode == 2
    assert result.stderr.startswith("Usage: ./dev")


@pytest.mark.parametrize("command", ["run", "test"])
def test_machine_without_python_gets_one_line_and_exit_3(checkout, bare_path, command):
    result = dev(checkout, command, env={"PATH": str(bare_path)})

    assert result.returncode == 3
    assert result.stderr == (
        "error: Python 3.11 or newer is missing: install it (Debian, Ubuntu: sudo apt-get install python3 python3-venv)"
        " and run this again\n"
    )


def test_python_without_venv_module_gets_one_line_and_exit_3(checkout, bare_path):
    python = bare_path / "python3"
    python.write_text('#!/bin/sh\ncase "$2" in *version_info?:2*) echo 3.12 ;; *ensurepip*) exit 1 ;; esac\n')
    python.chmod(0o755)

    result = dev(checkout, "run", env={"PATH": str(bare_path)})

    assert result.returncode == 3
    assert result.stderr == (
        "error: the venv module of python3 is missing: install it"
        " (Debian, Ubuntu: sudo apt-get install python3.12-venv) and run this again\n"
    )


def test_failing_step_shows_its_output_and_exits_3(checkout, bare_path):
    python = bare_path / "python3"
    python.write_text('#!/bin/sh\ncase "$2" in *version_info?:2*) echo 3.12 ;; venv) echo no room; exit 1 ;; esac\n')
    python.chmod(0o755)

    result = dev(checkout, "run", env={"PATH": str(bare_path)})

    lines = result.stderr.splitlines()
    assert result.returncode == 3
    assert lines[:2] == ["dev: making .venv with Python 3.12 ...", "no room"]
    assert lines[2].startswith("error: the command above failed: python3 -m venv")
