from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simkubelet._internal import bundle


@pytest.mark.parametrize(("package", "name"), [("plugin", "cli.main"), ("scenarios", "cli")])
def test_command_line_of_a_package_is_found(package: str, name: str) -> None:
    module = bundle.load(package, name)

    assert module.__name__ == f"{bundle.module_name(package)}.{name}"


@pytest.mark.slow
def test_strangers_of_the_same_name_in_the_working_directory_are_not_taken(tmp_path: Path) -> None:
    for name in ("plugin", "scenarios"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a stranger')")
    code = "from simkubelet._internal import bundle; print(bundle.load('scenarios', 'cli').__file__)"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{bundle.CHECKOUT}"}

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert Path(done.stdout.strip()).is_relative_to(bundle.CHECKOUT)


def test_path_for_a_child_has_the_flat_packages_first_and_keeps_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/theirs")

    monkeypatch.setattr(bundle, "module_name", lambda package: package)
    assert bundle.python_path("plugin") == f"{bundle.CHECKOUT}{os.pathsep}/theirs"

    monkeypatch.setattr(bundle, "module_name", lambda package: f"simkubelet._bundled.{package}")
    assert bundle.python_path("plugin") == "/theirs"
