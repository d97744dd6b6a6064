"""Devices that are nothing but files: Iluvatar chips and plain files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fakegpu import InputError, Machine
from fakegpu.cli.main import main
from fakegpu.cli.vendor_commands import write_plain
from fakegpu.files.folder import default_directory
from fakegpu.vendors.amd.exporter import exporter
from fakegpu.vendors.amd.machine import remove_amd, write_amd
from fakegpu.vendors.amd.model import load_amd_profile
from fakegpu.vendors.iluvatar import ECC_ERROR, set_health, write_iluvatar


def test_iluvatar_chips_have_device_nodes_and_numa_nodes(tmp_path: Path) -> None:
    write_iluvatar(tmp_path, 4)

    assert sorted(path.name for path in (tmp_path / "dev").iterdir()) == [
        "iluvatar0",
        "iluvatar1",
        "iluvatar2",
        "iluvatar3",
        "itrctl",
    ]
    folders = sorted((tmp_path / "sys/bus/pci/devices").iterdir())
    assert [(folder / "numa_node").read_text() for folder in folders] == ["0\n", "0\n", "1\n", "1\n"]
    assert {(folder / "vendor").read_text() for folder in folders} == {"0x1e3e\n"}


@pytest.mark.parametrize("count", [0, -1, 65])
def test_number_of_chips_that_cannot_be(count: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 to 64"):
        write_iluvatar(tmp_path, count)


def test_two_chips_of_a_board_share_its_number_and_its_numa_node(tmp_path: Path) -> None:
    write_iluvatar(tmp_path, 8, chips_per_board=2)

    folders = sorted((tmp_path / "sys/bus/pci/devices").iterdir())
    assert [(folder / "ixml/board").read_text() for folder in folders] == [
        f"{board}\n" for board in (0, 0, 1, 1, 2, 2, 3, 3)
    ]
    assert [(folder / "ixml/position").read_text() for folder in folders] == ["0\n", "1\n"] * 4
    assert [(folder / "numa_node").read_text() for folder in folders] == ["0\n"] * 4 + ["1\n"] * 4


def test_chips_are_replaced_by_fewer(tmp_path: Path) -> None:
    write_iluvatar(tmp_path, 4)

    write_iluvatar(tmp_path, 2)

    assert sorted(path.name for path in (tmp_path / "dev").iterdir()) == ["iluvatar0", "iluvatar1", "itrctl"]
    assert len(list((tmp_path / "sys/bus/pci/devices").iterdir())) == 2


def test_an_iluvatar_chip_becomes_unhealthy_and_healthy_again(tmp_path: Path) -> None:
    chip = write_iluvatar(tmp_path, 2)[1]
    health = tmp_path / "sys/bus/pci/devices" / chip.address / "ixml/health"

    set_health(tmp_path, chip.uuid, ECC_ERROR)
    assert health.read_text() == "0x10\n"

    set_health(tmp_path, chip.uuid, 0)
    assert health.read_text() == "0x0\n"


def test_no_such_iluvatar_chip(tmp_path: Path) -> None:
    write_iluvatar(tmp_path, 1)

    with pytest.raises(InputError, match="no Iluvatar chip 'GPU-nobody'"):
        set_health(tmp_path, "GPU-nobody", 0)


def test_plain_files_are_below_the_folder(tmp_path: Path) -> None:
    write_plain(tmp_path, ["etc/gophers/g1", "/etc/gophers/g2"])

    assert sorted(path.name for path in (tmp_path / "etc/gophers").iterdir()) == ["g1", "g2"]


def test_plain_file_that_is_there_keeps_its_content(tmp_path: Path) -> None:
    write_plain(tmp_path, ["etc/g1"])
    (tmp_path / "etc/g1").write_text("mine")

    write_plain(tmp_path, ["etc/g1"])

    assert (tmp_path / "etc/g1").read_text() == "mine"


@pytest.mark.parametrize("path", ["", "/", "../g1", "etc/../../g1", "etc/gophers/"])
def test_plain_file_cannot_leave_the_folder(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no file below"):
        write_plain(tmp_path / "node", ["etc/good", path])

    assert list(tmp_path.iterdir()) == []


def test_vendors_share_the_folder_of_a_machine(tmp_path: Path) -> None:
    folder = ["--dir", str(tmp_path / "node")]

    assert main(["up", "--profile", "t4", "-n", "2", *folder]) == 0
    assert main(["amd", "up", "--profile", "mi210", "-n", "2", *folder]) == 0
    assert main(["iluvatar", "-n", "2", *folder]) == 0
    assert main(["files", "etc/gophers/g1", *folder]) == 0

    machine = Machine.open(tmp_path / "node")
    assert {path.name for path in machine.dev.iterdir()} >= {"nvidia0", "nvidia1", "kfd", "dri", "iluvatar1"}
    assert len(list((machine.sys / "bus/pci/devices").iterdir())) == 6
    assert main(["down", *folder]) == 0
    assert not (tmp_path / "node").exists()


MADE = {
    "amd": ["amd", "up", "--profile", "mi210", "-n", "2"],
    "iluvatar": ["iluvatar", "-n", "2"],
    "files": ["files", "etc/gophers/g1", "/srv/gophers/g2"],
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("with_machine", [True, False], ids=["beside a machine", "alone"])
def test_down_removes_devices_of_other_vendors(tmp_path: Path, made: list[str], with_machine: bool) -> None:
    option = ["--dir", str(tmp_path / "node")]
    if with_machine:
        assert main(["up", "-n", "1", *option]) == 0
    assert main([*made, *option]) == 0
    assert main([*made, *option]) == 0

    assert main(["down", *option]) == 0

    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_down_leaves_what_others_made(tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    option = ["--dir", str(tmp_path / "node")]
    assert main([*made, *option]) == 0
    (tmp_path / "node" / "mine").touch()

    assert main(["down", *option]) == 2

    assert capsys.readouterr().err == f"error: {tmp_path / 'node'} also holds mine: move that away first\n"
    assert (tmp_path / "node" / "mine").exists()


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_down_leaves_a_folder_that_was_somebody_elses(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "dev").mkdir()
    assert main([*made, "--dir", str(tmp_path)]) == 0

    assert main(["down", "--dir", str(tmp_path)]) == 2

    assert (tmp_path / "dev").is_dir()


def test_refused_file_claims_nothing(tmp_path: Path) -> None:
    assert main(["files", "../outside", "--dir", str(tmp_path / "node")]) == 2

    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize("made", [MADE["amd"], MADE["iluvatar"]], ids=["amd", "iluvatar"])
def test_devices_of_a_foreign_folder_are_not_replaced(
    tmp_path: Path, made: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "root"
    write_amd(folder, load_amd_profile("mi210"), 1)
    write_iluvatar(folder, 1)
    before = sorted(folder.rglob("*"))

    assert main([*made, "--dir", str(folder)]) == 2

    assert capsys.readouterr().err.endswith(" is there and not of fakegpu: choose another directory\n")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
@pytest.mark.parametrize("part", ["dev", ".fakegpu"])
def test_nothing_is_made_behind_a_link(
    tmp_path: Path, made: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = tmp_path / "node", tmp_path / "target"
    assert main([*made, "--dir", str(folder)]) == 0
    if (folder / part).is_dir():
        (folder / part).rename(target)
    else:
        (folder / part).unlink(missing_ok=True)
        target.touch()
    (folder / part).symlink_to(target)
    before = sorted(target.rglob("*"))
    capsys.readouterr()

    assert main([*made, "--dir", str(folder)]) == 2

    assert capsys.readouterr().err == f"error: {folder / part} is a link: choose another directory\n"
    assert sorted(target.rglob("*")) == before


def test_amd_devices_that_are_links_elsewhere_take_nothing_with_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "letters").mkdir(parents=True)
    write_amd(tmp_path / "node", load_amd_profile("mi210"), 1)
    (tmp_path / "node/sys/bus/pci/drivers/amdgpu/0000:99:00.0").symlink_to(home)
    shutil.rmtree(tmp_path / "node/dev/dri")
    (tmp_path / "node/dev/dri").symlink_to(home)

    remove_amd(tmp_path / "node")

    assert (home / "letters").is_dir()
    assert not (tmp_path / "node/dev/dri").is_symlink()


@pytest.mark.parametrize("mark", ["", "mine\n", "\xff"])
def test_mark_of_somebody_else_claims_nothing(tmp_path: Path, mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / ".fakegpu").write_text(mark, encoding="latin-1")

    assert main(["down", "--dir", str(tmp_path)]) == 2

    assert (tmp_path / "mine").is_dir()


def test_link_to_a_folder_is_not_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "link"
    assert main([*MADE["files"], "--dir", str(tmp_path / "node")]) == 0
    link.symlink_to(tmp_path / "node")

    assert main(["down", "--dir", str(link)]) == 2

    assert capsys.readouterr().err == f"error: {link} is a link: name the folder itself\n"
    assert (tmp_path / "node" / "etc").is_dir()


def test_default_folder_that_another_user_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    place = default_directory()
    place.mkdir()

    for command in (["up"], ["down"], *MADE.values()):
        assert main(command) == 2
        assert capsys.readouterr().err == f"error: {place}: belongs to another user; choose another folder with --dir\n"
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("command", [["up"], ["down"], ["list"], *MADE.values()], ids=" ".join)
def test_folder_deeper_than_any_recursion_is_one_line(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = "/".join(["d"] * 1900)
    assert main([*command, "--dir", str(tmp_path / deep)]) == main(["files", deep, "--dir", str(tmp_path)]) == 2

    assert capsys.readouterr().err.count("\n") == 2
    assert list(tmp_path.iterdir()) == []


def test_exporter_leaves_a_file_that_took_its_sockets_place(tmp_path: Path) -> None:
    write_amd(tmp_path, load_amd_profile("mi210"), 1)
    place = tmp_path / "exporter.sock"

    with exporter(tmp_path, place):
        place.unlink()
        place.write_text("mine")

    assert place.read_text() == "mine"


@pytest.mark.parametrize(("before", "status"), [("", 0), ('{"cdiVersion": "0.5.0"}', 0), ("my diary", 2)])
def test_output_replaces_only_its_own_kind(
    tmp_path: Path, before: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text(before)
    assert main(["up", "-n", "1", "--dir", str(tmp_path / "node")]) == 0

    assert main(["cdi", "--dir", str(tmp_path / "node"), "-o", str(file)]) == status

    refused = f"error: -o: {file} is there already and is not a CDI specification: remove it or choose another file\n"
    assert capsys.readouterr().err == (refused if status else "")
    assert (file.read_text() == before) == bool(status)
