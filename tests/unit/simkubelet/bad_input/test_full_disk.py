"""A disk that takes no checkpoint: lists still count, pods with devices are rejected, others wait; all recover later.

Source: devicemanager/manager.go, ``genericDeviceUpdateCallback``, ``allocateContainerResources``, ``GetCapacity``,
``writeCheckpoint``; cm/dra/manager.go, ``prepareResources``, which writes a checkpoint for each pod;
util/store/filestore.go, ``writeFile`` (kubernetes v1.34.4).
"""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simkubelet._internal import replaced_file
from simkubelet.devices.checkpoint import CHECKPOINT_NAME, Checkpoint
from simkubelet.devices.plugin_folder import PluginFolder
from simkubelet.model.resources import ResourceName
from simkubelet.model.version import DEFAULT, version
from tests.support.node import RESOURCE, Node


class Disk:
    """The module `os` over a disk on which one kind of system call fails."""

    def __init__(self) -> None:
        self.failing = ""
        self.error = errno.ENOSPC
        self.bytes_before = 0
        """How much a failing disk still takes of what is written."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)

        def call(*args: Any, **given: Any) -> Any:
            if name != self.failing:
                return function(*args, **given)
            if name == "write" and self.bytes_before:
                written, self.bytes_before = function(args[0], args[1][: self.bytes_before]), 0
                return written
            if name == "close":
                function(*args)
            raise OSError(self.error, os.strerror(self.error))

        return call if name == self.failing else function


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(replaced_file, "os", disk)
    return disk


async def test_folder_without_room_keeps_its_checkpoint_and_refuses_pods_that_need_one(node: Node) -> None:
    await node.plugin("d0")
    node.kubelet.folder.is_full = True
    refused, plain = await node.settled_pod(1), await node.settled_pod(None)
    told, left = node.message(refused), await loaded(node)
    node.kubelet.folder.is_full = False
    later = await node.settled_pod(1)

    assert [node.phase(name) for name in (refused, plain, later)] == ["Failed", "Running", "Running"]
    assert re.search(r'failed to write checkpoint file "\S+": write /\S+/\.\d+: no space left on device', told)
    assert left is not None
    assert left.entries == ()
    assert node.devices(later) == ("d0",)


async def loaded(node: Node) -> Checkpoint | None:
    return await PluginFolder(node.folder).load(version(DEFAULT))


def hidden_files(node: Node) -> list[str]:
    return [path.name for path in node.folder.iterdir() if path.name.startswith(".")]


def without_numbers(text: str) -> str:
    return re.sub(r"/\.\d+", "/.N", text)


async def listed(node: Node, *healthy: str) -> None:
    """A plugin lists, and the checkpoint after it is written or not."""
    (plugin,) = node.plugins
    count = len(node.of("devices-listed"))
    plugin.list(healthy)
    await node.until(lambda: len(node.of("devices-listed")) > count)
    await node.tick()


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("open", "open {folder}/.N"),
        ("write", "write {folder}/.N"),
        ("fsync", "sync {folder}/.N"),
        ("close", "close {folder}/.N"),
        ("rename", "rename {folder}/.N {folder}/kubelet_internal_checkpoint"),
    ],
)
async def test_full_disk_refuses_pods_with_devices_and_lets_others_wait(
    node: Node, disk: Disk, caplog: pytest.LogCaptureFixture, call: str, step: str
) -> None:
    await node.plugin("d0")
    await node.tick()
    before = await loaded(node)

    disk.failing, disk.bytes_before = call, 20
    await listed(node, "d0", "d1")
    refused = await node.settled_pod(1)
    plain = node.pod(None)
    await node.until(lambda: node.pod_events(plain))

    text = f'failed to write checkpoint file "{CHECKPOINT_NAME}": {step.format(folder=node.folder)}: '
    text += "no space left on device"
    assert node.status() == (2, 2)
    assert text in without_numbers(caplog.text)
    assert without_numbers(node.message(refused)) == (
        f"Pod was rejected: Allocate failed due to {text}, which is unexpected"
    )
    assert node.pod_status(refused).reason == "UnexpectedAdmissionError"
    assert [reason for reason, _ in node.pod_events(plain)] == ["FailedPrepareDynamicResources"]
    # The old state is there, whole, and nothing beside it.
    assert await loaded(node) == before
    assert hidden_files(node) == []

    disk.failing = ""
    # A kubelet looks at its pods once a minute, or half a minute later.
    await node.clock.advance(100)
    assert node.phase(plain) == "Running"


async def test_space_that_comes_back_is_used_at_the_next_write(node: Node, disk: Disk) -> None:
    await node.plugin("d0")
    await node.tick()
    disk.failing = "write"
    await node.settled_pod(1)

    disk.failing = ""
    name = await node.settled_pod(1)

    # The device of the refused pod, which has ended, is free again.
    assert (node.phase(name), node.devices(name)) == ("Running", ("d0",))
    checkpoint = await loaded(node)
    assert checkpoint is not None
    pod = node.store.pod_named(name)
    assert pod is not None
    assert [(entry.pod_uid, entry.allocation.devices()) for entry in checkpoint.entries] == [(pod.uid, {"d0"})]


async def test_kubelet_restarts_on_a_full_disk_with_what_it_wrote_last(node: Node, disk: Disk) -> None:
    await node.plugin("d0")
    await node.tick()
    name = await node.settled_pod(1)

    disk.failing = "open"
    await listed(node, "d0", "d1")
    await node.kubelet.restart()
    await node.tick()

    assert node.status() == (0, 0)
    assert node.devices(name) == ("d0",)


async def test_resource_is_forgotten_though_the_disk_is_full(
    node: Node, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = await node.plugin("d0")
    await node.tick()
    await plugin.stop()
    await node.until(lambda: node.of("plugin-disconnected"))

    disk.failing = "fsync"
    await node.clock.advance(310)

    assert node.status() == (0, 0)
    assert "no space left on device" in caplog.text
    checkpoint = await loaded(node)
    assert checkpoint is not None
    assert ResourceName(RESOURCE) in checkpoint.registered


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errno.EROFS, "read-only file system"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "input/output error"),
        (errno.EDQUOT, "disk quota exceeded"),
        (errno.EMFILE, "too many open files"),
    ],
)
async def test_unwritable_folder_is_reported_with_go_s_text(node: Node, disk: Disk, error: int, words: str) -> None:
    await node.plugin("d0")
    await node.tick()

    disk.failing, disk.error = "open", error
    name = await node.settled_pod(1)

    assert without_numbers(node.message(name)) == (
        f'Pod was rejected: Allocate failed due to failed to write checkpoint file "{CHECKPOINT_NAME}": '
        f"open {node.folder}/.N: {words}, which is unexpected"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_folder_that_loses_its_write_permission_refuses_pods_until_it_has_it_again(node: Node) -> None:
    await node.plugin("d0")
    await node.tick()
    node.folder.chmod(0o500)
    try:
        refused = await node.settled_pod(1)
    finally:
        node.folder.chmod(0o750)

    assert ": permission denied" in node.message(refused)
    assert node.phase(await node.settled_pod(1)) == "Running"


@pytest.fixture
def file_size_limit() -> Iterator[Callable[[int], None]]:
    """Lets the kernel itself refuse what goes beyond a size, as a full disk does: after a part of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_truncated_write_leaves_the_old_state(node: Node, file_size_limit: Callable[[int], None]) -> None:
    await node.plugin("d0")
    await node.tick()
    before = await loaded(node)

    file_size_limit(100)
    name = await node.settled_pod(1)
    after = await loaded(node)
    file_size_limit(resource.RLIM_INFINITY)

    assert without_numbers(node.message(name)).endswith(f"write {node.folder}/.N: file too large, which is unexpected")
    assert after == before
    assert hidden_files(node) == []
    assert node.phase(await node.settled_pod(1)) == "Running"


def test_write_in_parts_writes_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowDisk(Disk):
        def write(self, descriptor: int, content: memoryview) -> int:
            return os.write(descriptor, content[:7])

    monkeypatch.setattr(replaced_file, "os", SlowDisk())

    replaced_file.replace_file(tmp_path, "file", b"0123456789" * 10)

    assert (tmp_path / "file").read_bytes() == b"0123456789" * 10
