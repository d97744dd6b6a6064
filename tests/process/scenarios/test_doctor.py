"""`simkubelet doctor` on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from scenarios import doctor
from scenarios.doctor import State


def test_doctor_leaves_nothing_behind() -> None:
    with tempfile.TemporaryDirectory(prefix="sk-", dir="/tmp") as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "simkubelet", "doctor", "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": folder},
        )

        assert not list(Path(folder).iterdir())

    assert (ran.returncode, ran.stderr) == (0, "")
    states = {check["name"]: check["state"] for check in json.loads(ran.stdout)["checks"]}
    assert (states["C libraries"], states["temporary folder"]) == ("ok", "ok")


def test_doctor_module_loads_little() -> None:
    program = "import sys, scenarios.doctor; print(*sorted({'pydantic', 'yaml', 'asyncio', 'rich'} & set(sys.modules)))"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "\n"


def test_program_that_fails_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "nvidia-smi"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert doctor._program("Go", "nvidia-smi", "version").detail == "'nvidia-smi version' fails"
    assert doctor._gpu().state is State.MISSING


def test_gpu_is_named_with_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'NVIDIA H200, 570.86.15'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert doctor._gpu() == doctor.Found(State.OK, "NVIDIA H200, driver 570.86.15")
