"""A user's program as a plugin on a cluster's node; the same as on the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_script_runs_as_plugin_on_both_backends(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "plugin"
    script.write_text('#!/bin/sh\nexec "$@"\n')
    script.chmod(0o755)

    answer = run(
        "gopher-pending", "--plugin", f"gopher={script} {sys.executable} -m plugin gopher", "--backend", "both"
    )

    assert (answer.returncode, answer.stderr) == (0, ""), answer.stdout


@pytest.mark.parametrize("story", ["device-unhealthy", "kubelet-restart"])
def test_nvidias_plugin_causes_equal_traces_on_both_backends(story: str, run: Run) -> None:
    plugin = os.environ.get("SIMKUBELET_NVIDIA_PLUGIN") or pytest.skip("SIMKUBELET_NVIDIA_PLUGIN names no plugin")

    answer = run(story, "--plugin", f"nvidia={plugin}", "--backend", "both")

    assert answer.returncode == 0, answer.stdout + answer.stderr
