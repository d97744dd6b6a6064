"""Which GPUs a process sees: those whose device nodes it has, as in a container."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import Machine

See = Callable[[Machine, str], str]
_LOOK = """
import json
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
print(json.dumps({
    "uuids": [n.nvmlDeviceGetUUID(gpu) for gpu in gpus],
    "indices": [n.nvmlDeviceGetIndex(gpu) for gpu in gpus],
    "minors": [n.nvmlDeviceGetMinorNumber(gpu) for gpu in gpus],
}))
"""


@pytest.fixture
def folder(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of device nodes that processes look at, with those of GPUs 1 and 3."""
    made = tmp_path / "dev"
    made.mkdir()
    for name in ("nvidiactl", "nvidia1", "nvidia3"):
        shutil.copy(machine.dev / name, made / name)
    monkeypatch.setenv("FAKEGPU_DEV", str(made))
    return made


@pytest.mark.usefixtures("folder")
def test_a_process_sees_the_gpus_whose_device_nodes_it_has(machine: Machine, see: See) -> None:
    seen = json.loads(see(machine, _LOOK))

    assert seen["uuids"] == [machine.gpus[1].uuid, machine.gpus[3].uuid]
    assert seen["indices"] == [0, 1]
    assert seen["minors"] == [1, 3]


@pytest.mark.usefixtures("folder")
def test_a_gpu_without_its_node_is_not_found_by_its_uuid(machine: Machine, see: See) -> None:
    ask = f"""
n.nvmlInit()
for uuid in {[gpu.uuid for gpu in machine.gpus]}:
    try:
        print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuid)))
    except n.NVMLError as error:
        print(error.value)
"""

    assert see(machine, ask).split() == ["6", "0", "6", "1"]


def test_a_node_that_appears_is_seen_by_the_next_session(folder: Path, machine: Machine, see: See) -> None:
    ask = f"""
import pathlib
n.nvmlInit()
print(n.nvmlDeviceGetCount())
pathlib.Path({str(folder)!r}, "nvidia0").touch()
print(n.nvmlDeviceGetCount())
n.nvmlShutdown()
n.nvmlInit()
print(n.nvmlDeviceGetCount())
"""

    assert see(machine, ask).split() == ["2", "2", "3"]


def test_without_a_folder_all_gpus_are_seen(machine: Machine, see: See) -> None:
    assert json.loads(see(machine, _LOOK))["uuids"] == [gpu.uuid for gpu in machine.gpus]
