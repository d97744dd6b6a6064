"""A link in the folder of a machine, which a plugin may make there, leads nobody to files of the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from fakegpu.vendors import iluvatar
from fakegpu.vendors.amd import machine as amd
from fakegpu.vendors.amd.model import load_amd_profile

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

    with pytest.raises(InputError, match=f"{part}: leads out of the folder of the fake machine"):
        CHANGES[change](machine)

    assert {path.name: path.read_text() for path in decoy.iterdir()} == dict.fromkeys(
        ["nvidia0", "nvidia-cap1"], "another's"
    )


@pytest.mark.parametrize("name", [".health", "health", "uuid"])
def test_pipe_keeps_no_change_of_health_waiting(tmp_path: Path, name: str) -> None:
    chip = iluvatar.write_iluvatar(tmp_path, 1)[0].uuid
    [folder] = (tmp_path / "sys/bus/pci/devices").glob("*/ixml")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)

    with pytest.raises(InputError, match=f"/{name}: is a pipe; remove it$"):
        iluvatar.set_health(tmp_path, chip, 1)


def test_pipe_among_the_health_of_gpus_is_left_out(tmp_path: Path) -> None:
    name = amd.write_amd(tmp_path, load_amd_profile("mi300x"), 1)[0].name
    os.mkfifo(tmp_path / amd.HEALTH / "pipe")

    assert set(amd.health(tmp_path)) == {name}


@pytest.mark.parametrize("vendor", ["amd", "iluvatar"])
def test_health_is_not_written_where_a_link_leads(tmp_path: Path, vendor: str) -> None:
    decoy, root = tmp_path / "decoy", tmp_path / "machine"
    decoy.write_text("another's")
    root.mkdir()
    if vendor == "amd":
        name = amd.write_amd(root, load_amd_profile("mi300x"), 1)[0].name
        (root / amd.HEALTH / f".{name}").symlink_to(decoy)
    else:
        name = iluvatar.write_iluvatar(root, 1)[0].uuid
        [folder] = (root / "sys/bus/pci/devices").glob("*/ixml")
        (folder / ".health").symlink_to(decoy)

    with pytest.raises(InputError, match="leads out of the folder of the fake machine"):
        amd.set_health(root, name, healthy=False) if vendor == "amd" else iluvatar.set_health(root, name, 1)

    assert decoy.read_text() == "another's"
