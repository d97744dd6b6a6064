"""``fakegpu load`` and ``fakegpu smi``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.patience import PROGRAM_LIMIT_S


def smi(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fakegpu", "smi", "--dir", str(machine.directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S)


def test_smi_lists_the_gpus(machine: Machine) -> None:
    listed = smi(machine, "-L").stdout.splitlines()

    assert listed == [f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})" for gpu in machine.gpus]


def test_nvidia_smi_is_on_the_path(machine: Machine, tmp_path: Path) -> None:
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader", "-i", "2"],  # noqa: S607 - the point
        env=os.environ | machine.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
    )

    assert done.stdout == f"2, {machine.gpu(2).uuid}\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["-i", "9"], 2, "no GPU, property, part or profile '9'"),
        (["--query-gpu=colour", "--format=csv"], 2, "'colour'"),
        (["--query-gpu=name"], 2, "'--format='"),
        (["--nonsense"], 2, "--nonsense"),
        (["topo"], 2, "-m/--matrix"),
        (["-q", "-d", "WEATHER"], 2, "'WEATHER'"),
    ],
)
def test_wrong_question_is_one_line(machine: Machine, arguments: list[str], status: int, message: str) -> None:
    done = smi(machine, *arguments)

    assert done.returncode == status
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_lost_gpu_ends_with_its_status(machine: Machine) -> None:
    machine.fail(1, lost=True)

    done = smi(machine, "-L")

    assert done.returncode == 15
    assert done.stderr == "error: NVML: GPU is lost\n"
