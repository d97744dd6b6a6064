"""A link in the folder of a machine, which a plugin may make there, leads nobody to files of the host."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fakegpu import FakeGpuError, InputError, Machine
from fakegpu.machine import gpus
from fakegpu.vendors import iluvatar
from fakegpu.vendors.amd import machine as amd
from fakegpu.vendors.amd.model import load_amd_profile

AT_FDCWD, RENAME_EXCHANGE = -100, 2

CHANGES: dict[str, Callable[[Machine], object]] = {
    "unplug": lambda machine: machine.unplug(0),
    "plug": lambda machine: machine.plug(0),
    "partition": lambda machine: machine.mig(0).set_mode(True),
    "channels": lambda machine: machine.add_imex_channels(2),
    "numa node": lambda machine: machine.set(0, "numa_node", 0),
}


@pytest.mark.parametrize("part", ["dev", "dev/nvidia-caps", "proc/driver", "sys"])
@pytest.mark.parametrize("change", CHANGES)
def test_files_are_not_changed_where_a_link_leads(tmp_path: Path, part: str, change: str) -> None:
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    for name in ("nvidia0", "nvidia-cap1"):
        (decoy / name).write_text("another's")
    machine = Machine.create(tmp_path / "machine", profile="a100-40gb", count=1)
    (machine.directory / part).rename(tmp_path / "was")
    (machine.directory / part).symlink_to(decoy)

    with suppress(InputError):
        CHANGES[change](machine)

    assert {path.name: path.read_text() for path in decoy.iterdir()} == dict.fromkeys(
        ["nvidia0", "nvidia-cap1"], "another's"
    )


@pytest.mark.parametrize(
    "part",
    ["sys", "sys/class", "sys/devices/virtual", "sys/module", "sys/bus/pci", "sys/bus/pci/devices", "dev", "dev/dri"],
)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda root: amd.write_amd(root, load_amd_profile("mi300x"), 1), id="amd"),
        pytest.param(lambda root: iluvatar.write_iluvatar(root, 1), id="iluvatar"),
    ],
)
def test_devices_of_others_are_not_made_where_a_link_leads(
    tmp_path: Path, part: str, make: Callable[[Path], object]
) -> None:
    decoy, root = tmp_path / "decoy", tmp_path / "machine"
    decoy.mkdir()
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(decoy)

    with suppress(InputError):
        make(root)

    assert list(decoy.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "part"), [("unplug", "dev"), ("partition", "proc/driver"), ("channels", "dev"), ("numa node", "sys")]
)
def test_link_in_place_of_a_folder_is_named(tmp_path: Path, change: str, part: str) -> None:
    machine = Machine.create(tmp_path / "machine", profile="a100-40gb", count=1)
    (machine.directory / part).rename(tmp_path / "was")
    (machine.directory / part).symlink_to(tmp_path / "was")

    with pytest.raises(InputError, match=f"{part}.*: is a link, a file or a pipe in place of a folder; remove it"):
        CHANGES[change](machine)


@pytest.mark.parametrize("name", [".health", "health"])
def test_pipe_keeps_no_change_of_health_waiting(tmp_path: Path, name: str) -> None:
    chip = iluvatar.write_iluvatar(tmp_path, 1)[0].uuid
    [folder] = (tmp_path / "sys/bus/pci/devices").glob("*/ixml")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)

    iluvatar.set_health(tmp_path, chip, 1)

    assert (folder / "health").read_text() == "0x1\n"


def test_pipe_in_place_of_a_uuid_keeps_nobody_waiting(tmp_path: Path) -> None:
    chip = iluvatar.write_iluvatar(tmp_path, 1)[0].uuid
    [folder] = (tmp_path / "sys/bus/pci/devices").glob("*/ixml")
    (folder / "uuid").unlink()
    os.mkfifo(folder / "uuid")

    with pytest.raises(InputError, match=f"no Iluvatar chip '{chip}'"):
        iluvatar.set_health(tmp_path, chip, 1)


def test_pipe_among_the_health_of_gpus_is_left_out(tmp_path: Path) -> None:
    name = amd.write_amd(tmp_path, load_amd_profile("mi300x"), 1)[0].name
    os.mkfifo(tmp_path / amd.HEALTH / "pipe")

    assert set(amd.health(tmp_path)) == {name}


@pytest.mark.parametrize("place", ["", "exporter", "sys/bus/pci/devices", "sys"])
def test_health_is_not_written_where_a_link_leads(tmp_path: Path, place: str) -> None:
    root = tmp_path / "machine"
    root.mkdir()
    name = amd.write_amd(root, load_amd_profile("mi300x"), 1)[0].name
    chip = iluvatar.write_iluvatar(root, 1)[0].uuid
    (root / place).rename(tmp_path / "decoy")
    (root / place).symlink_to(tmp_path / "decoy")
    before = contents(tmp_path / "decoy")

    for change in (
        lambda: amd.set_health(root, name, healthy=False),
        lambda: iluvatar.set_health(root, chip, 1),
    ):
        with suppress(InputError):
            change()

    assert contents(tmp_path / "decoy") == before


def test_link_in_place_of_health_is_replaced(tmp_path: Path) -> None:
    decoy, root = tmp_path / "decoy", tmp_path / "machine"
    decoy.write_text("another's")
    root.mkdir()
    name = amd.write_amd(root, load_amd_profile("mi300x"), 1)[0].name
    for link in (name, f".{name}"):
        (root / amd.HEALTH / link).unlink(missing_ok=True)
        (root / amd.HEALTH / link).symlink_to(decoy)

    amd.set_health(root, name, healthy=False)

    assert (amd.health(root)[name], decoy.read_text()) == (amd.UNHEALTHY, "another's")


@pytest.mark.slow
@pytest.mark.parametrize("change", ["unplug", "plug", "partition", "channels", "numa node"])
def test_folders_that_become_links_meanwhile_lead_nobody_out(tmp_path: Path, change: str) -> None:
    machine = Machine.create(tmp_path / "machine", profile="a100-40gb", count=1)
    decoy = tmp_path / "decoy"
    shutil.copytree(machine.directory / "proc", decoy / "proc")
    shutil.copytree(machine.directory / "sys", decoy / "sys", symlinks=True)
    shutil.copytree(machine.directory / "dev", decoy / "dev")
    before, is_over = contents(decoy), threading.Event()
    parts = ("dev", "dev/nvidia-caps", "proc", "proc/driver/nvidia/capabilities", "sys/bus/pci/devices", "sys")

    def swap() -> None:
        for turn in itertools.cycle(parts):
            if is_over.is_set():
                return
            link = tmp_path / "link"
            link.symlink_to(decoy / turn)
            exchange(link, machine.directory / turn)
            exchange(link, machine.directory / turn)
            link.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(200):
            with suppress(FakeGpuError):
                CHANGES[change](machine)
    finally:
        is_over.set()
        swapper.join()

    assert contents(decoy) == before


def test_link_that_comes_while_a_gpu_is_unplugged_leads_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine.create(tmp_path / "machine", profile="a100-40gb", count=1)
    shutil.copytree(machine.directory / "dev", tmp_path / "decoy")
    before, act = contents(tmp_path / "decoy"), gpus.act

    def act_and_link(*arguments: Any) -> int | None:
        (machine.directory / "dev").rename(tmp_path / "aside")
        (machine.directory / "dev").symlink_to(tmp_path / "decoy")
        return act(*arguments)

    monkeypatch.setattr(gpus, "act", act_and_link)

    with pytest.raises(InputError, match="is a link, a file or a pipe in place of a folder; remove it"):
        machine.unplug(0)

    assert contents(tmp_path / "decoy") == before


def exchange(one: Path, other: Path) -> None:
    """Give two paths each other's name in one step; one that is missing leaves both as they are."""
    names = os.fsencode(one), os.fsencode(other)
    ctypes.CDLL(None).renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE)


def contents(folder: Path) -> dict[Path, bytes | None]:
    """What a folder holds: content by path, None of all but files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
