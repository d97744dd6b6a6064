from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.backends.sim.changes import change_checkpoint
from scenarios.story.verbs.node_action import CheckpointState
from simkubelet.apis.deviceplugin import ContainerAllocateResponse
from simkubelet.devices.checkpoint import CHECKPOINT_NAME, Checkpoint, CheckpointText, CorruptCheckpointError, decode
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.errors import InputError
from simkubelet.model.pod import PodUID
from simkubelet.model.resources import ResourceName

GPU = ResourceName("example.com/gpu")
RESPONSE = ContainerAllocateResponse(envs={"A": "<&>"})


def checkpoint(*nodes: int) -> Checkpoint:
    """One container with a device on each of some NUMA nodes."""
    devices = {node: (DeviceID(f"gpu-{node}"),) for node in nodes}
    entry = AllocationEntry(PodUID("uid"), "main", GPU, Allocation(devices, RESPONSE))
    return Checkpoint((entry,) if nodes else (), {GPU: (DeviceID("gpu-0"), DeviceID("gpu-1"))})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / CHECKPOINT_NAME).write_bytes(CheckpointText().render(checkpoint(0, 1)))
    return tmp_path


def test_removed_and_empty(folder: Path) -> None:
    change_checkpoint(folder, CheckpointState.EMPTY)
    assert (folder / CHECKPOINT_NAME).read_bytes() == b""

    change_checkpoint(folder, CheckpointState.REMOVED)
    assert not (folder / CHECKPOINT_NAME).exists()


def test_corrupt_one_has_a_wrong_checksum(folder: Path) -> None:
    change_checkpoint(folder, CheckpointState.CORRUPT)

    with pytest.raises(CorruptCheckpointError, match="checkpoint is corrupted"):
        decode((folder / CHECKPOINT_NAME).read_text())


@pytest.mark.parametrize("nodes", [(), (0,), (0, 1)])
def test_old_format_is_read_by_those_kubelets_that_know_it(tmp_path: Path, nodes: tuple[int, ...]) -> None:
    file = tmp_path / CHECKPOINT_NAME
    file.write_bytes(CheckpointText().render(checkpoint(*nodes)))
    change_checkpoint(tmp_path, CheckpointState.PRE_1_20)

    read = decode(file.read_text(), reads_old_format=True)

    assert read.registered == checkpoint().registered
    assert [entry.allocation.devices() for entry in read.entries] == [
        entry.allocation.devices() for entry in checkpoint(*nodes).entries
    ]


def test_old_format_is_refused_by_the_others(folder: Path) -> None:
    change_checkpoint(folder, CheckpointState.PRE_1_20)

    with pytest.raises(CorruptCheckpointError):
        decode((folder / CHECKPOINT_NAME).read_text())


@pytest.mark.parametrize("to", list(CheckpointState))
def test_checkpoint_that_was_never_written_cannot_be_changed(tmp_path: Path, to: CheckpointState) -> None:
    with pytest.raises(InputError, match="changeCheckpoint: the kubelet has written none yet"):
        change_checkpoint(tmp_path, to)


@pytest.mark.parametrize("to", [CheckpointState.CORRUPT, CheckpointState.PRE_1_20])
@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"Data": {"PodDeviceEntries": [{"DeviceIDs": []}]}}'])
def test_unreadable_one_cannot_be_changed(folder: Path, text: str, to: CheckpointState) -> None:
    (folder / CHECKPOINT_NAME).write_text(text)

    with pytest.raises(InputError, match=f"unreadable, so it cannot become '{to}'"):
        change_checkpoint(folder, to)
