"""A plugin may make the file of its node's fake GPUs shorter: processes that have it open get an error, and go on."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from pynvml import NVML_ERROR_GPU_IS_LOST

from fakegpu import Machine
from tests.support.patience import LIMIT_S

PROGRAM = """
import os, sys
from fakegpu import FakeGpuError, Machine
machine = Machine.open(sys.argv[1])
os.truncate(sys.argv[1] + "/segment", int(sys.argv[2]))
for work in (lambda: machine.gpus, lambda: machine.fail(0, xid=79), lambda: machine.heal(0)):
    try:
        work()
    except FakeGpuError as error:
        print(str(error).rpartition(": ")[2])
"""


@pytest.mark.parametrize("size", [0, 4096, 10_000])
def test_shorter_file_is_an_error_of_each_call(machine: Machine, size: int) -> None:
    argv = [sys.executable, "-c", PROGRAM, str(machine.directory), str(size)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    said = ["another program wrote over it or made it shorter; make the machine again"] * 3
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (said, "", 0)


PLUGIN = """
import ctypes, os, re, sys
directory = sys.argv[1]
path = directory + "/segment"
content = open(path, "rb").read()
nvml, device, value = ctypes.CDLL(directory + "/lib/libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint()

def temperature():
    return nvml.nvmlDeviceGetTemperature(device, 0, ctypes.byref(value)), value.value

def mappings():
    return sum(line.endswith("/segment\\n") for line in open("/proc/self/maps"))

for _ in range(3):
    assert nvml.nvmlInit_v2() == 0
    assert nvml.nvmlDeviceGetHandleByIndex_v2(3, ctypes.byref(device)) == 0
    print(temperature(), mappings())
    os.truncate(path, 4096)
    print(temperature()[0], nvml.nvmlDeviceSetPersistenceMode(device, 1))
    nvml.nvmlShutdown()
    with open(path, "r+b") as file:
        file.write(content)
"""


def test_gpus_of_a_shorter_file_are_lost_until_nvml_is_initialised_again(machine: Machine) -> None:
    argv = [sys.executable, "-c", PLUGIN, str(machine.directory)]

    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    lost = ["(0, 29) 1", f"{NVML_ERROR_GPU_IS_LOST} {NVML_ERROR_GPU_IS_LOST}"]
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (lost * 3, "", 0)


def test_other_sigbus_of_a_program_ends_it_as_before(machine: Machine) -> None:
    program = f"""
import ctypes, mmap, os, signal
assert ctypes.CDLL({str(machine.library)!r}).nvmlInit_v2() == 0
file = os.open({str(machine.directory / "other")!r}, os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
memory = mmap.mmap(file, 4096)
os.ftruncate(file, 0)
memory[0]
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=LIMIT_S, check=False)

    assert -done.returncode == signal.SIGBUS
