from __future__ import annotations

import os
import socket
import stat
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from simkubelet.devices.checkpoint import CHECKPOINT_NAME
from simkubelet.devices.plugin_folder import CheckpointNotWrittenError, PluginFolder, check_socket_path
from simkubelet.model.errors import InputError
from simkubelet.model.version import version
from tests.support.decoy import Decoy


def test_socket_path_of_107_bytes_is_the_longest(tmp_path):
    check_socket_path(tmp_path / ("x" * (106 - len(str(tmp_path)))))

    with pytest.raises(InputError, match="107 bytes and this one has 108; choose a folder with a shorter path"):
        check_socket_path(tmp_path / ("x" * (107 - len(str(tmp_path)))))


def test_folder_that_cannot_be_made_is_reported(short_folder):
    (short_folder / "file").touch()

    with pytest.raises(InputError, match="cannot be made: Not a directory; choose another folder"):
        PluginFolder(short_folder / "file" / "device-plugins").prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_permission_is_reported(short_folder):
    short_folder.chmod(stat.S_IRUSR | stat.S_IXUSR)

    with pytest.raises(InputError, match="cannot be written"):
        PluginFolder(short_folder).prepare()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_file_of_the_user_is_refused_where_a_kubelet_would_remove_it(short_folder, kind):
    mine = short_folder / "mine"
    mine.touch() if kind == "file" else mine.symlink_to("/nowhere")

    with pytest.raises(InputError, match=f"^{mine}: a kubelet v1.32.13 removes this file"):
        PluginFolder(short_folder).refuse_foreign(version("1.32"))
    PluginFolder(short_folder).refuse_foreign(version("1.33"))


def test_what_kubelets_and_plugins_left_is_not_refused(short_folder):
    for name in (CHECKPOINT_NAME, ".123456"):
        (short_folder / name).touch()
    (short_folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.bind(str(short_folder / "plugin.sock"))

    PluginFolder(short_folder).refuse_foreign(version("1.32"))


def test_new_node_has_nothing_but_hidden_files(short_folder):
    folder = PluginFolder(short_folder)
    (short_folder / ".tmp").touch()
    assert folder.is_of_a_new_node()

    (short_folder / "gopher.sock").touch()
    assert not folder.is_of_a_new_node()


def test_checkpoint_is_not_written_behind_a_link(short_folder: Path, tmp_path: Path) -> None:
    decoy = Decoy(tmp_path / "decoy")
    folder = PluginFolder(short_folder / "device-plugins")
    folder.prepare()
    folder.directory.rename(short_folder / "away")
    folder.directory.symlink_to(decoy.place)

    with pytest.raises(CheckpointNotWrittenError, match="failed to write checkpoint file"):
        folder.save(b"{}")

    decoy.check()


def test_checkpoint_that_could_not_be_read_is_not_written(short_folder: Path) -> None:
    folder = PluginFolder(short_folder / "device-plugins")
    folder.prepare()
    folder.save(b"{}")

    with pytest.raises(CheckpointNotWrittenError, match="file too large"):
        folder.save(b" " * ((64 << 20) + 1))

    assert (folder.directory / "kubelet_internal_checkpoint").read_bytes() == b"{}"


async def test_node_whose_folder_was_lost_starts_with_zeroed_resources(node: Any):
    await node.plugin("d0")
    await node.tick()
    await node.kubelet.stop()
    for path in node.folder.iterdir():
        path.unlink()

    await node.kubelet.start()

    assert node.status() == (0, 0)


async def test_corrupt_checkpoint_is_logged_and_forgotten(node: Any, caplog):
    await node.plugin("d0")
    await node.kubelet.stop()
    (node.folder / CHECKPOINT_NAME).write_text("{")

    await node.kubelet.start()

    assert node.kubelet.is_running
    assert "Device allocation info may NOT be up-to-date: unexpected end of JSON input" in caplog.text


async def test_short_checkpoint_is_read_with_little_memory(short_folder: Path) -> None:
    """Where `ulimit -v` leaves less than a file may be long."""
    (short_folder / CHECKPOINT_NAME).write_text("{}")
    folder = PluginFolder(short_folder)
    await folder.load(version("1.34"))

    tracemalloc.start()
    await folder.load(version("1.34"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 4 << 20


async def test_list_counts_though_the_checkpoint_cannot_be_written(node: Any, monkeypatch, caplog):
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    await node.plugin("d0")
    name = await node.settled_pod(1)

    assert len(node.of("devices-listed")) == 1
    assert "no space left" in caplog.text
    before, _, after = node.message(name).partition(f"sync {node.folder}/.")
    assert before == (
        'Pod was rejected: Allocate failed due to failed to write checkpoint file "kubelet_internal_checkpoint": '
    )
    assert after.endswith(": no space left on device, which is unexpected")
