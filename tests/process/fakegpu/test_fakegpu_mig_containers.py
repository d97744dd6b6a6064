"""A container with some MIG devices: the nodes that CDI gives it, and what NVML shows there."""

from __future__ import annotations

import ctypes
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakegpu import InputError, Machine, cdi_spec

See = Callable[[Machine, str], str]
Enter = Callable[..., None]

LOOK = """
import json

def each(count, get):
    for index in range(count):
        try: yield get(index)
        except n.NVMLError_NotFound: pass

def tell(call):
    try: call()
    except n.NVMLError as error: return type(error).__name__
    return "told"

n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(index) for index in range(n.nvmlDeviceGetCount())]
parts = [
    [*each(n.nvmlDeviceGetMaxMigDeviceCount(gpu), lambda index: n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index))]
    for gpu in gpus
]
print(json.dumps({
    "gpus": [n.nvmlDeviceGetUUID(gpu) for gpu in gpus],
    "parts": [[n.nvmlDeviceGetUUID(part) for part in some] for some in parts],
    "indices": [[n.nvmlDeviceGetIndex(part) for part in some] for some in parts],
    "whole": tell(lambda: n.nvmlDeviceGetMemoryInfo(gpus[0])),
    "processes": tell(lambda: n.nvmlDeviceGetComputeRunningProcesses(gpus[0])),
    "instances": tell(lambda: n.nvmlDeviceGetGpuInstanceRemainingCapacity(gpus[0], 19)),
    "own": tell(lambda: n.nvmlDeviceGetMemoryInfo(parts[0][0])),
}))
"""


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Lets processes see the nodes of some devices of a specification only, and of some capabilities by number."""

    def run(machine: Machine, *names: str, capabilities: tuple[int, ...] = ()) -> None:
        dev = tmp_path / "container" / "dev"
        shutil.rmtree(dev, ignore_errors=True)
        spec = cdi_spec(machine)
        mounts = [mount for name in names for mount in mounts_of(spec, name)]
        mounts += spec["containerEdits"]["mounts"]
        inside = [one["containerPath"] for one in mounts]
        for path in [*inside, *(f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in capabilities)]:
            place = dev / Path(path).relative_to("/dev") if path.startswith("/dev/") else dev / "elsewhere"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        monkeypatch.setenv("FAKEGPU_DEV", str(dev))

    return run


def mounts_of(spec: dict[str, Any], name: str) -> list[dict[str, Any]]:
    (edits,) = [device["containerEdits"] for device in spec["devices"] if device["name"] == name]
    mounts: list[dict[str, Any]] = edits["mounts"]
    return mounts


def paths_of(spec: dict[str, Any], name: str) -> list[str]:
    return [mount["containerPath"] for mount in mounts_of(spec, name)]


def test_specification_names_mig_devices_in_place_of_their_gpu(machine: Machine) -> None:
    machine.mig(1).create("1g.10gb", "3g.40gb")
    first, second = machine.mig(1).devices
    gpus = [machine.gpu(index) for index in (0, 2, 3)]

    spec = cdi_spec(machine)

    assert [device["name"] for device in spec["devices"]] == [
        *(gpus[0].uuid, first.uuid, second.uuid, gpus[1].uuid, gpus[2].uuid),
        *("0", "1:0", "1:1", "2", "3", "all"),
    ]
    assert paths_of(spec, "1:0") == ["/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap147", "/dev/nvidia-caps/nvidia-cap148"]
    assert paths_of(spec, second.uuid) == paths_of(spec, "1:1")
    assert sorted(paths_of(spec, "all")) == sorted(
        {path for name in ("0", "1:0", "1:1", "2", "3") for path in paths_of(spec, name)}
    )
    assert all(Path(one["hostPath"]).is_file() for one in mounts_of(spec, "all"))


def test_machine_with_nothing_to_give_says_so(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "a30", 1)
    machine.mig(0).set_mode(True)

    with pytest.raises(InputError, match="`fakegpu mig create`"):
        cdi_spec(machine)


def test_container_sees_its_mig_device_only(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(2).create("1g.10gb", "3g.40gb", "2g.20gb")
    enter(machine, "2:1")

    seen = json.loads(see(machine, LOOK))

    assert seen["gpus"] == [machine.gpu(2).uuid]
    assert seen["parts"] == [[machine.mig(2).devices[1].uuid]]
    assert seen["indices"] == [[0]]
    assert (seen["whole"], seen["processes"], seen["instances"]) == ("NVMLError_NoPermission",) * 3
    assert seen["own"] == "told"


def test_two_mig_devices_are_counted_in_their_order(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(0).create("1g.10gb", "1g.10gb", "1g.10gb")
    enter(machine, "0:2", "0:0")

    seen = json.loads(see(machine, LOOK))

    assert seen["parts"] == [[machine.mig(0).devices[index].uuid for index in (0, 2)]]
    assert seen["indices"] == [[0, 1]]


def test_other_mig_devices_are_not_found_by_their_uuids(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(0).create("1g.10gb", "1g.10gb")
    enter(machine, "0:1")
    ask = f"""
n.nvmlInit()
for uuid in {[device.uuid for device in machine.mig(0).devices]}:
    try:
        print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(uuid)))
    except n.NVMLError_NotFound:
        print("none")
"""
    assert see(machine, ask).split() == ["none", "0"]


def test_a_device_appears_in_a_container_when_it_is_made_again(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(0).create("1g.10gb")
    enter(machine, "0:0")
    machine.mig(0).clear()
    assert json.loads(see(machine, LOOK.replace("parts[0][0]", "gpus[0]")))["parts"] == [[]]

    machine.mig(0).create("2g.20gb", "1g.10gb")

    assert json.loads(see(machine, LOOK))["parts"] == [[machine.mig(0).devices[1].uuid]]


def test_the_monitor_sees_all_mig_devices(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(0).create("1g.10gb", "2g.20gb")
    enter(machine, "0:0", capabilities=(2,))

    seen = json.loads(see(machine, LOOK))

    assert seen["parts"] == [[device.uuid for device in machine.mig(0).devices]]
    assert (seen["whole"], seen["processes"], seen["own"]) == ("told",) * 3
    assert seen["instances"] == "NVMLError_NoPermission"


def test_container_with_a_whole_gpu_sees_all_of_it(machine: Machine, enter: Enter, see: See) -> None:
    machine.mig(0).create("1g.10gb")
    enter(machine, "1")

    seen = json.loads(see(machine, LOOK.replace("parts[0][0]", "gpus[0]")))

    assert (seen["gpus"], seen["parts"]) == ([machine.gpu(1).uuid], [[]])
    assert (seen["whole"], seen["processes"]) == ("told", "told")


def test_container_gets_events_of_whole_gpus_only(machine: Machine, enter: Enter) -> None:
    from tests.support.machines import EventSet

    machine.mig(0).create("1g.10gb")
    enter(machine, "0:0")
    library = ctypes.CDLL(str(machine.library))
    assert library.nvmlInit_v2() == 0
    events = EventSet(library)
    events.register(0, 8)
    machine.faults.xid(0, 13, instance=(13, 0))
    machine.faults.xid(0, 79)

    code, event = events.wait()

    assert (code, event.data) == (0, 79)
    events.free()
    library.nvmlShutdown()
