"""A user's program as a plugin on a cluster's node; the same as on the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_program_of_the_users_is_a_plugin_in_both_worlds(run: Run) -> None:
    answer = run("gopher-pending", "--plugin", f"gopher={sys.executable} -m plugin gopher", "--backend", "both")

    assert (answer.returncode, answer.stderr) == (0, ""), answer.stdout


def test_a_script_is_brought_with_its_interpreter(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "plugin"
    script.write_text("#!/bin/sh\necho 'no devices here' >&2\nexit 7\n")
    script.chmod(0o755)

    answer = run(
        "gopher-pending", "--plugin", f"gopher={script}", "--backend", "kind", "--trace", f"{tmp_path}/t.jsonl"
    )

    assert answer.returncode == 1, answer.stderr
    assert '"plugin-exited"' in (tmp_path / "t.jsonl").read_text()
    assert '"status": 7' in (tmp_path / "t.jsonl").read_text()


@pytest.mark.nvidia_go
@pytest.mark.parametrize("story", ["device-unhealthy", "kubelet-restart"])
def test_nvidias_own_plugin_tells_the_same_in_both_worlds(story: str, run: Run) -> None:
    plugin = os.environ["SIMKUBELET_NVIDIA_PLUGIN"]

    answer = run(story, "--plugin", f"nvidia={plugin}", "--backend", "both")

    assert answer.returncode == 0, answer.stdout + answer.stderr
