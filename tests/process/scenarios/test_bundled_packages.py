from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simkubelet._internal import bundle


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
