"""A kubelet that is killed at any system call of a checkpoint write: the next one finds the old state or the new one.

What a power cut takes of a file that was not synced is beyond this: see `simkubelet._internal.replaced_file`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkubelet.apis.deviceplugin import ContainerAllocateResponse
from simkubelet.devices.checkpoint import CHECKPOINT_NAME, Checkpoint, CheckpointText
from simkubelet.devices.plugin_folder import PluginFolder
from simkubelet.devices.pod_devices import Allocation, AllocationEntry, DeviceID
from simkubelet.model.pod import PodUID
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import DEFAULT, version
from tests.support.node import RESOURCE

PROGRAM = Path(__file__).with_name("crashing_writes.py")
DEVICES = tuple(DeviceID(f"d{number}") for number in range(100))
Deaths = list[tuple[str, dict[str, str]]]


def checkpoint(pods: int) -> Checkpoint:
    entries = tuple(
        AllocationEntry(
            PodUID(f"u{pod}"),
            "c",
            ResourceName(RESOURCE),
            Allocation({-1: (DEVICES[pod],)}, ContainerAllocateResponse(envs={"STUB": DEVICES[pod]})),
        )
        for pod in range(pods)
    )
    return Checkpoint(entries, {ResourceName(RESOURCE): DEVICES})


def text(pods: int) -> bytes:
    return CheckpointText().render(checkpoint(pods))


@pytest.fixture
def die(tmp_path: Path, plugin_folder: Path) -> Callable[[bytes | None, bytes], Deaths]:
    """Writes the second text over the first, or over nothing, and dies at every step."""

    def run(old: bytes | None, new: bytes) -> Deaths:
        (tmp_path / "new").write_bytes(new)
        if old is not None:
            (tmp_path / "old").write_bytes(old)
        files = ["-" if old is None else str(tmp_path / "old"), str(tmp_path / "new")]
        command = [sys.executable, str(PROGRAM), str(plugin_folder), CHECKPOINT_NAME, *files]
        found: Deaths = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found

    return run


def hidden_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.startswith(".")}


def loaded(folder: Path, files: dict[str, str]) -> Checkpoint | None:
    """What a kubelet that starts reads from these files."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_text(content)
    return PluginFolder(folder).load(version(DEFAULT))


def test_death_at_any_system_call_leaves_the_old_or_the_new_state(
    die: Callable[..., Deaths], plugin_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    died = die(text(3), text(4))

    states = [(step, loaded(plugin_folder, files)) for step, files in died]
    before_renaming = ["open", "write", "fsync", "close", "rename"]
    # Once as it is, once with writes that come half way.
    assert states == 2 * [*((step, checkpoint(3)) for step in before_renaming), ("", checkpoint(4))]
    assert not caplog.records


def test_death_at_the_first_write_leaves_no_state_or_the_new_one(
    die: Callable[..., Deaths], plugin_folder: Path
) -> None:
    states = [loaded(plugin_folder, files) for _, files in die(None, text(1))]

    assert states == 2 * [None, None, None, None, None, checkpoint(1)]


def test_what_a_death_leaves_is_one_hidden_file_at_most(die: Callable[..., Deaths]) -> None:
    for step, files in die(text(1), text(2)):
        others = files.keys() - {CHECKPOINT_NAME}
        assert len(others) == (0 if step in ("", "open") else 1)
        assert all(name.startswith(".") for name in others)


@pytest.mark.parametrize("minor", ["1.32", "1.33"])
async def test_kubelet_lives_with_what_the_last_one_left(
    die: Callable[..., Deaths], plugin_folder: Path, make_node: Any, minor: str
) -> None:
    torn = next(files for step, files in reversed(die(text(3), text(4))) if step == "write")
    loaded(plugin_folder, torn)
    left = torn.keys() - {CHECKPOINT_NAME}
    assert len(left) == 1

    node = await make_node(minor)
    await node.tick()
    assert node.status() == (0, 0)
    await node.plugin(*DEVICES)
    await node.tick()
    assert node.status() == (len(DEVICES), len(DEVICES))
    assert node.phase(await node.settled_pod(1)) == "Running"

    # Kubelets before 1.33 clear the folder of all files when they start, and later ones of sockets only.
    assert hidden_files(plugin_folder) == (left if minor == "1.33" else set())


async def test_hidden_files_alone_make_a_new_node(die: Callable[..., Deaths], plugin_folder: Path) -> None:
    torn = next(files for step, files in reversed(die(None, text(4))) if step == "write")

    assert loaded(plugin_folder, torn) is None
    assert PluginFolder(plugin_folder).is_of_a_new_node()
