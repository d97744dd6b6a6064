"""A kubelet that is killed at any system call of a checkpoint write: the next one finds the old state or the new one.

What a power cut takes of a file that was not synced is beyond this: see `simkubelet._internal.replaced_file`.
"""

from __future__ import annotations

import asyncio
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
def die(tmp_path: Path, plugin_folder: Path) -> Callable[[bytes | None, bytes], list[Deaths]]:
    """Writes the second text over the first, or over nothing, and dies at every step.

    It does so twice: with writes that come whole, and with writes that come half way.
    """

    def run(old: bytes | None, new: bytes) -> list[Deaths]:
        (tmp_path / "new").write_bytes(new)
        if old is not None:
            (tmp_path / "old").write_bytes(old)
        files = ["-" if old is None else str(tmp_path / "old"), str(tmp_path / "new")]
        command = [sys.executable, str(PROGRAM), str(plugin_folder), *files]
        found: list[Deaths] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found

    return run


def parts(died: Deaths) -> tuple[Deaths, Deaths, Deaths]:
    """The deaths before there is a new file, those while it is not in its place, and those later, the last being none.

    How the folder is found, and so how often something is opened and closed around it, depends on the kernel.
    """
    steps = [step for step, _ in died]
    begin, end = steps.index("write"), steps.index("rename") + 1
    assert steps[begin:end] == ["write", "fsync", "close", "rename"]
    assert set(steps[:begin]) == {"open", "close"}
    assert steps[begin - 1] == "open"
    assert set(steps[end:-1]) == {"close"}
    assert steps[-1] == ""
    return died[:begin], died[begin:end], died[end:]


def hidden_files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.startswith(".")}


def put(folder: Path, files: dict[str, str]) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_text(content)


def loaded(folder: Path, files: dict[str, str]) -> Checkpoint | None:
    """What a kubelet that starts reads from these files."""
    put(folder, files)
    return asyncio.run(PluginFolder(folder).load(version(DEFAULT)))


def test_death_at_any_system_call_leaves_the_old_or_the_new_state(
    die: Callable[..., list[Deaths]], plugin_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for died in die(text(3), text(4)):
        before, during, after = parts(died)
        assert all(loaded(plugin_folder, files) == checkpoint(3) for _, files in before + during)
        assert all(loaded(plugin_folder, files) == checkpoint(4) for _, files in after)
    assert not caplog.records


def test_death_at_the_first_write_leaves_no_state_or_the_new_one(
    die: Callable[..., list[Deaths]], plugin_folder: Path
) -> None:
    for died in die(None, text(1)):
        before, during, after = parts(died)
        assert all(loaded(plugin_folder, files) is None for _, files in before + during)
        assert all(loaded(plugin_folder, files) == checkpoint(1) for _, files in after)


def test_what_a_death_leaves_is_one_hidden_file_at_most(die: Callable[..., list[Deaths]]) -> None:
    for died in die(text(1), text(2)):
        before, during, after = parts(died)
        assert all(files.keys() == {CHECKPOINT_NAME} for _, files in before + after)
        for _, files in during:
            (other,) = files.keys() - {CHECKPOINT_NAME}
            assert other.startswith(".")


def torn(died: list[Deaths]) -> dict[str, str]:
    """The files of a death in the middle of a write."""
    return next(files for step, files in died[1] if step == "write")


@pytest.mark.parametrize("minor", ["1.32", "1.33"])
async def test_kubelet_lives_with_what_the_last_one_left(
    die: Callable[..., list[Deaths]], plugin_folder: Path, make_node: Any, minor: str
) -> None:
    files = torn(die(text(3), text(4)))
    put(plugin_folder, files)
    left = files.keys() - {CHECKPOINT_NAME}
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


def test_hidden_files_alone_make_a_new_node(die: Callable[..., list[Deaths]], plugin_folder: Path) -> None:
    assert loaded(plugin_folder, torn(die(None, text(4)))) is None
    assert PluginFolder(plugin_folder).is_of_a_new_node()
