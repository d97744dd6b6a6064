"""Machines in the test's own folder, and what the library in the test's process answers about them.

``nvml`` is the machine's own copy of the library, loaded by its path, so it finds the machine beside itself; several
machines may be loaded into one test process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine


@pytest.fixture(autouse=True)
def _no_machine_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAKEGPU_SEGMENT", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine.create(tmp_path / "node", count=4, seed="test")
    yield made
    made.close()


@pytest.fixture
def nvml(machine: Machine) -> Iterator[ctypes.CDLL]:
    library = ctypes.CDLL(str(machine.library))
    assert library.nvmlInit_v2() == 0
    yield library
    library.nvmlShutdown()


class Answers:
    """Return codes of getters that are called again and again."""

    def __init__(self, nvml: ctypes.CDLL) -> None:
        self._nvml = nvml
        self._number = ctypes.c_uint()
        self._memory = (ctypes.c_ulonglong * 8)()

    def memory(self, gpu: int = 0) -> int:
        code: int = self._nvml.nvmlDeviceGetMemoryInfo(self._handle(gpu), self._memory)
        return code

    def temperature(self, gpu: int = 0) -> int:
        code: int = self._nvml.nvmlDeviceGetTemperature(self._handle(gpu), 0, ctypes.byref(self._number))
        return code

    def celsius(self, gpu: int = 0) -> int:
        assert self.temperature(gpu) == 0
        return self._number.value

    def _handle(self, gpu: int) -> ctypes.c_void_p:
        device = ctypes.c_void_p()
        assert self._nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == 0
        return device


@pytest.fixture
def answers(nvml: ctypes.CDLL) -> Answers:
    return Answers(nvml)


class Board:
    """The first GPU of a machine, through its library."""

    def __init__(self, machine: Machine, library: ctypes.CDLL) -> None:
        self.machine = machine
        self.library = library
        self.device = ctypes.c_void_p()
        assert library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0

    def set(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, f"nvmlDevice{name}")(self.device, *arguments))

    def get(self, name: str, *arguments: Any, answers: int = 1) -> Any:
        """One number or several; the code's name if it is not success."""
        values = [ctypes.c_int() for _ in range(answers)]
        references = (ctypes.byref(value) for value in values)
        code = getattr(self.library, f"nvmlDevice{name}")(self.device, *arguments, *references)
        if code != 0:
            return f"error {code}"
        return values[0].value if answers == 1 else tuple(value.value for value in values)


Load = Callable[[str], Board]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    made: list[Board] = []

    def make(profile: str) -> Board:
        machine = Machine.create(tmp_path / profile, profile, 2, seed="set")
        library = ctypes.CDLL(str(machine.library))
        assert library.nvmlInit_v2() == 0
        made.append(Board(machine, library))
        return made[-1]

    yield make
    for board in made:
        board.library.nvmlShutdown()
        board.machine.close()


@pytest.fixture
def h100(load: Load) -> Board:
    return load("h100-80gb")
