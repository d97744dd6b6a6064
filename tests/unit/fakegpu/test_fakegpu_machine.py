"""Making, opening and removing machines."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fakegpu
from fakegpu import HostError, InputError, Machine, default_directory
from fakegpu.cli.main import main
from fakegpu.files.folder import is_claimed
from tests.support.decoy import make_deep_folder


def test_machine_is_a_folder_of_plain_files(machine: Machine) -> None:
    assert machine.library.is_file()
    links = [path for path in machine.directory.rglob("*") if path.is_symlink()]
    assert {(path.name, path.resolve()) for path in links} == {("driver", machine.sys / "bus/pci/drivers/nvidia")}
    assert sorted(path.name for path in machine.dev.iterdir()) == [
        *("nvidia-caps", "nvidia-modeset"),
        *("nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitch2", "nvidia-nvswitch3", "nvidia-nvswitchctl"),
        *("nvidia-uvm", "nvidia-uvm-tools"),
        *("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl"),
    ]
    folder = machine.sys / "bus" / "pci" / "devices" / "0000:1b:00.0"
    names = ("vendor", "device", "class", "numa_node")
    assert [(folder / name).read_text() for name in names] == ["0x10de\n", "0x2330\n", "0x030200\n", "0\n"]


def test_uuids_have_the_form_of_nvidias_and_follow_from_the_seed(tmp_path: Path) -> None:
    uuids = {
        name: [gpu.uuid for gpu in Machine.create(tmp_path / name, count=2, seed=seed).gpus]
        for name, seed in {"a": "x", "b": "x", "c": "y", "d": None, "e": None}.items()
    }

    assert uuids["a"] == uuids["b"]
    assert len({uuid for name in "acde" for uuid in uuids[name]}) == 8
    for uuid in uuids["d"]:
        assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)


def test_gpu_is_found_by_number_digits_and_uuid(machine: Machine) -> None:
    gpu = machine.gpu(2)

    assert machine.gpu("2") == machine.gpu(gpu.uuid) == gpu


@pytest.mark.parametrize("selector", [4, -1, "4", "-1", "GPU-nobody", ""])
def test_unknown_gpu_names_the_range(machine: Machine, selector: int | str) -> None:
    with pytest.raises(InputError, match="0 to 3"):
        machine.gpu(selector)


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_count_out_of_range_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(InputError, match="1 to 1024"):
        Machine.create(tmp_path / "node", count=count)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_largest_machine_works(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", count=1024)

    machine.fail(1023, xid=79)

    assert machine.gpu(1023).last_xid == 79
    assert len({gpu.pci_bus_id for gpu in machine.gpus}) == 1024


def test_empty_folder_is_taken_and_parents_are_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    Machine.create(tmp_path / "empty", count=1)
    Machine.create(tmp_path / "new" / "deep", count=1)

    assert len(Machine.open(tmp_path / "empty").gpus) == 1


def test_machine_is_not_overwritten(machine: Machine) -> None:
    with pytest.raises(InputError, match="already is a fake machine"):
        Machine.create(machine.directory)


def test_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")

    with pytest.raises(InputError, match="not empty"):
        Machine.create(tmp_path / "mine")
    with pytest.raises(InputError, match="no fake machine"):
        Machine.open(tmp_path / "mine")

    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "letter.txt"]


def test_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="is a file"):
        Machine.create(tmp_path / "file")
    with pytest.raises(InputError, match="; choose another folder"):
        Machine.create(tmp_path / "file" / "below")


def test_failed_creation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_late(root: Path, *_: object) -> None:
        (root / "half").write_text("")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fakegpu.files.tree.write_tree", fail_late)

    with pytest.raises(HostError, match="No space left on device"):
        Machine.create(tmp_path / "node")

    assert list(tmp_path.iterdir()) == []


def test_failed_creation_removes_the_parents_it_made_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "mine").mkdir()
    monkeypatch.setattr("fakegpu.files.tree.write_tree", fail)

    with pytest.raises(HostError, match="No space left on device"):
        Machine.create(tmp_path / "mine" / "new" / "deep" / "node")

    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def test_next_machine_removes_what_killed_commands_have_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, half, empty, running, foreign, marked = (
        tmp_path / f".node.{name}" for name in ("abcdefg1", "abcdefg2", "________", "running1", "mine_1_1", "mine_1_2")
    )
    for folder in (left, half, running, foreign, marked):
        (folder / "lib").mkdir(parents=True)
    for folder in (left, running):
        (folder / ".fakegpu").write_text("# Made by fakegpu, which removes this folder with what is named here.\n")
    (marked / ".fakegpu").write_text("lib\n")
    (half / "segment").touch()
    empty.mkdir()
    others = [tmp_path / ".node.backup.1", tmp_path / ".other.abcdefg1", foreign, marked, running]
    for folder in others:
        folder.mkdir(exist_ok=True)

    Machine.create(tmp_path / "node").destroy()
    assert left.exists(), "it may have been made just now"
    monkeypatch.setattr("fakegpu.files.folder._MARKED_WITHIN_S", -1.0)
    descriptor = os.open(running, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    Machine.create(tmp_path / "node").destroy()
    os.close(descriptor)

    assert sorted(tmp_path.iterdir()) == sorted(others)


def test_missing_library_says_how_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKEGPU_LIBRARY", raising=False)
    monkeypatch.setattr("fakegpu.state.library.NAME", "libnot-built.so.1")

    with pytest.raises(HostError, match=r"pip install -e \."):
        Machine.create(tmp_path / "parent" / "node")

    assert list(tmp_path.iterdir()) == []


def test_closed_machine_says_so_and_stays_up(machine: Machine) -> None:
    machine.close()
    machine.close()

    for use in (lambda: machine.gpus, lambda: machine.set(0, "temperature", 50), lambda: machine.fail(0, xid=79)):
        with pytest.raises(InputError, match="is closed in this process: open it again"):
            use()
    assert len(Machine.open(machine.directory).gpus) == 4


def test_destroy_removes_the_folder_only(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "neighbour").write_text("")

    machine.destroy()

    assert [path.name for path in tmp_path.iterdir()] == ["neighbour"]


def test_destroy_refuses_a_folder_that_holds_more(machine: Machine) -> None:
    (machine.directory / "letter.txt").write_text("dear")

    with pytest.raises(InputError, match="also holds letter"):
        machine.destroy()

    assert len(Machine.open(machine.directory).gpus) == 4


def test_process_keeps_its_gpus_when_the_machine_goes(machine: Machine, nvml: ctypes.CDLL) -> None:
    count = ctypes.c_uint()

    machine.destroy()

    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == 4


def test_recreated_machine_is_visible_after_the_next_init(machine: Machine, nvml: ctypes.CDLL) -> None:
    count = ctypes.c_uint()
    machine.destroy()
    again = Machine.create(machine.directory, count=2)

    assert nvml.nvmlShutdown() == 0
    assert nvml.nvmlInit_v2() == 0

    assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
    assert count.value == 2
    again.close()


def test_environment_puts_library_and_programs_first(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.setenv("PATH", "/usr/bin")

    assert machine.environment() == {
        "LD_LIBRARY_PATH": f"{machine.library.parent}:/somewhere",
        "FAKEGPU_SEGMENT": str(machine.directory / "segment"),
        "PATH": f"{machine.directory}/bin:/usr/bin",
    }


def test_default_directory_follows_the_users_runtime_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert default_directory() == Path(f"/tmp/fakegpu-{os.getuid()}")

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert default_directory() == tmp_path / "fakegpu"

    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    assert default_directory() == Path(f"/tmp/fakegpu-{os.getuid()}")


def test_file_in_place_of_the_temporary_folder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))

    assert main(["up", "--profile", "t4"]) == 2
    assert capsys.readouterr().err.endswith("; choose another folder with --dir\n")


def test_working_directory_that_is_gone_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert main(["up", "--profile", "t4", "--dir", "m"]) == 2
    assert capsys.readouterr().err == "error: m: the working directory is gone; change to another one\n"


def test_lock_of_another_user_does_not_hold_a_removal_up(tmp_path: Path) -> None:
    machine = Machine.create(tmp_path / "node", "t4", 1)
    held = os.open(machine.directory, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        machine.destroy()
    finally:
        os.close(held)

    assert list(tmp_path.iterdir()) == []


def test_machine_that_cannot_be_moved_leaves_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine.create(tmp_path / "node", "t4", 1)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(InputError):
            machine.destroy()

    assert list(tmp_path.iterdir()) == [machine.directory]


def test_public_names_are_sorted_and_found_when_asked_for() -> None:
    assert sorted(fakegpu.__all__) == fakegpu.__all__
    assert {name: getattr(fakegpu, name).__name__ for name in fakegpu.__all__} == {
        name: name for name in fakegpu.__all__
    }
    assert set(fakegpu.__all__) <= set(dir(fakegpu))
    assert {"Machine", "Profile"} <= set(fakegpu.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Machines'"):
        fakegpu.Machines  # noqa: B018 - asked for on purpose


def test_example_of_the_package_breaks_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = textwrap.dedent((fakegpu.__doc__ or "").partition("::\n\n")[2].partition("\n\nA `Profile`")[0])
    listed: list[dict[str, str]] = []
    names: dict[str, object] = {}
    monkeypatch.setattr(subprocess, "run", lambda command, env: listed.append(env))

    exec(example.replace("/tmp/node-1", str(tmp_path / "node-1")).replace("machine.destroy()", ""), names)  # noqa: S102 - our own
    machine = names["machine"]

    assert isinstance(machine, Machine)
    assert listed[0].items() >= machine.environment().items()
    assert [gpu.index for gpu in machine.gpus if gpu.last_xid == 79] == [3]


@pytest.mark.parametrize(
    "put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir], ids=["fifo", "zero", "dir"]
)
def test_mark_that_is_no_file_is_not_read(machine: Machine, put: Callable[[Path], object]) -> None:
    put(machine.directory / ".fakegpu")

    assert not is_claimed(machine.directory)
    with pytest.raises(InputError, match=r"also holds \.fakegpu"):
        machine.destroy()


def test_what_another_user_left_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".node.abcdefg1"
    left.mkdir()
    (left / "segment").touch()
    monkeypatch.setattr("fakegpu.files.folder._MARKED_WITHIN_S", -1.0)
    monkeypatch.setattr(os, "getuid", lambda: left.stat().st_uid + 1)

    Machine.create(tmp_path / "node").destroy()

    assert (left / "segment").exists()


def test_folders_deeper_than_a_recursion_goes_are_removed(machine: Machine) -> None:
    pci = next((machine.sys / "bus/pci/devices").iterdir())
    for folder in (machine.dev, pci):
        make_deep_folder(folder / "deep", 2_000)

    machine.unplug(0)
    machine.destroy()

    assert not pci.exists()
    assert not machine.directory.exists()


def test_link_that_takes_the_place_of_a_folder_during_its_removal_leads_nowhere(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    shutil.copytree(machine.directory, victim, symlinks=True)
    before = sorted(victim.rglob("*"))

    def swap(name: str, **given: Any) -> None:
        monkeypatch.undo()
        [doomed] = tmp_path.glob(f".{machine.directory.name}.*")
        doomed.rename(tmp_path / "moved")
        doomed.symlink_to(victim)
        os.rmdir(name, **given)

    monkeypatch.setattr(os, "rmdir", swap)
    with pytest.raises(InputError, match="Not a directory"):
        machine.destroy()

    assert sorted(victim.rglob("*")) == before
