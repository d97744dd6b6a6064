"""Making, opening and removing machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from fakegpu.state import layout
from fakegpu.state.segment import record_at

DRIVER_NOT_LOADED, VERSION_MISMATCH = 9, 18


def init_code(machine: Machine, **environment: str) -> int:
    code = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).nvmlInit_v2())"
    return subprocess.run(
        [sys.executable, "-c", code, machine.library], env=os.environ | environment, check=False
    ).returncode


def test_loading_the_library_again_and_again_maps_the_segment_once(machine: Machine) -> None:
    code = """
import _ctypes, ctypes, sys
for _ in range(50):
    library = ctypes.CDLL(sys.argv[1])
    assert library.nvmlInit_v2() == library.nvmlShutdown() == 0
    _ctypes.dlclose(library._handle)
print(sum(line.rstrip().endswith("/segment") for line in open("/proc/self/maps")))
"""
    done = subprocess.run([sys.executable, "-c", code, machine.library], capture_output=True, text=True, check=True)

    assert done.stdout == "1\n"


def test_library_finds_the_machine_beside_itself_or_by_the_environment(machine: Machine, tmp_path: Path) -> None:
    assert init_code(machine) == 0
    assert init_code(machine, FAKEGPU_SEGMENT=str(machine.directory / "segment")) == 0
    assert init_code(machine, FAKEGPU_SEGMENT=str(tmp_path / "nowhere")) == DRIVER_NOT_LOADED
    assert init_code(machine, FAKEGPU_SEGMENT=str(tmp_path)) == DRIVER_NOT_LOADED


@pytest.mark.parametrize(
    ("offset", "code", "message"),
    [
        pytest.param(layout.Header.magic.offset, DRIVER_NOT_LOADED, "starts with other bytes", id="magic"),
        pytest.param(layout.Header.version.offset, VERSION_MISMATCH, "has layout", id="version"),
        pytest.param(layout.Header.size_bytes.offset, VERSION_MISMATCH, "is damaged", id="size"),
        pytest.param(layout.Header.gpu_count.offset, VERSION_MISMATCH, "is damaged", id="more GPUs than bytes"),
        pytest.param(layout.Header.gpu_count.offset + 3, VERSION_MISMATCH, "is damaged", id="too many GPUs"),
        pytest.param(record_at(1) + layout.GpuRecord.banks_at.offset, VERSION_MISMATCH, "GPU 1", id="banks elsewhere"),
    ],
)
def test_foreign_segment_is_refused_on_both_sides(machine: Machine, offset: int, code: int, message: str) -> None:
    with (machine.directory / "segment").open("r+b") as file:
        file.seek(offset)
        file.write(b"\x7f")

    assert init_code(machine) == code
    with pytest.raises(InputError, match=message):
        Machine.open(machine.directory)


def test_truncated_segment_is_refused_on_both_sides(machine: Machine) -> None:
    os.truncate(machine.directory / "segment", 100)

    assert init_code(machine) == DRIVER_NOT_LOADED
    with pytest.raises(InputError, match="too short"):
        Machine.open(machine.directory)
