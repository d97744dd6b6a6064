"""What a driver shows of MIG in /proc and /dev: minors, capabilities of the instances that are there, their nodes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fakegpu import HostError, InputError, Machine
from fakegpu.cli.main import main
from tests.support.machines import capabilities, expected, granted, minors, nodes


def test_minors_are_those_of_the_driver(machine: Machine) -> None:
    known = minors(machine)

    assert list(known)[:4] == ["config", "monitor", "gpu0/gi0/access", "gpu0/gi0/ci0/access"]
    assert [known["gpu0/gi2/access"], known["gpu0/gi2/ci0/access"], known["gpu1/gi0/access"]] == [21, 22, 138]
    assert list(known.values()) == list(range(1, 4323))
    assert list(known)[-1] == "gpu31/gi14/ci7/access"
    assert (machine.proc / "driver/nvidia-caps/sys-minors").read_text() == "fabric-imex-mgmt 4323\n"


def test_more_gpus_than_a_driver_knows_have_minors_too(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "a30", 40)
    machine.mig(39).create("1g.6gb")

    assert (granted(machine, 39), nodes(machine)) == expected(machine, 39)


def test_model_without_mig_has_the_folders_too(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "t4", "t4", 1)

    assert (capabilities(machine) / "gpu0" / "mig").is_dir()
    assert (capabilities(machine) / "mig" / "monitor").read_text().splitlines() == [
        "DeviceFileMinor: 2",
        "DeviceFileMode: 292",
        "DeviceFileModify: 1",
    ]
    assert {path.name for path in (machine.dev / "nvidia-caps").iterdir()} == {"nvidia-cap1", "nvidia-cap2"}


def test_files_of_instances_come_and_go_with_them(machine: Machine) -> None:
    mig = machine.mig(1)
    mig.create("1g.10gb", "3g.40gb")

    assert granted(machine, 1) == {"gi1/access", "gi1/ci0/access", "gi13/access", "gi13/ci0/access"}
    assert nodes(machine) == {"nvidia-cap147", "nvidia-cap148", "nvidia-cap255", "nvidia-cap256"}
    text = (capabilities(machine) / "gpu1/mig/gi13/access").read_text()
    assert text.splitlines() == ["DeviceFileMinor: 255", "DeviceFileMode: 292", "DeviceFileModify: 1"]
    mig.destroy(13)
    assert granted(machine, 1) == {"gi1/access", "gi1/ci0/access"}
    mig.destroy_compute(1, 0)
    assert granted(machine, 1) == {"gi1/access"}
    mig.reset()
    assert (granted(machine, 1), nodes(machine)) == (set(), set())
    assert granted(machine, 0) == set()


def test_a_gpu_that_is_unplugged_has_none_until_it_is_back(machine: Machine) -> None:
    machine.mig(0).create("1g.10gb")
    before = granted(machine, 0), nodes(machine)

    machine.unplug(0)

    assert not (capabilities(machine) / "gpu0").exists()
    assert nodes(machine) == set()
    machine.plug(0)
    assert (granted(machine, 0), nodes(machine)) == before


def test_the_next_change_makes_good_what_was_left_out(machine: Machine) -> None:
    mig = machine.mig(0)
    mig.create("1g.10gb", "1g.10gb", "2g.20gb")
    folder = capabilities(machine) / "gpu0" / "mig"
    shutil.rmtree(folder / "gi13")
    (folder / "gi7").mkdir()
    (folder / "gi7" / "access").touch()
    (machine.dev / "nvidia-caps" / "nvidia-cap12").unlink(missing_ok=True)

    mig.create("1g.10gb")

    assert (granted(machine, 0), nodes(machine)) == expected(machine, 0)


def test_imex_channels_have_nodes_where_they_are_asked_for(machine: Machine, tmp_path: Path) -> None:
    folder = machine.dev / "nvidia-caps-imex-channels"
    assert not folder.exists()

    machine.add_imex_channels(2)
    machine.add_imex_channels(3)

    assert {path.name for path in folder.iterdir()} == {"channel0", "channel1", "channel2"}
    with pytest.raises(InputError, match="0 to 2048"):
        machine.add_imex_channels(2049)
    assert main(["up", "-n", "1", "--imex-channels", "1", "--dir", str(tmp_path / "other")]) == 0
    assert [path.name for path in (tmp_path / "other/dev/nvidia-caps-imex-channels").iterdir()] == ["channel0"]


def test_a_foreign_file_in_their_place_is_one_line(machine: Machine) -> None:
    machine.mig(0).create("1g.10gb")
    (capabilities(machine) / "gpu0/mig/gi13/ci0/mine").touch()

    with pytest.raises(HostError, match="not empty"):
        machine.mig(0).clear()

    assert machine.mig(0).instances == ()
