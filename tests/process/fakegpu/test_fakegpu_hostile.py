"""A plugin that does its worst to the file of its node's fake GPUs: nothing of ours ends, waits for long or breaks off.

The oracle is a process of ours that changes and reads the machine, and one that calls NVML, beside a hostile program.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fakegpu import Machine
from fakegpu.cli.main import main
from fakegpu.state.segment import LOCK_WAIT_S
from tests.support.patience import LIMIT_S

HOSTILE = r"""
import fcntl, os, random, sys
attack, path, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
file = os.open(path, os.O_RDWR)
content = os.pread(file, os.fstat(file).st_size, 0)
chance = random.Random(seed)

def shorten():
    os.ftruncate(file, chance.choice([0, 4096, 70000, len(content) - 4096]))
    os.ftruncate(file, len(content))
    if chance.random() < 0.5:
        os.pwrite(file, content, 0)

def overwrite():
    for _ in range(chance.randrange(1, 20)):
        start = chance.choice([0, 0, 66000, 92288, chance.randrange(len(content))])
        place = start + chance.randrange(9000)
        os.pwrite(file, chance.choice([chance.randbytes(chance.randrange(1, 64)), b"\xff" * 8, b"\0" * 8]), place)
    if chance.random() < 0.7:
        os.pwrite(file, content, 0)
        os.ftruncate(file, len(content))

def hold():
    fcntl.flock(file, fcntl.LOCK_EX)

print("at work", flush=True)
while True:
    {"shorten": shorten, "overwrite": overwrite, "hold": hold}[attack]()
"""

OURS = r"""
import os, sys, time
from fakegpu import FakeGpuError, Load, Machine, When
deadline, errors, longest, done = time.monotonic() + float(sys.argv[2]), set(), 0.0, 0
works = [
    lambda: machine.gpus,
    lambda: machine.fail(0, xid=79),
    lambda: machine.heal(0),
    lambda: machine.mig(0).create("1g.10gb"),
    lambda: machine.mig(0).devices,
    lambda: machine.mig(0).reset(),
    lambda: machine.unplug(1),
    lambda: machine.plug(1),
    lambda: machine.set(0, "temperature", 40),
    lambda: machine.load(0, Load(0.5)),
    lambda: machine.enter_process(0, os.getpid(), 1 << 20),
    lambda: machine.faults.xid(0, 13, when=When.of(every="1ms")),
    lambda: machine.faults.rules,
    lambda: machine.faults.clear(),
]
machine = None
while time.monotonic() < deadline or done < len(works):
    begun = time.monotonic()
    try:
        if machine is None:
            machine = Machine.open(sys.argv[1])
        works[done % len(works)]()
    except FakeGpuError as error:
        errors.add(str(error).partition("/segment")[2][:30])
        if "is damaged" in str(error) and machine is not None:
            machine.close()
            machine = None
    done += 1
    longest = max(longest, time.monotonic() - begun)
print(f"{done} {longest:.1f} {sorted(errors)}")
"""

READER = r"""
import ctypes, sys, time
nvml = ctypes.CDLL(sys.argv[1])
deadline, codes, device = time.monotonic() + float(sys.argv[2]), set(), ctypes.c_void_p()
room = (ctypes.c_char * 65536)()
getters = [getattr(nvml, "nvmlDeviceGet" + name) for name in sys.argv[3:]]
while time.monotonic() < deadline:
    if nvml.nvmlInit_v2() != 0:
        continue
    for index in range(2):
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) == 0:
            codes |= {getter(device, room, 96) for getter in getters}
    nvml.nvmlShutdown()
print(sorted(codes))
"""
GETTERS = "UUID Name Serial Temperature MemoryInfo UtilizationRates PowerUsage PciInfo_v3 TotalEnergyConsumption"


@contextmanager
def hostile(machine: Machine, attack: str, seed: int = 0) -> Iterator[None]:
    """A program that attacks the machine's file until the end."""
    argv = [sys.executable, "-c", HOSTILE, attack, str(machine.directory / "segment"), str(seed)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "at work\n"
            yield
            assert program.poll() is None
        finally:
            program.kill()


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["shorten", "overwrite", "hold"])
def test_processes_of_ours_outlast_a_hostile_one(machine: Machine, attack: str) -> None:
    with hostile(machine, attack):
        programs = start(OURS, str(machine.directory), "3"), start(READER, str(machine.library), "3", *GETTERS.split())
        said = [program.communicate(timeout=LIMIT_S) for program in programs]

    assert [(program.returncode, error) for program, (_, error) in zip(programs, said, strict=True)] == [(0, "")] * 2
    done, longest, _errors = said[0][0].split(" ", 2)
    assert int(done) > 0
    assert float(longest) < LOCK_WAIT_S + LIMIT_S / 10


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["shorten", "overwrite", "hold"])
@pytest.mark.parametrize("arguments", ["list", "fail 0 --xid 79", "mig create 0 1g.10gb", "heal 0", "fault list"])
def test_command_beside_a_hostile_program_prints_one_line(machine: Machine, attack: str, arguments: str) -> None:
    argv = [sys.executable, "-m", "fakegpu", *arguments.split(), "--dir", str(machine.directory)]

    with hostile(machine, attack):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert done.returncode in {0, 2, 3}
    assert bool(done.stderr) == bool(done.returncode)
    assert not done.stderr or re.fullmatch(r"error: [^\n]+\n", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["", "-q", "-L", "mig -lgi", "mig -lgip", "topo -m"])
@pytest.mark.parametrize("attack", ["shorten", "overwrite"])
def test_nvidia_smi_beside_a_hostile_program_ends_by_itself(machine: Machine, attack: str, view: str) -> None:
    argv = [machine.directory / "bin" / "nvidia-smi", *view.split()]

    with hostile(machine, attack):
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=os.environ | machine.environment()
        )

    assert done.returncode >= 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["fail 0 --xid 79", "heal 0", "set 0 temperature=40"])
def test_lock_that_is_not_released_is_an_error_that_names_its_holder(
    machine: Machine, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = machine.directory / "segment"
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        status = main([*command.split(), "--dir", str(machine.directory)])

    name = Path("/proc/self/comm").read_text().strip()
    line = f"error: {path} is locked by process {os.getpid()} ({name}), which does not release it: end it\n"
    assert (status, capsys.readouterr().err) == (3, line)
    machine.set(0, "temperature", 41)
    assert machine.gpu(0).temperature_c == 41
