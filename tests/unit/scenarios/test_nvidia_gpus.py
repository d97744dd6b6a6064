"""The NVIDIA GPUs of a node, as stories name, break, fix and partition them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from fakegpu import FakeGpuError, Machine
from scenarios.backends.world import hardware
from scenarios.backends.world.selection import chosen_gpu
from scenarios.story.verbs.hardware_action import (
    Fail,
    FailNvml,
    Heal,
    HealNvml,
    PartitionGpu,
    describe_gpu,
)
from scenarios.trace.snapshot import Snapshot
from simkubelet.model.errors import InputError, PluginError
from tests.support.stories import A100, perform


def test_machine_is_divided_as_the_node_says(machine: Machine) -> None:
    names = hardware.names(machine)

    assert list(names) == ["0", "0:0", "0:1", "1", "2"]
    assert [device.name for device in machine.mig(0).devices] == ["3g.20gb", "1g.5gb"]
    assert [machine.mig(gpu).mode for gpu in range(3)] == [(True, True), (False, False), (True, True)]
    assert names["0:1"] == machine.mig(0).devices[1].uuid


def test_same_seed_gives_the_same_names(machine: Machine, tmp_path: Path) -> None:
    again = hardware.make_gpus(tmp_path / "again", **A100, mig=[["1g.5gb", "3g.20gb"]])

    assert hardware.names(again) == hardware.names(machine)


def test_gpu_is_repartitioned_and_mig_mode_turned_off(machine: Machine) -> None:
    event = perform(machine, PartitionGpu(gpu=0, mig=("2g.10gb", "2g.10gb")))
    assert [device.name for device in machine.mig(0).devices] == ["2g.10gb", "2g.10gb"]
    assert (event.kind, event.index, event.mig) == ("gpu-partitioned", 0, ("2g.10gb", "2g.10gb"))

    perform(machine, PartitionGpu(gpu=0, mig="disabled"))
    assert machine.mig(0).mode == (False, False)

    perform(machine, PartitionGpu(gpu=1, mig=()))
    assert (machine.mig(1).mode, machine.mig(1).devices) == ((True, True), ())


@pytest.mark.parametrize("mig", [("9g.90gb",), ("7g.40gb", "1g.5gb")])
def test_division_that_cannot_be_is_refused(machine: Machine, mig: tuple[str, ...]) -> None:
    with pytest.raises(FakeGpuError):
        perform(machine, PartitionGpu(gpu=0, mig=mig))


def test_lost_mig_device_is_a_lost_gpu_and_heals_with_it(machine: Machine) -> None:
    perform(machine, Fail.model_validate({"gpu": "0:0", "lost": True}))
    assert machine.gpu(0).is_lost

    perform(machine, Heal.model_validate({"gpu": "0:1"}))
    assert not machine.gpu(0).is_lost


def test_calls_fail_until_they_are_healed(machine: Machine) -> None:
    first = perform(machine, FailNvml(call="nvmlInit", error="UNKNOWN", times=2))
    perform(machine, FailNvml(call="nvmlDeviceGet*", error="GPU_IS_LOST", gpu=1))
    rules = [(rule.function, rule.gpu, rule.left) for rule in machine.faults.rules]
    assert rules == [("nvmlInit", None, 2), ("nvmlDeviceGet*", 1, None)]
    assert (first.kind, first.call, first.error) == ("nvml-failed", "nvmlInit", "UNKNOWN")

    assert perform(machine, HealNvml()).kind == "nvml-healed"
    assert machine.faults.rules == ()


def test_mig_device_that_a_pod_holds_is_found(machine: Machine, frames: Any) -> None:
    names = hardware.names(machine)
    held: Snapshot = frames.frame(frames.pod(ids=(names["0:1"],)))
    selector = Fail.model_validate({"gpu": {"heldBy": "trainer"}, "xid": 79}).gpu

    assert chosen_gpu(selector, names, held) == names["0:1"]
    with pytest.raises(PluginError, match="pod 'trainer' holds none"):
        chosen_gpu(selector, {"0": names["0"]}, held)


def test_mig_device_that_is_not_there_is_refused_by_what_there_is() -> None:
    selector = Fail.model_validate({"gpu": "0:2", "xid": 79}).gpu
    nothing = Snapshot(nodes={}, pods={}, plugins=())

    with pytest.raises(InputError, match=r"^no GPU '0:2'; the node has GPU-a, MIG-b \(0:0\)$"):
        chosen_gpu(selector, {"0": "GPU-a", "0:0": "MIG-b"}, nothing)


@pytest.mark.parametrize("gpu", ["0", "0:", ":1", "gpu-0", "MIG-", True, -1])
def test_selector_that_names_nothing_is_refused(gpu: Any) -> None:
    with pytest.raises(ValidationError):
        Fail.model_validate({"gpu": gpu, "xid": 79})


@pytest.mark.parametrize("mig", ["enabled", ["5gb"], [["1g.5gb"]], None])
def test_partition_that_is_none_is_refused(mig: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(PartitionGpu).validate_python({"gpu": 0, "mig": mig})


def test_selectors_in_words() -> None:
    assert [describe_gpu(one) for one in (1, "0:1", "MIG-x", "GPU-x")] == [
        "GPU 1",
        "MIG device 0:1",
        "MIG device MIG-x",
        "GPU GPU-x",
    ]
