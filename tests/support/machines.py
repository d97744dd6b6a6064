"""Machines in the test's own folder, and what the library in the test's process answers about them.

``nvml`` is the machine's own copy of the library, loaded by its path, so it finds the machine beside itself; several
machines may be loaded into one test process.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu import Machine
from fakegpu.cli.main import main
from fakegpu.state import layout


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
def foreign(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine, which later users may only read; the fixture's own value may still write."""
    opened = os.open

    def refuse(path: str | os.PathLike[str], flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if os.fspath(path) == str(machine.directory / "segment") and flags & os.O_RDWR:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refuse)
    return machine


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


_SUCCESS, _TIMEOUT, _XID = 0, 10, 0x8


class EventData(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class EventSet:
    """One set of the library under test, with codes instead of exceptions."""

    def __init__(self, nvml: ctypes.CDLL) -> None:
        self._nvml = nvml
        self.handle = ctypes.c_void_p()
        assert nvml.nvmlEventSetCreate(ctypes.byref(self.handle)) == _SUCCESS

    def register(self, gpu: int, types: int = _XID) -> int:
        code: int = self._nvml.nvmlDeviceRegisterEvents(
            device_of(self._nvml, gpu), ctypes.c_ulonglong(types), self.handle
        )
        return code

    def wait(self, timeout_ms: int = 0) -> tuple[int, EventData]:
        event = EventData()
        return self._nvml.nvmlEventSetWait_v2(self.handle, ctypes.byref(event), timeout_ms), event

    def take(self) -> list[tuple[int, int]]:
        """Type and data of all events that wait."""
        taken: list[tuple[int, int]] = []
        while True:
            code, event = self.wait()
            if code != _SUCCESS:
                assert code == _TIMEOUT
                return taken
            taken.append((event.type, event.data))

    def free(self) -> int:
        code: int = self._nvml.nvmlEventSetFree(self.handle)
        return code


def device_of(nvml: ctypes.CDLL, gpu: int) -> ctypes.c_void_p:
    """Return NVML's handle of a GPU."""
    device = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == _SUCCESS
    return device


def listed(
    machine: Machine, nvml: ctypes.CDLL, gpu: int = 0, function: str = "nvmlDeviceGetComputeRunningProcesses_v3"
) -> list[int]:
    """Return the numbers of the processes that the library lists on a GPU."""

    class Info(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    handle, count, infos = ctypes.c_void_p(), ctypes.c_uint(64), (Info * 64)()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle)) == 0
    assert getattr(nvml, function)(handle, ctypes.byref(count), infos) == 0
    assert all(info.gi == info.ci == layout.NO_INSTANCE for info in infos[: count.value])
    return [info.pid for info in infos[: count.value]]


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run the command ``fakegpu`` in this process; return its status and what it writes."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def capabilities(machine: Machine) -> Path:
    """Return the folder of capabilities."""
    return machine.proc / "driver" / "nvidia" / "capabilities"


def granted(machine: Machine, gpu: int) -> set[str]:
    """Capabilities of a GPU that are there, and folders that hold none."""
    folder = capabilities(machine) / f"gpu{gpu}" / "mig"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() or not any(path.iterdir())}


def nodes(machine: Machine) -> set[str]:
    """Return the nodes of capabilities of its instances."""
    return {path.name for path in (machine.dev / "nvidia-caps").iterdir()} - {"nvidia-cap1", "nvidia-cap2"}


def minors(machine: Machine) -> dict[str, int]:
    """Return the minor number of each capability, by its name."""
    lines = (machine.proc / "driver" / "nvidia-caps" / "mig-minors").read_text().splitlines()
    return {name: int(minor) for name, _, minor in (line.partition(" ") for line in lines)}


def expected(machine: Machine, gpu: int) -> tuple[set[str], set[str]]:
    """Capabilities and nodes of what the machine says that it has."""
    paths = {
        path
        for whole in machine.mig(gpu).instances
        for path in (f"gi{whole.id}/access", *(f"gi{whole.id}/ci{part.id}/access" for part in whole.compute))
    }
    known = minors(machine)
    return paths, {f"nvidia-cap{known[f'gpu{machine.gpu(gpu).minor}/{path}']}" for path in paths}
