"""Processes on a GPU: real numbers, listed while they live."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakegpu import Machine
from tests.support.machines import listed
from tests.support.patience import LIMIT_S

See = Callable[[Machine, str], str]


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_process_is_listed_until_it_ends(machine: Machine, nvml: ctypes.CDLL, worker: subprocess.Popen[bytes]) -> None:
    machine.enter_process(0, worker.pid, 1 << 30)

    assert listed(machine, nvml) == [worker.pid]
    assert listed(machine, nvml, gpu=1) == []
    assert machine.gpu(0).memory_used_bytes == 1 << 30

    worker.kill()
    worker.wait()

    assert listed(machine, nvml) == []
    assert machine.gpu(0).memory_used_bytes == 0


def test_zombie_holds_no_memory(machine: Machine, nvml: ctypes.CDLL, worker: subprocess.Popen[bytes]) -> None:
    machine.enter_process(0, worker.pid, 1 << 30)

    worker.kill()
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)

    assert listed(machine, nvml) == []


def test_start_is_read_past_a_name_with_brackets(machine: Machine, nvml: ctypes.CDLL, tmp_path: Path) -> None:
    program = tmp_path / "a) R (b 7"
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "300"]) as process:
        machine.enter_process(0, process.pid)

        found = listed(machine, nvml)
        process.kill()

    assert found == [process.pid]


def test_command_of_exec_is_listed_by_its_number(machine: Machine) -> None:
    code = (
        "import os, pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(2);"
        "(p,) = n.nvmlDeviceGetComputeRunningProcesses(h); print(p.pid == os.getpid(), p.usedGpuMemory >> 20)"
    )
    command = [
        sys.executable,
        "-m",
        "fakegpu",
        "exec",
        "--gpu",
        "2",
        "--memory",
        "3GiB",
        "--dir",
        str(machine.directory),
    ]

    done = subprocess.run([*command, "--", sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S)

    assert done.stdout == "True 3072\n", done.stderr
    assert machine.gpu(2).memory_used_bytes == 0


def test_process_on_a_mig_device_is_listed_there(machine: Machine, see: See) -> None:
    mig = machine.mig(0)
    mig.set_mode(True)
    mig.create("1g.10gb", "1g.10gb")
    first, second = mig.devices
    machine.enter_process(second.uuid, os.getpid(), 3 << 30)

    printed = see(
        machine,
        "n.nvmlInit()\n"
        f"for uuid in {[first.uuid, second.uuid]}:\n"
        "    h = n.nvmlDeviceGetHandleByUUID(uuid)\n"
        "    found = n.nvmlDeviceGetComputeRunningProcesses(h)\n"
        "    print([p.pid for p in found], n.nvmlDeviceGetMemoryInfo(h).used >> 30)",
    )

    assert printed.splitlines() == ["[] 0", f"[{os.getpid()}] 3"]
