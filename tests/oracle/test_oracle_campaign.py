"""A campaign of random commands to both device managers: counted once, continued, and a planted difference found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubelet_sides import Programs
from tests.support.patience import PROGRAM_LIMIT_S

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).resolve().parent.parent.parent
PLANTED = """
from simkubelet.devices.device_manager import DeviceManager, FreeDevices

DeviceManager.free = lambda self, resource: FreeDevices(self.healthy[resource])
"""
"""A simulated kubelet with it gives each pod the first devices, held by another pod or not."""


def campaign(*options: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.oracle.campaign", "-n", "1", *map(str, options)],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )


def test_campaign_goes_on_with_sequences_that_are_answered_alike(oracle_programs: Programs, tmp_path: Path) -> None:
    file = tmp_path / "oracle.sqlite"

    first = campaign("--results", file, "--seed", 7, "--sequences", 2)
    second = campaign("--results", file, "--sequences", 5)

    assert first.returncode == 0, first.stdout + first.stderr
    assert "seed 7: 2 sequences, 2 of them in this run" in first.stdout
    assert "seed 7: 5 sequences, 3 of them in this run" in second.stdout


def test_planted_difference_is_found_and_shown_as_a_program(oracle_programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)

    done = campaign(*("--results", tmp_path / "oracle.sqlite", "--seed", 7, "--sequences", 2), PYTHONPATH=str(tmp_path))

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 time: AssertionError in allocate; first in sequence 1" in done.stdout
    assert "state.begin(" in done.stdout


def test_campaign_without_an_oracle_is_refused(tmp_path: Path) -> None:
    done = campaign("--results", tmp_path / "oracle.sqlite", SIMKUBELET_ORACLE="")

    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "error: no oracle: set SIMKUBELET_ORACLE" in done.stderr
