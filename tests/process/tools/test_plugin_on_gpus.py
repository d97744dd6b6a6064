"""The plugin on a machine's GPUs, here fake ones: what is printed and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakegpu import Machine
from simkubelet._internal.sandbox import check_sandbox
from simkubelet.model.errors import HostError
from simkubelet.runtime.bubblewrap import check_bubblewrap
from tests.support.patience import PROGRAM_LIMIT_S

TOOL = Path(__file__).parents[3] / "tools" / "check" / "plugin_on_gpus.py"


def run(environment: dict[str, str], *options: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, str(TOOL), *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PROGRAM_LIMIT_S,
        check=False,
    )


def test_table_tells_what_was_seen_and_what_is_missing(tmp_path: Path) -> None:
    try:
        check_sandbox()
    except HostError as error:
        pytest.skip(str(error))
    machine = Machine.create(tmp_path / "machine", "a100-80gb", 2, seed="gpus")

    done = run(machine.environment())

    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    told = {what: rest for what, rest in rows if what != "list"}
    assert told["register"].startswith("ok      nvidia.com/gpu on nvidia-gpu.sock; "), done.stdout + done.stderr
    assert ["list", "nvidia.com/gpu  ok      2 healthy, 0 unhealthy; NVML has 2"] in rows
    assert any(told["allocate"].endswith(f"NVIDIA_VISIBLE_DEVICES={gpu.uuid}") for gpu in machine.gpus), told
    assert told["health"] == "ok      2 of 2 devices watched, 1 event sets"
    # A machine without a driver has no driver files.
    assert told["CDI"].startswith("FAILED  ")
    assert "libcuda.so" in told["CDI"]
    assert (done.returncode, done.stderr) == (1, "")


def test_specifications_name_the_files_of_an_installed_driver(tmp_path: Path) -> None:
    try:
        # Below a supervisor, which shows the driver without it, there is no other one for the plugin.
        check_bubblewrap()
    except HostError as error:
        pytest.skip(str(error))
    machine = Machine.create(tmp_path / "machine", "h200", 2, seed="gpus")
    with_driver = [sys.executable, "-m", "fakegpu", "exec", "--dir", str(machine.directory), "--driver-root", "--"]

    done = run({}, f"--driver-root-ctr-path={machine.directory / 'driver'}", before=with_driver)

    (row,) = [line for line in done.stdout.splitlines() if line.startswith("CDI ")]
    assert row.startswith("CDI k8s.device-plugin.nvidia.com/gpu  ok      2 devices, "), done.stdout + done.stderr
    assert done.returncode == 0


def test_machine_without_a_gpu_is_reported_in_one_line(tmp_path: Path) -> None:
    # Found before a driver's own, and no library.
    (tmp_path / "libnvidia-ml.so.1").touch()
    done = run({"LD_LIBRARY_PATH": str(tmp_path)})

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: NVML does not answer here (")
    assert done.stderr.endswith("; run it where an NVIDIA driver is loaded\n")
